package channels

import (
	"context"
	"fmt"

	"tsmon/channels/journal"
)

// led returns an error unless each entry after number known that follows a leader is matched
// by an entry in the leader's log: a plan that was signed but never made has signatures, too.
// If the log is read from its beginning, only the newest such entry is checked, unless r is
// thorough. Where both logs are delivered from another store, the leader's may arrive later.
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
		if leaders[name], err = at.leader(ctx, r, leaders[name], name); err != nil {
			return fmt.Errorf("entry %d of %s follows entry %d of %s: %w", e.Sequence, log.Channel, at.Sequence, name, err)
		}
		if leader := leaders[name]; leader.Continues(at) != nil && (!log.fed || at.Sequence <= leader.last()) {
			return fmt.Errorf("%w: %w: entry %d of %s follows entry %d of %s, which is not there", ErrLog, ErrUnsigned, e.Sequence, log.Channel, at.Sequence, name)
		}
		if known == 0 && !r.Thorough {
			break
		}
	}
	return nil
}

// leader returns the log of a channel that another follows, read unless it is known up to
// the position.
func (p Position) leader(ctx context.Context, r Repository, log *Log, name string) (*Log, error) {
	if log == nil && r.Known != nil {
		log = r.Known(name)
	}
	if log == nil {
		log = &Log{Channel: name}
	}
	if log.Continues(p) == nil {
		return log, nil
	}
	r.leading, r.Thorough, r.AnyTime = true, false, true
	return r.Extend(ctx, log)
}
