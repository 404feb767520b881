package updates

import (
	"context"
	"errors"
	"time"

	"tsmon/channels"
)

const (
	// wholeEvery is how old a whole reading of a log may get, and wholePatience bounds one.
	wholeEvery    = time.Hour
	wholePatience = 2 * time.Minute
)

// rereadOldest reads one log from its beginning and verifies all of its signatures: the one
// that was not read for longest, if that is due. Rounds look at the end of a log alone, so
// that what somebody changed before it is found here. What is shown stays; the alarm is that
// of a server that begins then, and is looked after every standsEvery.
func (h *Heads) rereadOldest(ctx context.Context) {
	var oldest *channel
	var since time.Time
	for _, c := range *h.known.Load() {
		if at, due := h.rereadDue(c); due && (oldest == nil || at.Before(since)) {
			oldest, since = c, at
		}
	}
	if oldest != nil {
		h.reread(ctx, oldest)
	}
}

// rereadDue returns when a log was last read from its beginning, and whether that is to be
// done again. A log that is not believed is read anew by rounds.
func (h *Heads) rereadDue(c *channel) (at time.Time, due bool) {
	c.reading.Lock()
	defer c.reading.Unlock()
	age, every := h.now().Sub(c.whole), wholeEvery
	if c.altered != nil {
		every = standsEvery
	}
	return c.whole, c.log.Head() != nil && c.broken == nil && (age < 0 || age >= every)
}

// reread reads a log from its beginning and raises or clears the alarm of its older entries.
func (h *Heads) reread(ctx context.Context, c *channel) {
	ctx, cancel := context.WithTimeout(ctx, wholePatience)
	defer cancel()
	c.reading.Lock()
	known := c.log.End()
	c.reading.Unlock()
	log, err := channels.Repository{Store: h.store, Trust: h.trust, Thorough: true}.Load(ctx, c.name)
	if err == nil {
		err = log.Continues(known)
	}
	if ctx.Err() != nil {
		return
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	c.whole = h.now()
	if err != nil && !errors.Is(err, channels.ErrLog) && !errors.Is(err, channels.ErrHistory) {
		c.whole = c.whole.Add(standsEvery - wholeEvery) // the store is away: soon again
		return
	}
	c.altered = err
	h.judgeLog(c)
}

// judgeLog raises or clears the alarm of a log whose end is believed.
func (h *Heads) judgeLog(c *channel) {
	key := channels.LogPrefix(c.name)
	switch {
	case c.broken != nil: // it was raised
	case c.uncompiled != nil:
		h.alarms.raise(key, c.offeredAt, kindLog, c.uncompiled)
	case c.altered != nil:
		h.alarms.raise(key, c.offeredAt, kindOf(c.altered), c.altered)
	default:
		h.alarms.clear(key)
	}
}
