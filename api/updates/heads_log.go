package updates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"tsmon/api/fleet"
	"tsmon/api/updates/alarm"
	"tsmon/channels"
	"tsmon/manifest"
)

// offers returns what a channel has for each client. The errors are those of of.
func (h *Heads) offers(ctx context.Context, name string) (fleet.Channel, error) {
	if _, err := h.of(ctx, name); err != nil {
		return fleet.Channel{}, err
	}
	c := h.channel(name)
	if c == nil {
		return fleet.Channel{}, fs.ErrNotExist // it was deleted again
	}
	shown, offers := c.head.Load(), c.offers.Load()
	if offers == nil || shown != nil && offers.Sequence < shown.sequence {
		return fleet.Channel{}, errUnverified // the log is not known up to the manifest
	}
	return offers.with(shown), nil
}

// with is what is known of a channel that shows a manifest.
func (c *compiled) with(shown *head) fleet.Channel {
	return fleet.Channel{Offers: c.Offers, Names: c.names, Shown: shown != nil, Behind: shown != nil && shown.behind}
}

// settled reports whether a channel shows the newest entry of its log, as its manifest in
// the store does, the log was looked at lately, and nothing is being rolled out: a pause
// holds at once, also where its manifest could not be written.
func (c *channel) settled(now time.Time) bool {
	c.reading.Lock()
	defer c.reading.Unlock()
	shown, offers := c.head.Load(), c.offers.Load()
	return shown != nil && !shown.behind && c.log.Head() != nil && c.lately(now) && offers.Rolling() == "" && c.offeredAt == c.pointer.stored.ETag
}

// lately reports whether a log is believed, recorded, and was looked at within standsEvery.
func (c *channel) lately(now time.Time) bool {
	age := now.Sub(c.stood)
	return c.broken == nil && !c.unrecorded && c.offers.Load() != nil && age >= 0 && age < standsEvery
}

// readLog updates what a channel offers from its log, which counts also while the
// manifest is behind it. What does not verify is not offered, nor what a strange channel has.
// The errors are the store's.
func (h *Heads) readLog(ctx context.Context, c *channel, at *pointer) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	if h.follower.strange(c.name) {
		c.broken = fmt.Errorf("%w: operators are configured, and no channel %s: name it in tsmon.yaml; only if nobody knows it, remove it from the store", channels.ErrUnsigned, c.name)
		h.alarms.Raise(channels.LogPrefix(c.name), at.stored.ETag, alarm.Unsigned, c.broken)
		return nil
	}
	repository := channels.Repository{Store: h.store, Trust: h.trust, Known: h.follower.known}
	moved, err := repository.Moved(ctx, c.read())
	if err != nil || !moved && c.lately(h.now()) && c.offeredAt == at.stored.ETag {
		return err
	}
	follower := h.follower
	follower.verifies = func(log *channels.Log) bool {
		offers, _, _, _ := h.compile(log, at, h.base(c, log, at))
		return offers != nil
	}
	log, err := follower.follow(ctx, repository, c, at, moved)
	key := channels.LogPrefix(c.name)
	if c.broken = nil; errors.Is(err, channels.ErrLog) || errors.Is(err, channels.ErrHistory) {
		c.broken = err
		if !c.checked {
			c.log, c.ahead = &channels.Log{Channel: c.name}, nil
		}
		h.alarms.Raise(key, at.stored.ETag, alarm.KindOf(err), err)
		return nil
	}
	if err != nil {
		if log != nil {
			c.ahead = log // the next look goes on from there
		}
		return err
	}
	publicURL := h.base(c, log, at)
	offers, names, list, err := h.compile(log, at, publicURL)
	if c.uncompiled, c.offeredAt = err, at.stored.ETag; err != nil && offers == nil {
		c.ahead = log
	} else {
		c.ahead, c.log, c.publicURL, c.checked = nil, log, publicURL, true
		c.believed.Store(log)
	}
	judgeLog(h.alarms, c)
	if offers != nil {
		offers.Since, offers.Downgrades = h.decided(c.offers.Load(), offers), h.downgrades[c.name]
		c.offers.Store(&compiled{offers, names, list})
		h.readRings(c, c.publicURL)
	}
	return nil
}

