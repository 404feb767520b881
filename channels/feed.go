package channels

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"strings"

	"tsmon/channels/segment"

	"golang.org/x/sync/errgroup"
)

// A channel is fed if its entries come from another store, byte for byte. A mark such as
// log/stable/0000000012-0000000040.part, written before them, says which entries come
// together. Its first entry is written last, and none of them counts before: readers never
// see what was in force between two deliveries, and a delivery that was interrupted is none.
// Marks stay. A channel is fed if they cover every entry that it has; those of a channel
// with entries of its own say nothing. So a forged mark hides no entry that is there, and
// whoever forges marks for all of a log has its moves refused, and no more.

// ErrFed means that a channel has the log of another store, which alone may move it.
var ErrFed = errors.New("its log comes from another store")

const (
	// MaxEntry bounds an entry, MaxHistory the entries that are taken over at once, in bytes.
	MaxEntry   = maxEntry
	MaxHistory = 256 << 20
	// MaxEntries bounds their number.
	MaxEntries = maxAround
)

// part is a range of entries that come together.
type part struct{ from, to uint64 }

func (p part) key(channel string) string {
	return fmt.Sprintf("%s%010d-%010d.part", LogPrefix(channel), p.from, p.to)
}

// partOf returns what the key of a part says; ok is false for other keys.
func partOf(channel, key string) (p part, ok bool) {
	_, err := fmt.Sscanf(strings.TrimPrefix(key, LogPrefix(channel)), "%d-%d.part", &p.from, &p.to)
	return p, err == nil && p.from > 0 && p.from <= p.to && key == p.key(channel)
}

// listing is what lies in the log of a channel behind a number.
type listing struct {
	numbers []uint64 // of the entries that count, rising
	parts   []part   // by their first entries
	fed     bool
	hidden  []uint64 // of the entries that don't count, rising
	strange []string // keys of objects that are no part of a log
}

// covered reports whether the parts have all entries.
func (l *listing) covered() bool {
	at := 0
	for _, p := range l.parts {
		for at < len(l.numbers) && l.numbers[at] >= p.from && l.numbers[at] <= p.to {
			at++
		}
	}
	return at == len(l.numbers)
}

// settle drops the entries of deliveries that are not complete, and those behind them.
func (l *listing) settle() {
	if !l.fed {
		return
	}
	end, all := len(l.numbers), l.numbers
	for _, p := range l.parts {
		end = min(end, l.whole(p))
	}
	if end < len(all) {
		l.numbers, l.hidden = all[:end], all[end:]
	}
}

// whole returns how many entries count as far as a part tells: those before it while its
// first one is missing, and all once its last one is there, too. In between another delivery
// with the same beginning is complete, and those up to the first missing one count.
func (l *listing) whole(p part) int {
	first, begun := slices.BinarySearch(l.numbers, p.from)
	_, ended := slices.BinarySearch(l.numbers, p.to)
	switch {
	case !begun:
		return first
	case ended:
		return len(l.numbers)
	}
	return first + sort.Search(len(l.numbers)-first, func(i int) bool { return l.numbers[first+i] != p.from+uint64(i) })
}

// deliveries is what a log knows of where its entries come from.
type deliveries struct {
	fed   bool
	begun uint64
}

// Fed reports whether the channel is fed.
func (d deliveries) Fed() bool { return d.fed }

// Begun returns the highest entry that is there of a delivery that is not complete, 0 if
// there is none.
func (d deliveries) Begun() uint64 { return d.begun }

// note keeps what a listing says of deliveries.
func (d *deliveries) note(found listing) {
	d.fed, d.begun = found.fed, 0
	if n := len(found.hidden); n > 0 {
		d.begun = found.hidden[n-1]
	}
}

// HashOf returns the hex SHA-256 of an entry's bytes, empty if the log does not tell.
func (l *Log) HashOf(sequence uint64) string {
	if sequence == l.last() {
		return l.head
	}
	if next := l.At(sequence + 1); next != nil {
		return next.Previous
	}
	return l.ends[sequence]
}

// Raw reads the bytes of the entries behind a number, oldest first, whoever made and
// signed them. Lost ones are empty. Errors wrap ErrLog if there are too many.
func (r Repository) Raw(ctx context.Context, channel string, after uint64) ([][]byte, error) {
	if err := CheckName(channel); err != nil {
		return nil, err
	}
	j := r.journal(channel)
	found, err := j.numbers(ctx, after, false)
	if err != nil || len(found.numbers) == 0 {
		return nil, err
	}
	newest := found.numbers[len(found.numbers)-1]
	if newest-after > maxAround {
		return nil, fmt.Errorf("%w: entries up to %d of %s are missing", ErrLog, newest-1, channel)
	}
	lost := make([][]byte, newest-after)
	for i := range lost {
		if _, ok := slices.BinarySearch(found.numbers, after+uint64(i)+1); !ok {
			lost[i] = []byte{} // readEntries passes over it
		}
	}
	raw := slices.Clone(lost)
	packed := j.readSegments(ctx, after, raw)
	raw[len(raw)-1] = nil // proves those before it
	err = j.readWithin(ctx, after, raw)
	if packed && err == nil && !linked(raw) { // a segment that is not the log's
		raw = lost
		err = j.readWithin(ctx, after, raw)
	}
	return raw, err
}

