package channels

import (
	"context"
	"slices"

	"tsmon/channels/journal"
	"tsmon/manifest"
)

// Tail reads the newest entries of a channel's log, n at most, oldest first, and what
// leads to them: with a manifest that is not far behind, one object and one list. It
// checks the hashes between the entries that it returns, and like Load fails with ErrLog
// if an entry between them is missing that no later one says to be lost. Where operators
// are configured, or have signed one of the entries, it reads the whole log, since who
// must sign follows from the entries before.
func (r Repository) Tail(ctx context.Context, channel string, n int) ([]Entry, error) {
	if err := CheckName(channel); err != nil {
		return nil, err
	}
	if r.Trust[channel].Operators == nil {
		entries, err := r.journal(channel).newest(ctx, n)
		signed := func(e Entry) bool { return len(e.Signatures) > 0 || e.Operators != nil }
		if err != nil || !slices.ContainsFunc(entries, signed) {
			return entries, err
		}
	}
	log, err := r.Load(ctx, channel)
	if err != nil {
		return nil, err
	}
	return log.Entries[max(0, len(log.Entries)-n):], nil
}

// newest is Tail without a check of signatures.
func (c chain) newest(ctx context.Context, n int) ([]Entry, error) {
	present, err := c.newestNumbers(ctx, n)
	if err != nil || len(present) == 0 {
		return nil, err
	}
	known, newest := present[0]-1, present[len(present)-1]
	if newest-known > journal.MaxEntries {
		return nil, journal.Faulty(c.Channel, newest, "entries up to %d of %s are missing", newest-1, c.Channel)
	}
	raw := make([][]byte, newest-known)
	packed := c.ReadSegments(ctx, known, raw)
	entries, err := c.tail(ctx, present, raw)
	if err != nil && packed { // a segment may not be the log's
		entries, err = c.tail(ctx, present, make([][]byte, len(raw)))
	}
	return entries, err
}

// newestNumbers lists the n highest numbers of entries, or all if there are fewer.
func (c chain) newestNumbers(ctx context.Context, n int) ([]uint64, error) {
	begin := uint64(0) // the list begins behind it
	if shown, err := c.Read(ctx, ManifestKey(c.Channel), manifest.MaxSize); err == nil {
		if m, err := manifest.Decode(shown); err == nil {
			begin = m.Sequence - min(m.Sequence, uint64(n))
		}
	}
	found, err := c.Numbers(ctx, begin, false)
	if err == nil && len(found.Numbers) < n && begin > 0 { // entries are lost, or the manifest is ahead
		found, err = c.Numbers(ctx, 0, false)
	}
	present := found.Numbers
	return present[max(0, len(present)-n):], err
}

// tail reads and checks the entries in present, except those that raw already holds; raw
// begins with the first of them.
func (c chain) tail(ctx context.Context, present []uint64, raw [][]byte) ([]Entry, error) {
	known := present[0] - 1
	for i := range raw {
		if _, ok := slices.BinarySearch(present, known+uint64(i)+1); !ok {
			raw[i] = []byte{} // ReadEntries passes over it
		}
	}
	if err := c.ReadEntries(ctx, known, raw); err != nil {
		return nil, err
	}
	before := &Log{Channel: c.Channel}
	if known > 0 {
		first, _ := decodeEntry(raw[0]) // span reports what is wrong with it
		before.Entries, before.head = []Entry{{Sequence: known}}, first.Previous
	}
	log, gaps, err := extension{Log: before}.span(raw)
	switch {
	case err != nil:
		return nil, err
	case len(gaps) > 0:
		return nil, gaps[0].Problem
	}
	return log.Entries[len(before.Entries):], nil
}
