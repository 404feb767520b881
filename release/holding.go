package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"tsmon/channels"
	"tsmon/store/object"
)

// holding is the records of a version. Several come about when a release that no
// channel showed is added to or discarded: each is a new object, release.json,
// release-2.json and so on, created only where none stands, so that of two publishers
// at once one learns of the other.
type holding struct {
	records []*Record // oldest first
	// counts is the record that a log names, else the newest; nil if there is none or
	// it is the mark of a discarded release.
	counts *Record
	shown  string // a channel that shows or showed the version; empty: none
}

// next is the number of the record that would follow.
func (h *holding) next() int { return len(h.records) + 1 }

// maxRecords bounds how often a release may be added to or discarded.
const maxRecords = 1000

// holding reads the records of a version and looks for it in the logs of all
// channels.
func (l Library) holding(ctx context.Context, version string) (*holding, error) {
	records, err := l.records(ctx, version)
	if err != nil {
		return nil, err
	}
	return l.hold(ctx, records, nil)
}

// hold looks for the version of records in the logs of v, then in those of all other
// channels of the store.
func (l Library) hold(ctx context.Context, records []*Record, v view) (*holding, error) {
	h := &holding{records: records}
	if len(records) == 0 {
		return h, nil
	}
	h.settle(v.logs())
	if h.shown == "" {
		logs, err := channels.Repository{Store: l.Store, Trust: l.Trust}.All(ctx)
		if err != nil {
			return nil, err
		}
		h.settle(logs)
	}
	if h.shown != "" && h.counts == nil {
		return nil, notNamed(records[0].Version)
	}
	return h, nil
}

func notNamed(version string) error {
	return refuse(ErrStored, "`tsmon channel repair CHANNEL --bundle FILE` puts it back, FILE with the bytes of its release.json", "no record in %s is the one that the log names", folder(version))
}

// logs are those that could be read.
func (v view) logs() []*channels.Log {
	var logs []*channels.Log
	for _, s := range v {
		if s.err == nil {
			logs = append(logs, s.log)
		}
	}
	return logs
}

// settle decides which record counts.
func (h *holding) settle(logs []*channels.Log) {
	newest := h.records[len(h.records)-1]
	if h.counts = newest; newest.Discarded {
		h.counts = nil
	}
	for _, log := range logs {
		if !log.Shown(h.records[0].Version) {
			continue
		}
		h.shown, h.counts = log.Channel, nil
		for _, r := range h.records {
			if r.sum == log.Record(r.Version) {
				h.counts = r
				return
			}
		}
	}
}

// extendedBy reports whether bundles are those of a record, and more.
func (r *Record) extendedBy(ours []Stored) bool {
	for _, b := range r.Bundles {
		if b.updates() && !slices.ContainsFunc(ours, b.same) {
			return false
		}
	}
	return slices.ContainsFunc(ours, func(own Stored) bool { return !slices.ContainsFunc(r.Bundles, own.same) })
}

// same reports whether two are the same bytes for the same use.
func (s *Stored) same(other Stored) bool {
	return s.BLAKE2b == other.BLAKE2b && (s.overlaps(other) || !s.updates() && !other.updates())
}

// has reports whether a record has the bytes of a bundle for its keys.
func (r *Record) has(b Stored) bool {
	return slices.ContainsFunc(r.Bundles, func(other Stored) bool {
		return other.BLAKE2b == b.BLAKE2b && !slices.ContainsFunc(b.Keys, func(key string) bool { return !slices.Contains(other.Keys, key) })
	})
}

// signed reports whether a record has the bytes of a bundle, signed by the same key.
func (r *Record) signed(b Stored) bool {
	return slices.ContainsFunc(r.Bundles, func(other Stored) bool { return other.same(b) && other.signer() == b.signer() })
}

// record returns the SHA-256 of the record that the logs name for a version, empty if
// none does.
func (v view) record(version string) string {
	for _, log := range v.logs() {
		if sum := log.Record(version); sum != "" {
			return sum
		}
	}
	return ""
}

// records reads all records of a version, oldest first.
func (l Library) records(ctx context.Context, version string) ([]*Record, error) {
	var records []*Record
	for number := 1; number <= maxRecords; number++ {
		r, err := l.record(ctx, version, number)
		if errors.Is(err, fs.ErrNotExist) {
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return nil, refuse(ErrStored, "release under another version", "%s has more than %d records", folder(version), maxRecords)
}

// record reads one record of a version; fs.ErrNotExist if there is none.
func (l Library) record(ctx context.Context, version string, number int) (*Record, error) {
	key := recordKey(version, number)
	data, _, err := object.ReadAll(ctx, l.Store, key, maxRecord)
	if err != nil {
		return nil, err
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil || r.Version != version || (len(r.Bundles) == 0) != r.Discarded || r.Discarded && number == 1 {
		return nil, refuse(ErrStored, "`tsmon channel repair CHANNEL --bundle FILE` puts it back, FILE with the bytes of its release.json", "%s is not the record of %s", key, version)
	}
	r.sum, r.number = sumOf(data), number
	return &r, nil
}

// Named returns the record of a version with a SHA-256 that a log names.
func (l Library) Named(ctx context.Context, version, sum string) (*Record, error) {
	for number := 1; number <= maxRecords; number++ {
		r, err := l.record(ctx, version, number)
		if err == nil && !r.Discarded && (r.sum == sum || sum == "") {
			return r, nil
		}
		if errors.Is(err, fs.ErrNotExist) && number == 1 {
			return nil, refuse(ErrNoRelease, "`tsmon release list` shows what is published and what is staged", "%s is not in the store", version)
		}
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, notNamed(version)
}

// recordKey is the key of a version's record with a number, from 1.
func recordKey(version string, number int) string {
	if number == 1 {
		return root + version + recordEnd
	}
	return fmt.Sprintf("%s%s/release-%d.json", root, version, number)
}

// versionIn returns the version in the key of an object of a release.
func versionIn(key string) (version string, ok bool) {
	rest, ok := strings.CutPrefix(key, root)
	version, _, cut := strings.Cut(rest, "/")
	return version, ok && cut
}

// IsRecord reports whether a key is that of a release's record.
func IsRecord(key string) bool {
	version, file, _ := strings.Cut(strings.TrimPrefix(key, root), "/")
	number := 1
	if text, several := strings.CutPrefix(strings.TrimSuffix(file, ".json"), "release-"); several {
		number, _ = strconv.Atoi(text) // 0 makes another key
	}
	return recordKey(version, number) == key
}
