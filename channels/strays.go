package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"tsmon/channels/journal"
	"tsmon/channels/segment"
	"tsmon/store/object"
)

// Salvage reads a log that may be damaged, finds objects that are not part of it, and restores
// entries.
type Salvage struct{ r Repository }

// Salvage returns the Salvage of the repository's logs.
func (r Repository) Salvage() Salvage { return Salvage{r} }

// Stray is an object in the folder of a log that is not part of it; readers ignore it.
type Stray struct {
	Key     string
	Problem error     // wraps ErrLog
	Written time.Time // when, by the clock of the store
	// Begun says that it belongs to an import that is not complete yet.
	Begun bool
}

// Strays returns the objects in the folder of a channel's log that are not part of it, sorted
// by key: foreign objects, import marks in a log with entries of its own, and the remains of an
// incomplete import.
func (s Salvage) Strays(ctx context.Context, channel string) ([]Stray, error) {
	if err := CheckName(channel); err != nil {
		return nil, err
	}
	j := s.r.journal(channel)
	found, err := j.Numbers(ctx, 0, false)
	if err != nil {
		return nil, err
	}
	var strays []Stray
	add := func(key, problem string, begun bool) {
		strays = append(strays, Stray{Key: key, Problem: fmt.Errorf("%w: %s %s", ErrLog, key, problem), Begun: begun})
	}
	for _, key := range found.Strange {
		add(key, "is not an entry", false)
	}
	for _, p := range found.Parts {
		_, ended := slices.BinarySearch(found.Numbers, p.To)
		switch {
		case !found.Fed:
			add(p.Key(channel), "says that entries come from another store, and others were made here", false)
		case !ended:
			add(p.Key(channel), "begins a delivery that is not complete", true)
		}
	}
	for _, sequence := range found.Hidden {
		add(journal.Key(channel, sequence), "is of a delivery that is not complete", true)
	}
	return strays, s.date(ctx, channel, strays)
}

// date sets the times of strays. All objects of an import get the time of the newest one.
func (s Salvage) date(ctx context.Context, channel string, strays []Stray) error {
	if len(strays) == 0 {
		return nil
	}
	slices.SortFunc(strays, func(a, b Stray) int { return cmp.Compare(a.Key, b.Key) })
	var newest time.Time
	for info, err := range s.r.Store.List(ctx, LogPrefix(channel), "") {
		if err != nil {
			return fmt.Errorf("list the log of %s: %w", channel, err)
		}
		at, ok := slices.BinarySearchFunc(strays, info.Key, func(s Stray, key string) int { return cmp.Compare(s.Key, key) })
		if !ok {
			continue
		}
		if strays[at].Written = info.ModTime; strays[at].Begun && info.ModTime.After(newest) {
			newest = info.ModTime
		}
	}
	for i := range strays {
		if strays[i].Begun {
			strays[i].Written = newest
		}
	}
	return nil
}

// Marks returns the marks of imports. Without them the log is the store's own; remove them if
// imports have ended, or if they are forged. late are those that were written after their
// entries.
func (s Salvage) Marks(ctx context.Context, channel string) (all, late []journal.Part, err error) {
	found, err := s.r.journal(channel).List(ctx, 0)
	return found.Parts, found.Late(), err
}

// WrongSegments returns the segments of a channel that don't match its log. Readers ignore
// them, but read more slowly.
func (s Salvage) WrongSegments(ctx context.Context, log *Log) ([]Stray, error) {
	var wrong []Stray
	add := func(info object.Info, problem string) {
		wrong = append(wrong, Stray{Key: info.Key, Problem: fmt.Errorf("%w: %s %s", ErrLog, info.Key, problem), Written: info.ModTime})
	}
	seen := 0
	for info, err := range s.r.Store.List(ctx, segment.Prefix(log.Channel), "") {
		if err != nil {
			return nil, fmt.Errorf("list the segments of %s: %w", log.Channel, err)
		}
		if seen++; seen > journal.MaxEntries {
			return nil, fmt.Errorf("%w: there are more than %d objects among the segments of %s", ErrLog, journal.MaxEntries, log.Channel)
		}
		first := segment.First(log.Channel, info.Key)
		if first == 0 {
			add(info, "is not a segment")
			continue
		}
		right, err := s.isSegment(ctx, log, first)
		if err != nil {
			return nil, err
		}
		if !right {
			add(info, "does not have the entries of the log")
		}
	}
	return wrong, nil
}

// isSegment reports whether a segment matches the entries of a log, as far as their hashes are
// known.
func (s Salvage) isSegment(ctx context.Context, log *Log, first uint64) (bool, error) {
	data, err := s.r.journal(log.Channel).Read(ctx, segment.Key(log.Channel, first), segment.MaxSize)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case errors.Is(err, object.ErrTooLarge):
		return false, nil
	case err != nil:
		return false, err
	}
	entries, err := segment.Unpack(data)
	if err != nil || first+segment.Entries-1 > log.last() {
		return false, nil //nolint:nilerr // that is the answer
	}
	for i, data := range entries {
		if want := log.HashOf(first + uint64(i)); want != "" && want != journal.Hash(data) {
			return false, nil
		}
	}
	return true, nil
}