// read returns the log of a channel as far as it was read, believed or not.
func (c *channel) read() *channels.Log {
	if c.ahead != nil {
		return c.ahead
	}
	return c.log
}

// base returns the public URL that the manifests of a log are rendered with, empty while
// that is not known.
func (h *Heads) base(c *channel, log *channels.Log, at *pointer) string {
	if h.publicURL == "" && at.m != nil {
		if publicURL, ok := log.Base(at.m); ok {
			return publicURL
		}
	}
	return cmp.Or(h.publicURL, c.publicURL)
}

// compile returns the offers, names and downloads of a log. Without a log the manifest counts,
// which was put there by other means.
func (h *Heads) compile(log *channels.Log, at *pointer, publicURL string) (*channels.Offers, *fleet.Names, *downloads, error) {
	if log.Head() == nil && at.m == nil || log.Head() != nil && publicURL == "" {
		return nil, nil, nil, nil // nothing can be offered; what lies in the place of the manifest has its alarm
	}
	if log.Head() == nil && h.trust[log.Channel].Operators != nil {
		return nil, nil, nil, nil // as above
	}
	if log.Head() == nil {
		offers, err := channels.Foreign(*at.m, h.verify(log.Channel))
		return offers, fleet.NamesIn(*at.m), nil, err
	}
	offers, err := channels.Compile(log, publicURL, h.verify(log.Channel))
	return offers, fleet.NamesOf(log), newDownloads(log.Head(), publicURL, log.Head().When), err
}

// decided returns when the newest entry of a log was made, by our own clock if it
// appeared while we watched.
func (h *Heads) decided(before *compiled, now *channels.Offers) time.Time {
	switch at := h.now(); {
	case before == nil && now.Since.Before(at):
		return now.Since
	case before != nil && before.Sequence == now.Sequence:
		return before.Since
	default:
		return at
	}
}

// rules are those for the manifests of a channel.
func (h *Heads) rules(channel string) manifest.Rules {
	return manifest.Rules{Keys: h.keys, AllowUnbound: h.unbound[channel]}
}

// verify returns what finds out what is wrong with a manifest of a channel.
func (h *Heads) verify(channel string) func(data []byte) error {
	return func(data []byte) error {
		if _, problems := manifest.Check(data, h.rules(channel)); len(problems) > 0 {
			return fmt.Errorf("%w", problems)
		}
		return nil
	}
}

// withholds reports whether no channel hands a version to a client: the only ones that
// are about it have paused its rollout, which did not include the client. Who fetches
// other versions is not known, nor what the clients of a channel with rings were shown.
func (h *Heads) withholds(version, id, cohort string) bool {
	withheld := false
	for name, c := range *h.known.Load() {
		offers := c.offers.Load()
		if offers == nil {
			continue
		}
		about, hands := offers.Hands(version, id, cohort)
		if shown := c.head.Load(); hands || about && h.rings[name] || shown != nil && shown.version == version {
			return false
		}
		withheld = withheld || about
	}
	return withheld
}

// Channels returns what is known of each channel, by its name.
func (h *Heads) Channels() map[string]fleet.Channel {
	all := map[string]fleet.Channel{}
	for name, c := range *h.known.Load() {
		shown, offers := c.head.Load(), c.offers.Load()
		if offers != nil {
			now := offers.with(shown)
			now.Behind = now.Behind || now.Shown && c.putBack.Load()
			all[name] = now
		}
	}
	return all
}

// Moves returns the known entries of a channel's log after a number.
func (h *Heads) Moves(name string, after uint64) []channels.Entry {
	c := h.channel(name)
	if c == nil {
		return nil
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	i := slices.IndexFunc(c.log.Entries, func(e channels.Entry) bool { return e.Sequence > after })
	if i < 0 {
		return nil
	}
	return slices.Clip(c.log.Entries)[i:]
}

// TakeAsks returns how often each manifest was requested since the last call.
func (h *Heads) TakeAsks() map[string]int64 {
	asks := map[string]int64{}
	for name, c := range *h.known.Load() {
		if n := c.asks.Swap(0); n > 0 {
			asks[name] = n
		}
	}
	return asks
}
