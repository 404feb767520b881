package updates

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"tsmon/api/updates/alarm"
	"tsmon/api/web"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/store/object"
)

// pointer is the object at a channel's manifest key in the store.
type pointer struct {
	stored object.Info
	data   []byte             // nil if it does not verify
	m      *manifest.Manifest // likewise
	fault  error              // why it does not verify
}

// head is what a channel shows.
type head struct {
	version  string
	sequence uint64
	data     []byte
	*web.Document
	behind bool // the manifest in the store is not that of the log's newest entry
}

// readPointer reads the manifest of a channel if it has changed.
func (h *Heads) readPointer(ctx context.Context, c *channel) (*pointer, error) {
	key := channels.ManifestKey(c.name)
	info, err := h.Objects.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if c.pointer != nil && c.pointer.stored.ETag == info.ETag {
		return c.pointer, nil
	}
	data, info, err := object.ReadAll(ctx, h.Objects, key, manifest.MaxSize)
	if errors.Is(err, object.ErrTooLarge) {
		return &pointer{stored: info, fault: err}, nil
	}
	if err != nil {
		return nil, err
	}
	doc, problems := manifest.Check(data, h.rules(c.name))
	if len(problems) > 0 {
		return &pointer{stored: info, fault: problems}, nil
	}
	return &pointer{stored: info, data: data, m: &doc.Manifest}, nil
}

// show returns what a channel shows: the newest entry of its log, whatever the manifest in the
// store is, or that manifest if there is no log. If it does not verify, show returns what
// verified last, nil if nothing has. It raises or clears the alarm of the manifest.
func (h *Heads) show(c *channel) *head {
	c.reading.Lock()
	defer c.reading.Unlock()
	shown, at, offers := c.head.Load(), c.pointer, c.offers.Load()
	entry := c.log.Load().Head()
	fault := at.fault
	switch {
	case fault != nil:
	case entry != nil:
		if fault = forged(c.read(), at); fault == nil { // an entry that does not verify has its own alarm
			fault = c.setBack(at)
		}
	case errors.Is(c.broken, channels.ErrUnsigned), errors.Is(c.broken, channels.ErrHistory):
		fault = c.broken // nor is the manifest
	case h.Trust[c.name].Operators != nil:
		fault = fmt.Errorf("%w: there is no log", channels.ErrUnsigned)
	}
	if key := channels.ManifestKey(c.name); fault != nil {
		h.alarms.Raise(key, at.stored.ETag, alarm.Manifest, fault)
	} else {
		h.alarms.Clear(key)
	}
	known := entry != nil && offers != nil && offers.Sequence == entry.Sequence && c.publicURL != ""
	switch {
	case known:
		return logged(entry, c, shown)
	case shown != nil && (fault != nil || entry != nil), !c.checked:
		return shown
	case fault != nil || at.m == nil:
		return nil
	case shown != nil && bytes.Equal(shown.data, at.data):
		return shown
	}
	return &head{version: at.m.Version, sequence: at.m.Sequence, data: at.data, Document: web.NewDocument(at.data, at.stored)}
}

// logged returns the head that shows an entry: shown itself if nothing has changed.
func logged(entry *channels.Entry, c *channel, shown *head) *head {
	m := entry.Render(c.publicURL)
	data, err := m.Encode()
	if err != nil {
		return shown
	}
	next := &head{version: m.Version, sequence: entry.Sequence, data: data, behind: c.pointer.m == nil || c.pointer.m.Sequence != entry.Sequence || forged(c.log.Load(), c.pointer) != nil}
	switch {
	case shown != nil && bytes.Equal(shown.data, data) && shown.behind == next.behind:
		return shown
	case bytes.Equal(c.pointer.data, data):
		next.Document = web.NewDocument(data, c.pointer.stored)
	default:
		next.Document = rendered(data, entry.When)
	}
	return next
}

// setBack returns an error if a manifest is of an older entry than one that this server, or
// another that shares the records, has seen there before. Every move leaves the manifest as it
// is or writes a newer one, also if it is interrupted.
func (c *channel) setBack(at *pointer) error {
	if n := at.m.Sequence; n >= c.lay || c.lay > c.log.Load().End().Sequence { // the log was shortened, and that was accepted
		c.lay = n
		return nil
	}
	return fmt.Errorf("it is of entry %d of the log of %s, and that of entry %d lay there before", at.m.Sequence, c.name, c.lay)
}

// rendered returns a document that this server made, with the time of its last change.
func rendered(data []byte, changed time.Time) *web.Document {
	sum := sha256.Sum256(data)
	return web.NewDocument(data, object.Info{ETag: hex.EncodeToString(sum[:16]), ModTime: changed})
}

// forged returns an error unless a manifest shows an entry of the log. The public URL may be any.
func forged(log *channels.Log, at *pointer) error {
	n := at.m.Sequence
	e := log.At(n)
	if e == nil {
		return fmt.Errorf("it is of entry %d, and the log of %s ends at %d", n, log.Channel, log.End().Sequence)
	}
	base, ok := log.Base(at.m)
	shown := e.Render(base)
	if data, err := shown.Encode(); !ok || err != nil || !bytes.Equal(data, at.data) {
		return fmt.Errorf("it is not what entry %d of the log of %s shows", n, log.Channel)
	}
	return nil
}
