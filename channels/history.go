package channels

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrHistory means that a log is not the continuation of one that was seen before: it was
// shortened or rewritten.
var ErrHistory = errors.New("it does not continue the log that was seen before")

// Position is the end of a log: the number of its last entry and the hash of that
// entry's bytes, 0 and "" for an empty log.
type Position struct {
	Sequence uint64 `json:"sequence"`
	Hash     string `json:"hash"`
}

// String returns SEQUENCE:HASH, as ParsePosition reads it.
func (p Position) String() string { return strconv.FormatUint(p.Sequence, 10) + ":" + p.Hash }

// ParsePosition reads the end of a log that is not empty, SEQUENCE:HASH.
func ParsePosition(text string) (Position, error) {
	digits, hash, _ := strings.Cut(text, ":")
	sequence, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || sequence == 0 || !digest.MatchString(hash) {
		return Position{}, fmt.Errorf("%.100q is not SEQUENCE:HASH, a number and 64 hexadecimal digits", text)
	}
	return Position{sequence, hash}, nil
}

// End returns the position behind the newest entry.
func (l *Log) End() Position { return Position{l.last(), l.head} }

// Continues returns an error that wraps ErrHistory unless the log contains the entry at a
// position, or declares it lost.
func (l *Log) Continues(p Position) error {
	end := l.End()
	switch {
	case p.Sequence == 0 || p == end:
		return nil
	case p.Sequence > end.Sequence:
		return fmt.Errorf("%w: %s ends with entry %d, and entry %d was seen", ErrHistory, l.Channel, end.Sequence, p.Sequence)
	case l.HashOf(p.Sequence) == p.Hash, l.declares(Lost{From: p.Sequence, To: p.Sequence}):
		return nil
	}
	return fmt.Errorf("%w: entry %d of %s is not the one that was seen", ErrHistory, p.Sequence, l.Channel)
}

// GoesOn returns an error that wraps ErrHistory, and says what to do, unless the log
// continues from a position that was seen. A log that operators sign may instead have an
// entry that accepts the loss.
func (l *Log) GoesOn(p Position, signed bool) error {
	err := l.Continues(p)
	if err == nil || signed && l.Accepts(p) {
		return nil
	}
	return fmt.Errorf("%w; bring the rightful log back from a copy or, after a restore from a backup, `tsmon channel verify %s --from %s --accept` accepts what there is now", err, l.Channel, p)
}

// Accepts reports whether an entry that operators signed gives up the entries that ended
// at a position: the log goes on without them, as after a restore from a backup.
func (l *Log) Accepts(p Position) bool {
	signed := false
	for i := range l.Entries {
		e := &l.Entries[i]
		if signed && e.Action == Accept && e.Accepted != nil && *e.Accepted == p {
			return true
		}
		signed = signed || e.Operators != nil
	}
	return false
}
