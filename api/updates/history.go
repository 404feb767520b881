package updates

import (
	"context"
	"errors"
	"time"

	"tsmon/channels"
)

const (
	// standsEvery is how often a log is looked at that has nothing new, for whether its
	// newest entry still stands.
	standsEvery = time.Minute
	// seeAttempts bounds how often the end of a log is recorded while other servers do.
	seeAttempts = 3
)

// Histories remember how far servers have seen each log; fleet.Histories do so in records.
type Histories interface {
	// Seen returns the end of a channel's log as it was last seen, the zero value if
	// nobody has.
	Seen(ctx context.Context, channel string) (channels.Position, error)
	// See replaces what Seen returns, and reports false if that is not old any more.
	See(ctx context.Context, channel string, old, end channels.Position) (bool, error)
	// SeenManifest returns the newest entry whose manifest was seen in its place, 0 if none was.
	SeenManifest(ctx context.Context, channel string) (uint64, error)
	// SeeManifest raises what SeenManifest returns.
	SeeManifest(ctx context.Context, channel string, entry uint64) error
}

// follower reads the logs of channels, and believes what goes on from what was seen.
type follower struct {
	histories Histories // nil: this server knows what it saw itself
	trust     map[string]Trust
	signed    bool // operators sign a channel
	now       func() time.Time
	known     func(channel string) *channels.Log // as it is believed, nil if it is not
	verifies  func(log *channels.Log) bool       // what a log shows does: only then is its end recorded
}

// follow returns the log of a channel if it continues what this server, or another that
// shares the records, has seen of it. The error wraps ErrLog or ErrHistory if the log is at
// fault. With other errors follow may return the part of the log that was read.
func (f follower) follow(ctx context.Context, r channels.Repository, c *channel, at *pointer, moved bool) (log *channels.Log, err error) {
	if !c.recalled {
		c.seen, err = f.recall(ctx, c.name)
		if err == nil && f.histories != nil {
			c.laid, err = f.histories.SeenManifest(ctx, c.name)
		}
		if err != nil {
			return nil, err
		}
		c.lay, c.recalled = c.laid, true
	}
	if !moved {
		err = r.Stands(ctx, c.read())
	}
	if err == nil {
		c.stood = f.now()
		log, err = r.Extend(ctx, c.read())
	}
	if errors.Is(err, channels.ErrLog) && c.ahead != nil { // what was not believed is forgotten
		c.ahead = nil
		return f.follow(ctx, r, c, at, false)
	}
	if errors.Is(err, channels.ErrLog) && c.checked {
		return f.reload(ctx, r, c, at, err)
	}
	if err != nil {
		return log, err
	}
	if !c.checked {
		if c.seen, err = f.recall(ctx, c.name); err == nil {
			err = f.history(c, log, c.seen)
		}
		if err != nil {
			return nil, err
		}
	}
	return f.see(ctx, r, c, log)
}

// reload reads a log from its beginning that does not go on from what is known of it, for
// whether somebody has accepted that. It does so once for each state of the channel and
// every minute, and else returns why it is not believed.
func (f follower) reload(ctx context.Context, r channels.Repository, c *channel, at *pointer, broken error) (*channels.Log, error) {
	seen, err := f.recall(ctx, c.name)
	if err != nil {
		return nil, err
	}
	age := f.now().Sub(c.triedAt)
	if state := at.stored.ETag + " " + seen.String(); c.tried != state || age < 0 || age >= standsEvery {
		log, err := r.Load(ctx, c.name)
		if err == nil {
			err = f.history(c, log, seen)
		}
		switch {
		case err == nil:
			c.seen = seen
			return f.see(ctx, r, c, log)
		case errors.Is(err, channels.ErrHistory):
			broken = err
		case !errors.Is(err, channels.ErrLog):
			return nil, err
		}
		c.tried, c.triedAt = state, f.now()
	} else if c.broken != nil {
		broken = c.broken
	}
	return nil, broken
}

// history returns an error unless a log continues what this server and those that share the
// records have seen, or its operators have given that up. A position that was put into the
// records since takes precedence over what this server saw.
func (f follower) history(c *channel, log *channels.Log, seen channels.Position) error {
	positions := []channels.Position{seen}
	if seen == c.seen {
		positions = append(positions, c.log.End())
	}
	for _, p := range positions {
		if err := log.GoesOn(p, f.trust[c.name].Operators != nil); err != nil {
			return err
		}
	}
	return nil
}

// recall returns the end of a channel's log as it was recorded.
func (f follower) recall(ctx context.Context, name string) (channels.Position, error) {
	if f.histories == nil {
		return channels.Position{}, nil
	}
	return f.histories.Seen(ctx, name)
}

// see records the end of a log that goes on from what was seen, unless what the log shows does
// not verify: such an entry is forgotten once it is gone. It returns the log, longer where
// another server has seen more of it. While the records don't answer, the next round records it.
func (f follower) see(ctx context.Context, r channels.Repository, c *channel, log *channels.Log) (*channels.Log, error) {
	for range seeAttempts {
		end := log.End()
		c.unrecorded = f.histories != nil && end.Sequence > 0 && end != c.seen && f.verifies(log)
		if !c.unrecorded {
			return log, nil
		}
		replaced, err := f.histories.See(ctx, c.name, c.seen, end)
		if err != nil {
			return log, nil //nolint:nilerr // the log is known, and the next round tries again
		}
		if replaced {
			c.seen, c.unrecorded = end, false
			return log, nil
		}
		seen, err := f.recall(ctx, c.name)
		if err != nil {
			return log, nil //nolint:nilerr // as above
		}
		longer, err := r.Extend(ctx, log)
		if err != nil {
			return nil, err
		}
		if err := f.history(c, longer, seen); err != nil {
			return nil, err
		}
		log, c.seen = longer, seen
	}
	return log, nil
}

// strange reports whether operators sign, and a channel is not configured: whoever has the
// bucket can make one.
func (f follower) strange(channel string) bool {
	_, configured := f.trust[channel]
	return f.signed && !configured
}

// seeManifest records of which entry the manifest lay in the store. While the records don't
// answer, the next round does so.
func (f follower) seeManifest(ctx context.Context, c *channel) {
	if f.histories == nil || c.unrecorded || c.lay == c.laid || c.lay > c.seen.Sequence {
		return
	}
	if err := f.histories.SeeManifest(ctx, c.name, c.lay); err != nil {
		c.unrecorded = true
		return
	}
	c.laid = c.lay
}
