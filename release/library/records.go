package library

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"strings"

	"tsmon/channels"
	"tsmon/release/bundle"
	"tsmon/store/object"
)

// RecordSet holds the records of a version. A release that no channel showed gets another record when
// bundles are added or it is discarded. Each record is a new object: release.json, release-2.json and
// so on. An object is only created if none exists, so that one of two concurrent publishers learns of
// the other.
type RecordSet struct {
	records []*Record // oldest first
	// counts is the record that a log names, else the newest; nil if there is none or
	// it is the mark of a discarded release.
	Counts *Record
	Shown  string // a channel that shows or showed the version; empty: none
}

// Next is the number of the record that would follow.
func (h *RecordSet) Next() int { return len(h.records) + 1 }

// maxRecords bounds how often a release may be added to or discarded.
const maxRecords = 1000

// recordSet reads the records of a version and looks for it in the logs of all
// channels.
func (l Library) recordSet(ctx context.Context, version string) (*RecordSet, error) {
	records, err := l.Records(ctx, version)
	if err != nil {
		return nil, err
	}
	return l.Decide(ctx, records, nil)
}

// Decide looks for the version of records in logs, then in those of all other channels of
// the store.
func (l Library) Decide(ctx context.Context, records []*Record, logs []*channels.Log) (*RecordSet, error) {
	h := &RecordSet{records: records}
	if len(records) == 0 {
		return h, nil
	}
	h.settle(logs)
	if h.Shown == "" {
		all, err := channels.Repository{Store: l.Store, Trust: l.Trust}.All(ctx)
		if err != nil {
			return nil, err
		}
		h.settle(all)
	}
	if h.Shown != "" && h.Counts == nil {
		return nil, notNamed(records[0].Version)
	}
	return h, nil
}

// NotInStore returns the refusal of a version that the store does not hold.
func NotInStore(version string) error {
	return bundle.Refuse(ErrNoRelease, "`tsmon release list` shows what is published and what is staged", "%s is not in the store", version)
}

func notNamed(version string) error {
	return bundle.Refuse(ErrStored, "`tsmon channel repair CHANNEL --bundle FILE` restores it from a copy of its release.json", "no record in %s is the one that the log names", Folder(version))
}

// settle decides which record counts.
func (h *RecordSet) settle(logs []*channels.Log) {
	newest := h.records[len(h.records)-1]
	if h.Counts = newest; newest.Discarded {
		h.Counts = nil
	}
	for _, log := range logs {
		if !log.Shown(h.records[0].Version) {
			continue
		}
		h.Shown, h.Counts = log.Channel, nil
		for _, r := range h.records {
			if r.Sum == log.Record(r.Version) {
				h.Counts = r
				return
			}
		}
	}
}

// ExtendedBy reports whether bundles are those of a record, and more.
func (r *Record) ExtendedBy(ours []Stored) bool {
	for _, b := range r.Bundles {
		if b.Updates() && !slices.ContainsFunc(ours, b.Same) {
			return false
		}
	}
	return slices.ContainsFunc(ours, func(own Stored) bool { return !slices.ContainsFunc(r.Bundles, own.Same) })
}

// Same reports whether two are the same bytes for the same use.
func (s *Stored) Same(other Stored) bool {
	return s.BLAKE2b == other.BLAKE2b && (s.Overlaps(other) || !s.Updates() && !other.Updates())
}

// Has reports whether a record has the bytes of a bundle for its keys.
func (r *Record) Has(b Stored) bool {
	return slices.ContainsFunc(r.Bundles, func(other Stored) bool {
		return other.BLAKE2b == b.BLAKE2b && !slices.ContainsFunc(b.Keys, func(key string) bool { return !slices.Contains(other.Keys, key) })
	})
}

// Signed reports whether a record has the bytes of a bundle, signed by the same key.
func (r *Record) Signed(b Stored) bool {
	return slices.ContainsFunc(r.Bundles, func(other Stored) bool { return other.Same(b) && other.signer() == b.signer() })
}

// each reads the records of a version, oldest first, up to the first number that has none. An
// error ends it.
func (l Library) each(ctx context.Context, version string) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for number := 1; number <= maxRecords; number++ {
			data, err := l.Read(ctx, RecordKey(version, number), MaxRecord)
			if errors.Is(err, fs.ErrNotExist) {
				return
			}
			var r *Record
			if err == nil {
				r, err = parseRecord(version, number, data)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
		yield(nil, bundle.Refuse(ErrStored, "release under another version", "%s has %d records or more", Folder(version), maxRecords))
	}
}

// Records reads all records of a version, oldest first. With an error it returns those before it.
func (l Library) Records(ctx context.Context, version string) (records []*Record, err error) {
	for r, err := range l.each(ctx, version) {
		if err != nil {
			return records, err
		}
		records = append(records, r)
	}
	return records, nil
}

// Readable reads the records of a version, oldest first, up to one that is missing or damaged.
func (l Library) Readable(ctx context.Context, version string) ([]*Record, error) {
	records, err := l.Records(ctx, version)
	if errors.Is(err, object.ErrTooLarge) || errors.Is(err, ErrStored) {
		err = nil
	}
	return records, err
}

// parseRecord reads the bytes of a version's record with a number.
func parseRecord(version string, number int, data []byte) (*Record, error) {
	var r Record
	if err := json.Unmarshal(data, &r); err != nil || r.Version != version || (len(r.Bundles) == 0) != r.Discarded || r.Discarded && number == 1 {
		return nil, bundle.Refuse(ErrStored, "`tsmon channel repair CHANNEL --bundle FILE` restores it from a copy of its release.json", "%s is not the record of %s", RecordKey(version, number), version)
	}
	r.Sum, r.Number = SumOf(data), number
	return &r, nil
}

// Named returns the record of a version with a SHA-256 that a log names.
func (l Library) Named(ctx context.Context, version, sum string) (*Record, error) {
	err := NotInStore(version)
	for r, failed := range l.each(ctx, version) {
		if failed != nil {
			return nil, failed
		}
		if !r.Discarded && (r.Sum == sum || sum == "") {
			return r, nil
		}
		err = notNamed(version)
	}
	return nil, err
}

// RecordKey is the key of a version's record with a number, from 1.
func RecordKey(version string, number int) string {
	if number == 1 {
		return Root + version + recordEnd
	}
	return fmt.Sprintf("%s%s/release-%d.json", Root, version, number)
}

// VersionIn returns the version in the key of an object of a release.
func VersionIn(key string) (version string, ok bool) {
	rest, ok := strings.CutPrefix(key, Root)
	version, _, cut := strings.Cut(rest, "/")
	return version, ok && cut
}

// IsRecord reports whether a key is that of a release's record.
func IsRecord(key string) bool {
	version, file, _ := strings.Cut(strings.TrimPrefix(key, Root), "/")
	number := 1
	if text, several := strings.CutPrefix(strings.TrimSuffix(file, ".json"), "release-"); several {
		number, _ = strconv.Atoi(text) // 0 makes another key
	}
	return RecordKey(version, number) == key
}
