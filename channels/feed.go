package channels

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// A channel is fed if its entries come from another store, byte for byte. An object such
// as log/stable/0000000012-0000000040.part, written before them, says which entries come
// together: they count once the last one is there. Readers thus never see what was in
// force between two deliveries, and a delivery that was interrupted is none. The object
// stays, and says that the channel is fed.

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
	fed     bool
	begun   uint64 // the last entry of a delivery that is not complete, 0 if all are
}

// settle drops the entries of deliveries that are not complete, and those behind them.
func (l *listing) settle(parts []part) {
	end := len(l.numbers)
	for _, p := range parts {
		if _, whole := slices.BinarySearch(l.numbers, p.to); whole {
			continue
		}
		at, _ := slices.BinarySearch(l.numbers, p.from)
		end, l.begun = min(end, at), max(l.begun, p.to)
	}
	l.numbers, l.fed = l.numbers[:end], len(parts) > 0
}

// deliveries is what a log knows of where its entries come from.
type deliveries struct {
	fed   bool
	begun uint64
}

// Fed reports whether the channel is fed.
func (d deliveries) Fed() bool { return d.fed }

// Begun returns the last entry of a delivery that was begun and is not complete, 0 if
// there is none.
func (d deliveries) Begun() uint64 { return d.begun }

// note keeps what a listing says of deliveries.
func (d *deliveries) note(found listing) {
	d.fed, d.begun = d.fed || found.fed, found.begun
}

// HashOf returns the hex SHA-256 of an entry's bytes, empty if the log does not tell.
func (l *Log) HashOf(sequence uint64) string {
	if sequence == l.last() {
		return l.head
	}
	if next := l.At(sequence + 1); next != nil {
		return next.Previous
	}
	return ""
}

// Raw reads the bytes of the entries behind a number, oldest first, whoever made and
// signed them. Lost ones are empty. Errors wrap ErrLog if there are too many.
func (r Repository) Raw(ctx context.Context, channel string, after uint64) ([][]byte, error) {
	if err := CheckName(channel); err != nil {
		return nil, err
	}
	j := r.journal(channel)
	found, err := j.numbers(ctx, after)
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
	for at := 0; at < len(raw); at += segmentEntries {
		some := raw[at:min(at+segmentEntries, len(raw))]
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
	return longer, r.believe(ctx, log, longer)
}

// Feed writes the bytes of entries that follow a log, as Follow has accepted them. They
// count once the last one is there; the same call again completes it. Of a longer log that
// stands in the place it takes the bytes that are the same. A *ConflictError if another
// entry has one of the numbers.
func (r Repository) Feed(ctx context.Context, log *Log, raw [][]byte) error {
	if len(raw) == 0 {
		return nil
	}
	j := r.journal(log.Channel)
	first := log.last() + 1
	p := part{first, first + uint64(len(raw)) - 1}
	_, err := r.Store.Create(ctx, p.key(log.Channel), strings.NewReader(""), 0, entryAttributes)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write %s: %w", p.key(log.Channel), err)
	}
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(sideBySide)
	last := len(raw) - 1
	for i, data := range raw[:last] {
		if len(data) > 0 {
			group.Go(func() error { return j.put(writing, first+uint64(i), data) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return j.put(ctx, p.to, raw[last])
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
