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
	found, err := c.newestNumbers(ctx, n)
	if err != nil || len(found.Numbers) == 0 {
		return nil, err
	}
	before := extension{Log: &Log{Channel: c.Channel}}
	if known := found.Numbers[0] - 1; known > 0 {
		before.Entries, before.loose = []Entry{{Sequence: known}}, true
	}
	log, gaps, failed, err := c.extend(ctx, before, found, true)
	switch {
	case failed != nil:
		return nil, failed
	case err != nil:
		return nil, err
	case len(gaps) > 0:
		return nil, gaps[0].Problem
	}
	return log.Entries[len(before.Entries):], nil
}

// newestNumbers lists the n highest numbers of entries, or all if there are fewer.
func (c chain) newestNumbers(ctx context.Context, n int) (journal.Listing, error) {
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
	found.Numbers = found.Numbers[max(0, len(found.Numbers)-n):]
	return found, err
}
