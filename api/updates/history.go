package updates

import (
	"context"
	"errors"
	"time"

	"tsmon/api/fleet"
	"tsmon/channels"
)

const (
	// standsEvery is how often rounds check that the newest entry of a log is still there,
	// even if the log has nothing new.
	standsEvery = time.Minute
	// seeAttempts bounds how often recording the end of a log is tried while other servers
	// record theirs.
	seeAttempts = 3
)

// follower reads the log of one channel, and believes it only if it continues what was seen.
type follower struct {
	*Heads
	channels.Repository
	c  *channel
	at *pointer
}

// follow returns the log if it continues what this server, and others that share the records,
// have seen of it. moved says that there are new entries. The error wraps ErrLog or ErrHistory
// if the log is at fault. With other errors follow may return the part of the log that was read.
func (f follower) follow(ctx context.Context, moved bool) (log *channels.Log, err error) {
	c := f.c
	if !c.recalled {
		if c.seen, err = f.Histories.Seen(ctx, c.name); err == nil {
			c.laid, err = f.Histories.SeenManifest(ctx, c.name)
		}
		if err != nil {
			return nil, err
		}
		c.lay, c.recalled = c.laid, true
	}
	if !moved {
		err = f.Stands(ctx, c.read())
	}
	if err == nil {
		c.stood = f.Now()
		log, err = f.Extend(ctx, c.read())
	}
	if errors.Is(err, channels.ErrLog) && c.ahead != nil { // read again from the part that is believed
		c.ahead = nil
		return f.follow(ctx, false)
	}
	if errors.Is(err, channels.ErrLog) && c.checked {
		return f.reload(ctx, err)
	}
	if err != nil {
		return log, err
	}
	if !c.checked {
		if c.seen, err = f.Histories.Seen(ctx, c.name); err == nil {
			err = f.history(log, c.seen)
		}
		if err != nil {
			return nil, err
		}
	}
	return f.see(ctx, log)
}

// reload reads a log from its beginning that does not continue what is known of it, because
// somebody may have accepted that. It does so once for each state of the channel and once a
// minute; otherwise it returns why the log is not believed.
func (f follower) reload(ctx context.Context, broken error) (*channels.Log, error) {
	c := f.c
	seen, err := f.Histories.Seen(ctx, c.name)
	if err != nil {
		return nil, err
	}
	age := f.Now().Sub(c.triedAt)
	if state := f.at.stored.ETag + " " + seen.String(); c.tried != state || age < 0 || age >= standsEvery {
		log, err := f.Load(ctx, c.name)
		if err == nil {
			err = f.history(log, seen)
		}
		switch {
		case err == nil:
			c.seen = seen
			return f.see(ctx, log)
		case errors.Is(err, channels.ErrHistory):
			broken = err
		case !errors.Is(err, channels.ErrLog):
			return nil, err
		}
		c.tried, c.triedAt = state, f.Now()
	} else if c.broken != nil {
		broken = c.broken
	}
	return nil, broken
}

// history returns an error unless a log continues what this server and those that share the
// records have seen, or its operators have given that up. If the records have another position
// than this server last read there, that position alone counts.
func (f follower) history(log *channels.Log, seen channels.Position) error {
	positions := []channels.Position{seen}
	if seen == f.c.seen {
		positions = append(positions, f.c.log.Load().End())
	}
	for _, p := range positions {
		if err := log.GoesOn(p, f.Trust[f.c.name].Operators != nil); err != nil {
			return err
		}
	}
	return nil
}

// see records the end of a log that continues what was seen. It does not record a log that shows
// what does not verify: such an entry is forgotten once it is removed. It returns the log, longer
// if another server has seen more of it. If the records don't answer, the next round tries again.
func (f follower) see(ctx context.Context, log *channels.Log) (*channels.Log, error) {
	c := f.c
	for range seeAttempts {
		end := log.End()
		c.unrecorded = end.Sequence > 0 && end != c.seen && f.verifies(log)
		if !c.unrecorded {
			return log, nil
		}
		replaced, err := f.Histories.See(ctx, c.name, c.seen, end)
		if err != nil {
			return log, nil //nolint:nilerr // the log is known, and the next round tries again
		}
		if replaced {
			c.seen, c.unrecorded = end, false
			return log, nil
		}
		seen, err := f.Histories.Seen(ctx, c.name)
		if err != nil {
			return log, nil //nolint:nilerr // as above
		}
		longer, err := f.Extend(ctx, log)
		if err != nil {
			return nil, err
		}
		if err := f.history(longer, seen); err != nil {
			return nil, err
		}
		log, c.seen = longer, seen
	}
	return log, nil
}

// verifies reports whether what a log shows to everybody verifies.
func (f follower) verifies(log *channels.Log) bool {
	offers, _ := f.compile(log, f.at, f.base(f.c, log, f.at))
	return offers != nil
}

// seeManifest records the newest entry whose manifest was seen in the store. If the records don't
// answer, the next round tries again.
func (c *channel) seeManifest(ctx context.Context, histories fleet.Histories) {
	if c.unrecorded || c.lay == c.laid || c.lay > c.seen.Sequence {
		return
	}
	if err := histories.SeeManifest(ctx, c.name, c.lay); err != nil {
		c.unrecorded = true
		return
	}
	c.laid = c.lay
}
