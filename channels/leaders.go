package channels

import (
	"context"
	"fmt"

	"tsmon/channels/journal"
)

// led returns an error if an entry after number known follows an entry that is not in its leader's
// log: a plan that was signed but never made has signatures, too. If the log is read from its
// beginning, only the newest follower is checked, unless r is thorough. Where both logs are fed,
// the leader's may arrive later.
func (r Repository) led(ctx context.Context, log *Log, known uint64) (err error) {
	leaders := map[string]*Log{}
	for i := len(log.Entries) - 1; i >= 0 && log.Entries[i].Sequence > known; i-- {
		e := &log.Entries[i]
		if e.Action != Follow || e.Leader == "" {
			continue
		}
		named, bad := decodeEntry([]byte(e.Leader))
		if bad != nil || named.Sequence == 0 {
			return fmt.Errorf("%w: %w: entry %d of %s does not say what it follows", ErrLog, ErrUnsigned, e.Sequence, log.Channel)
		}
		at, name := Position{named.Sequence, journal.Hash([]byte(e.Leader))}, named.Channel
		if leaders[name], err = at.leader(ctx, r, leaders[name], name, e); err != nil {
			return fmt.Errorf("entry %d of %s follows entry %d of %s: %w", e.Sequence, log.Channel, at.Sequence, name, err)
		}
		if leader := leaders[name]; leader.Continues(at) != nil && (!log.fed || at.Sequence <= leader.last()) || !log.fed && !gave(leader, at.Sequence, e) {
			return fmt.Errorf("%w: %w: entry %d of %s follows entry %d of %s, which is not there, or not what everybody got then", ErrLog, ErrUnsigned, e.Sequence, log.Channel, at.Sequence, name)
		}
		if known == 0 && !r.Thorough {
			break
		}
	}
	return nil
}

// gave reports whether a log, from an entry on, showed everybody the follower's version when the
// follower's entry was made, or has lost the entries that would tell.
func gave(l *Log, from uint64, e *Entry) bool {
	const apart = 2 * Tolerance // of two clocks, each of which may be off
	for i := range l.Entries {
		at, next := &l.Entries[i], &l.Entries[min(i+1, len(l.Entries)-1)]
		if at.Sequence >= from && (len(at.Lost) > 0 || at.Version == e.Version && !e.When.Before(at.When.Add(-apart)) && (next == at || !e.When.After(next.When.Add(apart)))) {
			return true
		}
	}
	return false
}

// leader returns the log of the channel that an entry follows. It is read only if what is known of
// it does not reach as far as the entry needs.
func (p Position) leader(ctx context.Context, r Repository, log *Log, name string, e *Entry) (*Log, error) {
	if log == nil && r.Known != nil {
		log = r.Known(name)
	}
	if log == nil {
		log = &Log{Channel: name}
	}
	if log.Continues(p) == nil && gave(log, p.Sequence, e) {
		return log, nil
	}
	r.leading, r.Thorough, r.AnyTime = true, false, true
	return r.Extend(ctx, log)
}
