package updates

import (
	"context"
	"errors"
	"time"

	"tsmon/api/updates/alarm"
	"tsmon/api/web"
	"tsmon/channels"
)

const (
	// wholeEvery is how old a whole reading of a log may get, and wholePatience bounds one.
	wholeEvery    = time.Hour
	wholePatience = 2 * time.Minute
)

// older checks the entries before the end of logs. Rounds check only the end, so changes of
// earlier entries are found here. What is shown stays; the alarm is the one that a server would
// raise that starts then, and is checked again every standsEvery.
type older struct {
	heads *Heads
	loop  web.Loop
}

// round checks the objects beside the manifest of each channel, and reads one log.
func (o *older) round(ctx context.Context) {
	known := *o.heads.known.Load()
	for _, c := range known {
		o.lookBeside(ctx, c)
	}
	o.next(ctx, known)
}

// next reads the log that was not read for longest, if it is due, from its beginning and
// verifies all of its signatures.
func (o *older) next(ctx context.Context, known map[string]*channel) {
	var oldest *channel
	var since time.Time
	for _, c := range known {
		if at, due := c.rereadDue(o.heads.Now()); due && (oldest == nil || at.Before(since)) {
			oldest, since = c, at
		}
	}
	if oldest != nil {
		o.read(ctx, oldest)
	}
}

// rereadDue returns when a log was last read from its beginning, and whether to do so again.
// A log that can't be read is left to the rounds, which read it anyway.
func (c *channel) rereadDue(now time.Time) (at time.Time, due bool) {
	c.reading.Lock()
	defer c.reading.Unlock()
	age, every := now.Sub(c.whole), wholeEvery
	if c.altered != nil {
		every = standsEvery
	}
	return c.whole, c.log.Head() != nil && c.broken == nil && (age < 0 || age >= every)
}

// read reads a log from its beginning and raises or clears the alarm of its older entries.
func (o *older) read(ctx context.Context, c *channel) {
	ctx, cancel := context.WithTimeout(ctx, wholePatience)
	defer cancel()
	c.reading.Lock()
	known := c.log.End()
	c.reading.Unlock()
	log, err := channels.Repository{Store: o.heads.Objects, Trust: o.heads.Trust, Thorough: true}.Load(ctx, c.name)
	if err == nil {
		err = log.Continues(known)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return // the server ends
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	c.whole = o.heads.Now()
	if err != nil && !errors.Is(err, channels.ErrLog) && !errors.Is(err, channels.ErrHistory) {
		c.whole = c.whole.Add(standsEvery - wholeEvery) // the store is down: try again soon
		return
	}
	c.altered = err
	judgeLog(o.heads.alarms, c)
}

// judgeLog raises or clears the alarm of a log whose end is believed.
func judgeLog(a *alarm.Board, c *channel) {
	key := channels.LogPrefix(c.name)
	switch {
	case c.broken != nil: // it was raised
	case c.uncompiled != nil:
		a.Raise(key, c.offeredAt, alarm.Log, c.uncompiled)
	case c.altered != nil:
		a.Raise(key, c.offeredAt, alarm.KindOf(c.altered), c.altered)
	default:
		a.Clear(key)
	}
}
