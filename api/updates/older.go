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
	// wholeEvery is how often a log is read from its beginning; wholePatience bounds one reading.
	wholeEvery    = time.Hour
	wholePatience = 2 * time.Minute
)

// older finds changes of entries before the end of logs, of which rounds check only the end. What
// is shown stays. The alarm is the one that a server would raise if it started now; it is checked
// again every standsEvery.
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

// next reads the log whose last whole reading is the oldest, if it is due, and verifies all of its
// signatures.
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
// A log that is not believed is left to the rounds, which reload it.
func (c *channel) rereadDue(now time.Time) (at time.Time, due bool) {
	c.reading.Lock()
	defer c.reading.Unlock()
	age, every := now.Sub(c.whole), wholeEvery
	if c.altered != nil {
		every = standsEvery
	}
	return c.whole, c.log.Load().Head() != nil && c.broken == nil && (age < 0 || age >= every)
}

// read reads a log from its beginning and raises or clears the alarm of its older entries.
func (o *older) read(ctx context.Context, c *channel) {
	ctx, cancel := context.WithTimeout(ctx, wholePatience)
	defer cancel()
	known := c.log.Load().End()
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
		c.whole = c.whole.Add(standsEvery - wholeEvery) // the store is down: try again in standsEvery
		return
	}
	c.altered = err
	judgeLog(o.heads.alarms, c)
}

// judgeLog raises or clears the alarm of a log whose end is believed.
func judgeLog(a *alarm.Board, c *channel) {
	key := channels.LogPrefix(c.name)
	switch {
	case c.broken != nil: // its alarm was raised
	case c.uncompiled != nil:
		a.Raise(key, c.offeredAt, alarm.Log, c.uncompiled)
	case c.altered != nil:
		a.Raise(key, c.offeredAt, alarm.KindOf(c.altered), c.altered)
	default:
		a.Clear(key)
	}
}
