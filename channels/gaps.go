package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"tsmon/channels/journal"
)

// Lost declares earlier entries lost. The log is read without them; if their bytes turn up,
// they count again.
type Lost struct {
	From uint64 `json:"from"` // number of the first one
	To   uint64 `json:"to"`   // number of the last one
	// Hash is the hex SHA-256 of the last one, from the entry after it; empty if there is none.
	Hash string `json:"hash,omitempty"`
}

func (l Lost) String() string {
	if l.From == l.To {
		return fmt.Sprintf("entry %d", l.From)
	}
	return fmt.Sprintf("entries %d to %d", l.From, l.To)
}

// Gap is a range of entries that are missing or altered and that no entry declares lost.
type Gap struct {
	Lost
	Problem error // wraps ErrLog
}

// Pruned reports whether the bundles of a version were removed from the store or lost, and no
// later entry offers the version.
func (l *Log) Pruned(version string) bool { return l.PrunedBy(version) != nil }

// PrunedBy returns the entry that makes Pruned true, nil if it is false.
func (l *Log) PrunedBy(version string) *Entry {
	for i := len(l.Entries) - 1; i >= 0; i-- {
		e := &l.Entries[i]
		switch {
		case slices.Contains(e.Pruned, version):
			return e
		case e.offered(version) != nil:
			return nil
		}
	}
	return nil
}

// last is the number of the newest entry, 0 if there is none.
func (l *Log) last() uint64 {
	if head := l.Head(); head != nil {
		return head.Sequence
	}
	return 0
}

// At returns the entry with a number, nil if there is none.
func (l *Log) At(sequence uint64) *Entry {
	i, ok := slices.BinarySearchFunc(l.Entries, sequence, func(e Entry, sequence uint64) int { return cmp.Compare(e.Sequence, sequence) })
	if !ok {
		return nil
	}
	return &l.Entries[i]
}

// Examine reads a log that may lack entries. It returns the entries that can be read, and the
// gaps. An entry counts if the next one has its hash, or if the next one is missing.
func (s Salvage) Examine(ctx context.Context, channel string) (*Log, []Gap, error) {
	if err := CheckName(channel); err != nil {
		return nil, nil, err
	}
	j := s.r.journal(channel)
	found, err := j.Numbers(ctx, 0, false)
	if err != nil {
		return nil, nil, err
	}
	log, gaps, failed, err := j.extend(ctx, s.r.extension(&Log{Channel: channel}), found, false)
	if failed != nil {
		return nil, nil, failed
	}
	return log, gaps, err
}

// extend adds the entries of a listing to a log, but for missing ones. With packed it reads them
// from segments if none is missing: no hash proves what a segment has before a gap. If the store
// fails in between, failed says why, and the log ends before the first entry that was not read.
func (c chain) extend(ctx context.Context, log extension, found journal.Listing, packed bool) (longer *Log, gaps []Gap, failed, err error) {
	raw, err := c.Slots(log.last(), found.Numbers)
	if err != nil {
		return nil, nil, nil, err
	}
	packed = packed && len(raw) == len(found.Numbers) && c.ReadSegments(ctx, log.last(), raw)
	failed = c.ReadEntries(ctx, log.last(), raw)
	if end := slices.IndexFunc(raw, func(data []byte) bool { return data == nil }); end >= 0 {
		raw = raw[:end]
	}
	longer, gaps, err = log.span(raw)
	if packed && (err != nil || len(gaps) > 0) { // a segment may not be the log's
		return c.extend(ctx, log, found, false)
	}
	if err == nil {
		longer.note(found)
	}
	return longer, gaps, failed, err
}

// declares reports whether an entry declares these entries lost.
func (l *Log) declares(gap Lost) bool {
	for _, e := range l.Entries {
		for _, lost := range e.Lost {
			if lost.From <= gap.From && lost.To >= gap.To {
				return true
			}
		}
	}
	return false
}

// Candidate decodes an entry and returns it with the hash of its bytes; ok is false if the
// bytes are no entry.
func Candidate(data []byte) (e Entry, sum string, ok bool) {
	if len(data) > journal.MaxEntry {
		return Entry{}, "", false
	}
	e, err := decodeEntry(data)
	return e, journal.Hash(data), err == nil && e.Sequence > 0
}

// Span returns the log that these entries form, and its gaps. The first entry has number 1;
// missing ones are empty. found is the listing of the stored log. The error wraps ErrLog.
func (s Salvage) Span(channel string, raw [][]byte, found journal.Listing) (*Log, []Gap, error) {
	log, gaps, err := s.r.extension(&Log{Channel: channel}).span(raw)
	if err == nil {
		log.note(found)
	}
	return log, gaps, err
}

// Believe returns an error that wraps ErrLog unless the reader trusts the operators of a log,
// and the leaders' entries that it follows exist.
func (s Salvage) Believe(ctx context.Context, log *Log) error {
	if err := s.r.extension(log).vouched(); err != nil {
		return err
	}
	return s.r.led(ctx, log, 0)
}

// PutBack writes the bytes of an entry that is missing or altered in the log. The caller has
// compared them with the hash in the next entry.
func (s Salvage) PutBack(ctx context.Context, channel string, data []byte) error {
	e, _, ok := Candidate(data)
	if !ok {
		return errors.New("not an entry")
	}
	return s.r.journal(channel).Replace(ctx, journal.Key(channel, e.Sequence), data)
}

// maxAhead bounds how many entries can be lost at the end of a log. An object that shows a
// higher number is forged.
const maxAhead = 1 << 20

// Ahead returns the highest entry number that a manifest or a list of the channel shows. The
// log ends with entry end.
func Ahead(seen []Pointer, end uint64) (highest uint64) {
	for _, p := range Distinct(seen) {
		if shown := p.Sequence(); shown <= end || shown-end <= maxAhead {
			highest = max(highest, shown)
		}
	}
	return highest
}
