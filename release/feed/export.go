package feed

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"slices"

	"tsmon/channels"
	"tsmon/release"
	"tsmon/release/bundle"
	"tsmon/release/library"
)

// Export is the content of a file before it is written.
type Export struct {
	Report    Report
	publisher *release.Publisher
	header    Header
	small     []item // entries, then records
	bundles   []piece
}

// item is an entry or a record.
type item struct {
	key  string
	data []byte
}

// piece is a bundle of a version.
type piece struct {
	version string
	library.Stored
}

// NewExport reads the content of a file for the named channels. since has the last entry that
// the receiving store has, by channel. The file holds the entries after it, and the objects
// that a store with the log up to that entry lacks.
func NewExport(ctx context.Context, p *release.Publisher, names []string, since map[string]uint64) (*Export, error) {
	if err := p.Configured(names...); err != nil {
		return nil, err
	}
	x := &Export{publisher: p, header: Header{Format: headerFormat, Version: headerVersion},
		Report: Report{Channels: []Channel{}, Releases: []Release{}}}
	needed, has, sums := []string{}, map[string]bool{}, map[string]string{}
	var told []string // versions of the new entries
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		log, err := x.channel(ctx, name, since[name])
		if err != nil {
			return nil, err
		}
		earlier := until(log, since[name])
		for _, version := range lasting(earlier) {
			has[version] = true
		}
		needed = append(needed, lasting(log)...)
		for r := range library.Releases(log.Entries[len(earlier.Entries):]) {
			if sums[r.Version] == "" {
				sums[r.Version] = r.Record
				told = append(told, r.Version)
			}
		}
	}
	told = slices.DeleteFunc(told, func(version string) bool { return has[version] })
	for _, version := range told {
		if err := x.release(ctx, version, sums[version], slices.Contains(needed, version)); err != nil {
			return nil, err
		}
	}
	for _, c := range x.Report.Channels {
		x.Report.Changed = x.Report.Changed || c.Sequence > c.Since
	}
	return x, nil
}

// channel adds the entries of a channel after since, and returns its whole log.
func (x *Export) channel(ctx context.Context, name string, since uint64) (*channels.Log, error) {
	repository := x.publisher.Repository()
	raw, err := repository.Raw(ctx, name, 0)
	if err != nil {
		return nil, err
	}
	log, err := repository.Follow(ctx, &channels.Log{Channel: name}, raw)
	if err != nil {
		return nil, err
	}
	head, end := log.Head(), log.End()
	switch {
	case head == nil:
		return nil, refuse(library.ErrNoRelease, "`tsmon channel list` shows the channels of the store", "%s shows nothing", name)
	case since > end.Sequence:
		return nil, refuse(ErrOlder, "`tsmon channel log "+name+"` shows its entries; leave --since out for all of them", "%s ends at entry %d, before entry %d", name, end.Sequence, since)
	}
	for i, data := range raw[since:] {
		if len(data) > 0 { // an empty entry was lost
			x.small = append(x.small, item{channels.EntryKey(name, since+uint64(i)+1), data})
		}
	}
	x.header.Channels = append(x.header.Channels, Range{name, channels.Position{Sequence: since, Hash: log.HashOf(since)}, end})
	x.Report.Channels = append(x.Report.Channels, Channel{name, head.Version, since, end.Sequence})
	return log, nil
}

// release adds the record of a release, and its bundles if they are needed. A pruned release
// needs no bundles, and its record may be gone too.
func (x *Export) release(ctx context.Context, version, sum string, needed bool) error {
	releases := x.publisher.Library()
	data, err := releases.RecordData(ctx, version, sum)
	if err != nil && !needed && (errors.Is(err, library.ErrNoRelease) || errors.Is(err, library.ErrStored)) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := library.DecodeRecord(version, data)
	if err != nil {
		return err
	}
	x.small = append(x.small, item{library.RecordKey(version, 1), data})
	if !needed {
		return nil
	}
	for _, b := range r.Bundles {
		x.bundles = append(x.bundles, piece{version, b})
		x.Report.carried(version, b.Size)
	}
	return nil
}

// Write writes the file. It fails with library.ErrStored if a bundle is gone or its bytes
// are not those that were published.
func (x *Export) Write(ctx context.Context, w io.Writer) error {
	a, err := newArchive(w)
	if err != nil {
		return err
	}
	head, err := json.MarshalIndent(x.header, "", "  ")
	if err != nil {
		return err
	}
	if err := a.addBytes(headerName, append(head, '\n')); err != nil {
		return err
	}
	for _, m := range x.small {
		if err := a.addBytes(m.key, m.data); err != nil {
			return err
		}
	}
	for _, b := range x.bundles {
		if err := x.bundle(ctx, a, b); err != nil {
			return err
		}
	}
	return a.close()
}

// bundle copies a bundle and its signature.
func (x *Export) bundle(ctx context.Context, a *archive, b piece) error {
	key := library.BundleKey(b.version, b.Name)
	if b.Signature != "" {
		if err := a.addBytes(key+".sig", []byte(b.Signature)); err != nil {
			return err
		}
	}
	body, info, err := x.publisher.Store.Get(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return refuse(library.ErrStored, repairMend, "%s is gone", key)
	}
	if err != nil {
		return err
	}
	defer body.Close()
	if info.Size == b.Size {
		err = a.add(key, b.Size, bundle.Counted(b.Checked(body), key, b.Size, x.publisher.Transferred))
	}
	if info.Size != b.Size || errors.Is(err, library.ErrBytes) {
		return refuse(library.ErrStored, repairMend, "%s has other bytes than were published", key)
	}
	return err
}

const repairMend = "`tsmon channel repair CHANNEL --bundle FILE` restores it from a copy; then export again"
