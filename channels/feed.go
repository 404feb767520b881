package channels

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"tsmon/channels/journal"
	"tsmon/channels/segment"

	"golang.org/x/sync/errgroup"
)

// A channel is fed if its entries are copied from another store, byte for byte, in deliveries.
// An empty object such as log/stable/0000000012-0000000040.part marks a delivery. It is written
// first and the delivery's first entry last; until then none of the entries counts, so readers
// never see part of a delivery. Marks stay. A channel is fed if its marks cover all its entries;
// otherwise they are ignored. So a forged mark hides no entry, and forging marks for a whole log
// only gets its moves refused.

// ErrFed means that a channel is fed, and can be moved only in the store that it comes from.
var ErrFed = errors.New("its log comes from another store")

const (
	// MaxEntry bounds an entry, MaxHistory the entries of one delivery, in bytes.
	MaxEntry   = journal.MaxEntry
	MaxHistory = journal.MaxHistory
	// MaxEntries bounds their number.
	MaxEntries = journal.MaxEntries
)

// deliveries says whether a log is fed, and what has arrived of an incomplete delivery.
type deliveries struct {
	fed   bool
	begun uint64
}

// Fed reports whether the channel is fed.
func (d deliveries) Fed() bool { return d.fed }

// Begun returns the newest entry of an incomplete delivery, 0 if there is none.
func (d deliveries) Begun() uint64 { return d.begun }

func (d *deliveries) note(found journal.Listing) {
	d.fed, d.begun = found.Fed, 0
	if n := len(found.Hidden); n > 0 {
		d.begun = found.Hidden[n-1]
	}
}

// HashOf returns the hex SHA-256 of an entry's bytes, or an empty string if the log does not
// hold it.
func (l *Log) HashOf(sequence uint64) string {
	if sequence == l.last() {
		return l.head
	}
	if next := l.At(sequence + 1); next != nil {
		return next.Previous
	}
	return l.ends[sequence]
}

// Follow returns a log extended by the bytes of the next entries, of which lost ones are empty.
// Like Extend it checks numbers, hashes, operators and times. Errors wrap ErrLog.
func (r Repository) Follow(ctx context.Context, log *Log, raw [][]byte) (*Log, error) {
	size := 0
	for i, data := range raw {
		size += len(data)
		if len(data) > journal.MaxEntry || size > MaxHistory {
			return nil, fmt.Errorf("%w: entry %d of %s is too large", ErrLog, log.last()+uint64(i)+1, log.Channel)
		}
		if len(data) == 0 {
			continue
		}
		if e, err := decodeEntry(data); err == nil && e.Channel != log.Channel {
			return nil, fmt.Errorf("%w: entry %d is one of %q, not of %s", ErrLog, e.Sequence, e.Channel, log.Channel)
		}
	}
	shorter := r.extension(log)
	shorter.thorough = true
	longer, gaps, err := shorter.span(raw)
	if err == nil && len(gaps) > 0 {
		err = gaps[0].Problem
	}
	if err != nil {
		return nil, err
	}
	longer.deliveries = log.deliveries
	arriving := *longer
	arriving.fed = true // what it follows may come later
	return longer, r.believe(ctx, log, &arriving)
}

// Feed writes the entries that Follow has accepted, of which the last is not lost. They count
// once all are written; if Feed is interrupted, the same call completes it. Entries that exist
// with the same bytes are fine; others are a *ConflictError.
func (r Repository) Feed(ctx context.Context, log *Log, raw [][]byte) error {
	if len(raw) == 0 {
		return nil
	}
	c := r.journal(log.Channel)
	first := log.last() + 1
	opening := slices.IndexFunc(raw, func(data []byte) bool { return len(data) > 0 })
	last := len(raw) - 1
	var marks []journal.Part
	if head := log.Head(); head != nil && !log.fed {
		marks = append(marks, journal.Part{From: log.Entries[0].Sequence, To: head.Sequence})
	}
	for _, p := range append(marks, journal.Part{From: first + uint64(opening), To: first + uint64(last)}) {
		_, err := r.Store.Create(ctx, p.Key(log.Channel), strings.NewReader(""), 0, journal.Attributes)
		if errors.Is(err, fs.ErrExist) {
			err = c.Replace(ctx, p.Key(log.Channel), nil) // unless it is the mark
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("write %s: %w", p.Key(log.Channel), err)
		}
	}
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(journal.SideBySide)
	for i, data := range raw[:last] {
		if len(data) > 0 && i != opening {
			group.Go(func() error { return c.put(writing, first+uint64(i), data) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := c.put(ctx, first+uint64(last), raw[last]); err != nil || opening == last {
		return err
	}
	return c.put(ctx, first+uint64(opening), raw[opening])
}

// SequenceIn returns the channel and the number in the key of an entry; ok is false for
// other keys.
func SequenceIn(key string) (channel string, sequence uint64, ok bool) {
	channel, _, _ = strings.Cut(strings.TrimPrefix(key, journal.Root), "/")
	if CheckName(channel) != nil {
		return "", 0, false
	}
	sequence, ok = journal.SequenceOf(channel, key)
	return channel, sequence, ok
}

// EntryKey returns the key of an entry.
func EntryKey(channel string, sequence uint64) string { return journal.Key(channel, sequence) }

// LogPrefix returns the prefix of the keys of a channel's log.
func LogPrefix(channel string) string { return journal.Prefix(channel) }

// Raw reads the bytes of the entries after a number, oldest first, without checking their
// signatures. Lost entries are empty. Errors wrap ErrLog if there are too many.
func (r Repository) Raw(ctx context.Context, channel string, after uint64) ([][]byte, error) {
	if err := CheckName(channel); err != nil {
		return nil, err
	}
	return r.journal(channel).Raw(ctx, after)
}

// segmentsEvery is how many moves lie between two checks for a segment to make.
const segmentsEvery = 16

// Pack makes the oldest segment that a log lacks. It is meant to be called after each move, and
// checks only after every 16th.
func (r Repository) Pack(ctx context.Context, log *Log) error {
	if newest := log.last(); newest < segment.Entries || newest%segmentsEvery != 0 {
		return nil
	}
	_, err := r.journal(log.Channel).PackNext(ctx, log.last())
	return err
}

// PackAll makes the segments that a log lacks.
func (r Repository) PackAll(ctx context.Context, log *Log) error {
	for {
		if made, err := r.journal(log.Channel).PackNext(ctx, log.last()); err != nil || !made {
			return err
		}
	}
}
