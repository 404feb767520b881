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

// offersOf returns what a channel has for each client. The errors are those of method of.
func (h *Heads) offersOf(ctx context.Context, name string) (fleet.Channel, error) {
	c, err := h.of(ctx, name)
	if err != nil {
		return fleet.Channel{}, err
	}
	shown, offers := c.head.Load(), c.offers.Load()
	if offers == nil || offers.Sequence < shown.sequence {
		return fleet.Channel{}, errUnverified // the log is not known up to the manifest
	}
	return offers.with(shown), nil
}

// with returns what is known of a channel that shows a manifest, which may be nil.
func (c *compiled) with(shown *head) fleet.Channel {
	return fleet.Channel{Offers: c.Offers, Names: c.names, Shown: shown != nil, Behind: shown != nil && shown.behind}
}

// settled reports whether a channel and its manifest in the store show the newest entry of the
// log, the log was looked at lately, and nothing is being rolled out. During a rollout the log
// is always read, so that a pause takes effect at once, even if its manifest could not be
// written.
func (c *channel) settled(now time.Time) bool {
	c.reading.Lock()
	defer c.reading.Unlock()
	shown, offers := c.head.Load(), c.offers.Load()
	return shown != nil && !shown.behind && c.log.Load().Head() != nil && c.lately(now) && offers.Rolling() == "" && c.offeredAt == c.pointer.stored.ETag
}

// lately reports whether a log is believed, recorded, and was looked at within standsEvery.
func (c *channel) lately(now time.Time) bool {
	age := now.Sub(c.stood)
	return c.broken == nil && !c.unrecorded && c.offers.Load() != nil && age >= 0 && age < standsEvery
}

