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

// Salvage reads a log that may be damaged, says what is left of it and what no reader
// heeds, and puts entries back.
type Salvage struct{ r Repository }

// Salvage returns the one of the repository's logs.
func (r Repository) Salvage() Salvage { return Salvage{r} }

// Stray is an object among the entries of a log that no reader heeds.
type Stray struct {
	Key     string
	Problem error     // wraps ErrLog
	Written time.Time // by the clock of the store
	// Begun says that it belongs to a delivery that is not complete, and may become so.
	Begun bool
}

// Strays returns the objects among the entries of a channel's log that no reader heeds,
// sorted by key: foreign ones, marks of deliveries in a log with entries of its own, and what
// came of a delivery that is not complete.
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

// date fills in when strays were written. What is of a delivery has the time of the newest.
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

// Marks returns the marks of deliveries. Without them the log is the store's own: nobody feeds
// it any more, or somebody forged them. late are those that came behind their entries.
func (s Salvage) Marks(ctx context.Context, channel string) (all, late []journal.Part, err error) {
	found, err := s.r.journal(channel).List(ctx, 0)
	return found.Parts, found.Late(), err
}

// WrongSegments returns the segments of a channel that are not its log's. Readers ignore
// them, and take longer.
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

// isSegment reports whether a segment has the entries of a log, as far as their hashes are
// known.
func (s Salvage) isSegment(ctx context.Context, log *Log, first uint64) (bool, error) {
	data, err := s.r.journal(log.Channel).Read(ctx, segment.Key(log.Channel, first), segment.MaxSize)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist), ignoring(err, fs.ErrNotExist, object.ErrTooLarge)
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

// ignoring returns an error unless it is one of those that are expected.
func ignoring(err error, expected ...error) error {
	if slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) {
		return nil
	}
	return err
}
