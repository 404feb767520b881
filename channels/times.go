package channels

import (
	"errors"
	"fmt"
	"time"

	"tsmon/store/object"
)

// ErrFuture means that a log has an entry that is later than the store's own time, and that
// no later entry accepts. Errors wrap ErrLog, too.
var ErrFuture = errors.New("an entry is from the future")

// Tolerance is how far the time of an entry may lie ahead of the store's. Clocks that are
// kept by NTP differ by less than a second, S3 refuses requests that are 15 minutes off,
// and nothing that a rollout promises depends on five minutes.
const Tolerance = 5 * time.Minute

// made returns when an entry is written, which for one that waited for signatures is not
// when it was planned.
func (e *Entry) made() time.Time {
	if e.Entered.IsZero() {
		return e.When
	}
	return e.Entered
}

// catchUp returns the time for an entry that follows a log: t, or the log's last time if t is
// slightly earlier because the clocks of two writers differ.
func catchUp(l *Log, t time.Time) time.Time {
	if head := l.Head(); head != nil && t.Before(head.When) && head.When.Sub(t) <= Tolerance {
		return head.When
	}
	return t
}

// mayEnter returns an error if an entry that is to follow the log now is from the future,
// or from before the log's newest entry. It wraps object.ErrClock.
func mayEnter(l *Log, e *Entry, now time.Time) error {
	at, head := e.made(), l.Head()
	switch {
	case at.After(now.Add(Tolerance)):
		return fmt.Errorf("%w: entry %d of %s would be of %s, and the store's time is %s", object.ErrClock, e.Sequence, l.Channel, stamp(at), stamp(now))
	case head != nil && e.Action != Accept && at.Before(head.When):
		return fmt.Errorf("%w: entry %d of %s would be of %s, and entry %d is of %s", object.ErrClock, e.Sequence, l.Channel, stamp(at), head.Sequence, stamp(head.When))
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// early returns the first of some entries that is from the future, and that no later one of
// the right time accepts; nil if there is none.
func early(entries []Entry, now time.Time) (first *Entry) {
	limit := now.Add(Tolerance)
	for i := range entries {
		switch e := &entries[i]; {
		case e.When.After(limit) && first == nil:
			first = e
		case e.Action == Accept && !e.When.After(limit):
			first = nil
		}
	}
	return first
}
