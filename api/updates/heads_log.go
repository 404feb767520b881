package updates

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"tsmon/api/fleet"
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
	return fleet.Channel{Offers: c.Offers, Names: c.names, Shown: shown != nil, Behind: shown != nil && c.Sequence > shown.sequence}
}

// readLog updates what a channel offers from its log, which counts also while the
// manifest is behind it. What does not verify is not offered. The errors are the
// store's.
func (h *Heads) readLog(ctx context.Context, c *channel, shown *head) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	repository := channels.Repository{Store: h.store}
	moved, err := repository.Moved(ctx, c.log)
	if err != nil || !moved && c.offers.Load() != nil && c.offeredAt == shown.stored.ETag {
		return err
	}
	log, err := repository.Extend(ctx, c.log)
	key := channels.LogPrefix(c.name)
	if errors.Is(err, channels.ErrLog) {
		h.alarms.raise(key, shown.stored.ETag, err)
		return nil
	}
	if err != nil {
		if log != nil {
			c.log = log // the next look goes on from there
		}
		return err
	}
	c.log = log
	publicURL := h.publicURL
	if publicURL == "" {
		publicURL, _ = log.Base(&shown.manifest)
	}
	offers, names, list, err := h.compile(log, shown, publicURL)
	if err != nil {
		h.alarms.raise(key, shown.stored.ETag, err)
	} else {
		h.alarms.clear(key)
	}
	if offers != nil {
		offers.Since, offers.Downgrades = h.decided(c.offers.Load(), offers), h.downgrades[c.name]
		c.offers.Store(&compiled{offers, names, list})
		h.readRings(c, publicURL)
	}
	c.offeredAt = shown.stored.ETag
	return nil
}

// compile returns the offers, names and downloads of a log. Without a log the manifest counts,
// which was put there by other means.
func (h *Heads) compile(log *channels.Log, shown *head, publicURL string) (*channels.Offers, *fleet.Names, *downloads, error) {
	if log.Head() == nil {
		offers, err := channels.Foreign(shown.manifest, h.verify)
		return offers, fleet.NamesIn(shown.manifest), nil, err
	}
	offers, err := channels.Compile(log, publicURL, h.verify)
	return offers, fleet.NamesOf(log), newDownloads(log.Head(), publicURL, shown.stored.ModTime), err
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

// verify returns what is wrong with a manifest.
func (h *Heads) verify(data []byte) error {
	if _, problems := manifest.Check(data, h.rules); len(problems) > 0 {
		return fmt.Errorf("%w", problems)
	}
	return nil
}

// Channels returns what is known of each channel, by its name.
func (h *Heads) Channels() map[string]fleet.Channel {
	all := map[string]fleet.Channel{}
	for name, c := range *h.known.Load() {
		shown, offers := c.head.Load(), c.offers.Load()
		if offers != nil {
			all[name] = offers.with(shown)
		}
	}
	return all
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
