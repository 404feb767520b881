package updates

import (
	"io/fs"

	"tsmon/api/web"
	"tsmon/channels"
)

// ringDocuments are the manifests of a channel's rings, nil where none has verified yet.
type ringDocuments [channels.Rings]*web.Document

// readRings renders the manifests of a channel's rings from its log. One that does not verify
// stays as it was.
func (h *Heads) readRings(c *channel, publicURL string) {
	log := c.log.Load()
	if !h.Rings[c.name] || log.Head() == nil {
		return
	}
	next := ringDocuments{}
	if before := c.rings.Load(); before != nil {
		next = *before
	}
	type shown struct {
		version  string
		sequence uint64
	}
	documents := map[shown]*web.Document{}
	for ring, v := range log.Views(true)[1 : 1+channels.Rings] {
		m := v.Render(publicURL)
		is := shown{m.Version, m.Sequence}
		if _, ok := documents[is]; !ok {
			documents[is] = nil // unless it verifies; what the log shows has its own alarm
			data, err := m.Encode()
			if err == nil && h.verify(c.name)(data) == nil {
				documents[is] = rendered(data, log.At(v.Sequence).When)
			}
		}
		if d := documents[is]; d != nil {
			next[ring] = d
		}
	}
	c.rings.Store(&next)
}

// document returns the manifest of a channel or of one of its rings. Errors are fs.ErrNotExist
// if the channel keeps no rings, errUnverified if no manifest has verified yet.
func (c *channel) document(ring int) (*web.Document, error) {
	if ring == whole {
		if _, err := c.shown(); err != nil {
			return nil, err
		}
		return c.head.Load().Document, nil
	}
	switch all := c.rings.Load(); {
	case all == nil:
		return nil, fs.ErrNotExist
	case all[ring] == nil:
		return nil, errUnverified
	default:
		return all[ring], nil
	}
}