// readWithin is readEntries of as many bytes as are taken over at once.
func (j journal) readWithin(ctx context.Context, known uint64, raw [][]byte) error {
	size := 0
	for at := 0; at < len(raw); at += segment.Entries {
		some := raw[at:min(at+segment.Entries, len(raw))]
		if err := j.readEntries(ctx, known+uint64(at), some); err != nil {
			return err
		}
		for _, data := range some {
			size += len(data)
		}
		if size > MaxHistory {
			return fmt.Errorf("%w: the entries of %s have more than %d bytes", ErrLog, j.channel, MaxHistory)
		}
	}
	return nil
}

// linked reports whether each entry has the hash of the one before it, where that is known.
func linked(raw [][]byte) bool {
	for i, data := range raw {
		var e struct {
			Previous string `json:"previous"`
		}
		if len(data) == 0 || i == 0 || len(raw[i-1]) == 0 {
			continue
		}
		if json.Unmarshal(data, &e) != nil || e.Previous != hash(raw[i-1]) {
			return false
		}
	}
	return true
}

// Follow returns a log extended by the bytes of the entries that follow it, of which lost
// ones are empty. It checks what Extend does: numbers, hashes, operators, and times. Errors wrap
// ErrLog.
func (r Repository) Follow(ctx context.Context, log *Log, raw [][]byte) (*Log, error) {
	size := 0
	for i, data := range raw {
		size += len(data)
		if len(data) > maxEntry || size > MaxHistory {
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
	var longer *Log
	var err error
	if lost := slices.ContainsFunc(raw, func(data []byte) bool { return len(data) == 0 }); lost {
		var gaps []Gap
		if longer, gaps, err = shorter.span(raw); err == nil && len(gaps) > 0 {
			err = gaps[0].Problem
		}
	} else {
		longer, err = shorter.join(raw)
	}
	if err != nil {
		return nil, err
	}
	longer.deliveries = log.deliveries
	arriving := *longer
	arriving.fed = true // what it follows may come later
	return longer, r.believe(ctx, log, &arriving)
}

// Feed writes the bytes of entries that follow a log, as Follow has accepted them. The
// last of them is not lost. They count once all are there; the same call again completes it. Of a longer log that
// stands in the place it takes the bytes that are the same. A *ConflictError if another
// entry has one of the numbers.
func (r Repository) Feed(ctx context.Context, log *Log, raw [][]byte) error {
	if len(raw) == 0 {
		return nil
	}
	j := r.journal(log.Channel)
	first := log.last() + 1
	opening := slices.IndexFunc(raw, func(data []byte) bool { return len(data) > 0 })
	last := len(raw) - 1
	var marks []part
	if head := log.Head(); head != nil && !log.fed {
		marks = append(marks, part{log.Entries[0].Sequence, head.Sequence})
	}
	for _, p := range append(marks, part{first + uint64(opening), first + uint64(last)}) {
		_, err := r.Store.Create(ctx, p.key(log.Channel), strings.NewReader(""), 0, entryAttributes)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("write %s: %w", p.key(log.Channel), err)
		}
	}
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(sideBySide)
	for i, data := range raw[:last] {
		if len(data) > 0 && i != opening {
			group.Go(func() error { return j.put(writing, first+uint64(i), data) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := j.put(ctx, first+uint64(last), raw[last]); err != nil || opening == last {
		return err
	}
	return j.put(ctx, first+uint64(opening), raw[opening])
}

// put writes the bytes of an entry, or accepts the same.
func (j journal) put(ctx context.Context, sequence uint64, data []byte) error {
	key := entryKey(j.channel, sequence)
	_, err := j.store.Create(ctx, key, bytes.NewReader(data), int64(len(data)), entryAttributes)
	if errors.Is(err, fs.ErrExist) {
		return j.compare(ctx, key, data)
	}
	if err != nil {
		return fmt.Errorf("write entry %d of %s: %w", sequence, j.channel, err)
	}
	return nil
}

// PackAll makes the segments that a log lacks.
func (r Repository) PackAll(ctx context.Context, log *Log) error {
	for made := true; made; {
		var err error
		if made, err = r.journal(log.Channel).packNext(ctx, log.last()); err != nil {
			return err
		}
	}
	return nil
}

// SequenceIn returns the channel and the number in the key of an entry; ok is false for
// other keys.
func SequenceIn(key string) (channel string, sequence uint64, ok bool) {
	channel, _, _ = strings.Cut(strings.TrimPrefix(key, logRoot), "/")
	if CheckName(channel) != nil {
		return "", 0, false
	}
	sequence, ok = sequenceOf(channel, key)
	return channel, sequence, ok
}

// EntryKey returns the key of an entry.
func EntryKey(channel string, sequence uint64) string { return entryKey(channel, sequence) }