// readLog updates what a channel offers from its log, even if the manifest is behind the log.
// It offers nothing that does not verify, and nothing of a strange channel. The errors are the
// store's.
func (h *Heads) readLog(ctx context.Context, c *channel, at *pointer) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	if h.strange(c.name) {
		c.broken = fmt.Errorf("%w: operators are configured, and no channel %s: name it in tsmon.yaml; only if nobody knows it, remove it from the store", channels.ErrUnsigned, c.name)
		h.alarms.Raise(channels.LogPrefix(c.name), at.stored.ETag, alarm.Unsigned, c.broken)
		return nil
	}
	f := follower{h, channels.Repository{Store: h.Objects, Trust: h.Trust, Known: h.knownLog}, c, at}
	moved, err := f.Exists(ctx, c.name, c.read().End().Sequence+1)
	if err != nil || !moved && c.lately(h.Now()) && c.offeredAt == at.stored.ETag {
		return err
	}
	log, err := f.follow(ctx, moved)
	key := channels.LogPrefix(c.name)
	if c.broken = nil; errors.Is(err, channels.ErrLog) || errors.Is(err, channels.ErrHistory) {
		c.broken = err
		if !c.checked {
			c.ahead = nil
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
	offers, err := h.compile(log, at, publicURL)
	if c.uncompiled, c.offeredAt = err, at.stored.ETag; err != nil && offers == nil {
		c.ahead = log
	} else {
		c.ahead, c.publicURL, c.checked = nil, publicURL, true
		c.log.Store(log)
	}
	judgeLog(h.alarms, c)
	if offers != nil {
		offers.Since, offers.Downgrades = decided(c.offers.Load(), offers, h.Now()), h.Downgrades[c.name]
		c.offers.Store(offers)
		h.readRings(c, c.publicURL)
	}
	return nil
}

// strange reports whether operators sign some channel, but this one is not configured: anybody
// who can write to the bucket can make one.
func (h *Heads) strange(channel string) bool {
	_, configured := h.Trust[channel]
	return h.signed && !configured
}

// read returns the log of a channel as far as it was read, believed or not.
func (c *channel) read() *channels.Log {
	if c.ahead != nil {
		return c.ahead
	}
	return c.log.Load()
}

// base returns the public URL in the manifests of a log, empty while it is unknown.
func (h *Heads) base(c *channel, log *channels.Log, at *pointer) string {
	if h.PublicURL == "" && at.m != nil {
		if publicURL, ok := log.Base(at.m); ok {
			return publicURL
		}
	}
	return cmp.Or(h.PublicURL, c.publicURL)
}

// compile prepares a log, or without a log the manifest, which was then made by other means. It
// returns nil if nothing can be offered. With an error it may also return the offers that verify.
func (h *Heads) compile(log *channels.Log, at *pointer, publicURL string) (*compiled, error) {
	head := log.Head()
	switch {
	case head == nil && (at.m == nil || h.Trust[log.Channel].Operators != nil), head != nil && publicURL == "":
		return nil, nil //nolint:nilnil // what is in the place of the manifest has its alarm
	case head == nil:
		offers, err := channels.Foreign(*at.m, h.verify(log.Channel))
		if err != nil {
			return nil, err
		}
		return &compiled{offers, fleet.NamesIn(*at.m), nil}, nil
	}
	offers, err := channels.Compile(log, publicURL, h.verify(log.Channel))
	if offers == nil {
		return nil, err
	}
	return &compiled{offers, fleet.NamesOf(log), newDownloads(head, publicURL, head.When)}, err
}

// decided returns when the newest entry of a log was made, by the clock of this server if it
// saw the entry appear.
func decided(before, now *compiled, at time.Time) time.Time {
	switch {
	case before == nil && now.Since.Before(at):
		return now.Since
	case before != nil && before.Sequence == now.Sequence:
		return before.Since
	default:
		return at
	}
}

func (h *Heads) rules(channel string) manifest.Rules {
	return manifest.Rules{Keys: h.Keys, AllowUnbound: h.Unbound[channel]}
}

// verify returns the check of the manifests of a channel.
func (h *Heads) verify(channel string) func(data []byte) error {
	return func(data []byte) error {
		if _, problems := manifest.Check(data, h.rules(channel)); len(problems) > 0 {
			return fmt.Errorf("%w", problems)
		}
		return nil
	}
}

// withholds reports whether no channel gives a version to a client: all channels that roll it
// out have paused the rollout, and none had included the client. It is false for versions that
// no channel rolls out, and for channels with rings, whose clients may have been shown it.
func (h *Heads) withholds(version, id, cohort string) bool {
	withheld := false
	for name, c := range *h.known.Load() {
		offers := c.offers.Load()
		if offers == nil {
			continue
		}
		about, hands := offers.Hands(version, id, cohort)
		if shown := c.head.Load(); hands || about && h.Rings[name] || shown != nil && shown.version == version {
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
		if offers := c.offers.Load(); offers != nil {
			now := offers.with(c.head.Load())
			now.Behind = now.Behind || now.Shown && c.putBack.Load()
			all[name] = now
		}
	}
	return all
}

// logOf returns the part of a channel's log that this server has read. If there is
// none, the errors are those of method of. A log counts even if its manifest does not verify.
func (h *Heads) logOf(ctx context.Context, name string) (*channels.Log, error) {
	_, err := h.of(ctx, name)
	log := h.knownLog(name)
	switch {
	case log.Head() != nil:
		return log, nil
	case err == nil:
		err = fs.ErrNotExist
	}
	return nil, err
}

// knownLog returns the part of a channel's log that this server has read and believes.
func (h *Heads) knownLog(name string) *channels.Log {
	if c := h.channel(name); c != nil {
		return c.log.Load()
	}
	return &channels.Log{Channel: name}
}

// Moves returns the known entries of a channel's log after a number.
func (h *Heads) Moves(name string, after uint64) []channels.Entry {
	entries := h.knownLog(name).Entries
	i := slices.IndexFunc(entries, func(e channels.Entry) bool { return e.Sequence > after })
	if i < 0 {
		return nil
	}
	return slices.Clip(entries)[i:]
}

// TakeAsks returns how often each channel's manifests were requested since the last call.
func (h *Heads) TakeAsks() map[string]int64 {
	asks := map[string]int64{}
	for name, c := range *h.known.Load() {
		if n := c.asks.Swap(0); n > 0 {
			asks[name] = n
		}
	}
	return asks
}
