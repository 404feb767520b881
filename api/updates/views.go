package updates

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tsmon/api/updates/alarm"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/store/object"
)

// maxBeside bounds the objects that may lie beside the manifest of a channel: those of its
// rings and the list of downloads are 101.
const maxBeside = 1000

// beside is what was seen in the place of a ring's manifest, or of the list of downloads.
type beside struct {
	size     int64
	changed  time.Time
	sequence uint64
}

// lookBeside looks at what clients of the bucket read besides latest.json. This server renders
// that from the log, so what is wrong there shows to no client of its own; an older one in the
// place of one that it has seen there is an alarm of the channel all the same.
func (o *older) lookBeside(ctx context.Context, c *channel) {
	ctx, cancel := context.WithTimeout(ctx, wholePatience)
	defer cancel()
	c.reading.Lock()
	end := c.log.End().Sequence
	c.reading.Unlock()
	if end == 0 {
		return
	}
	var fault error
	etag, n := "", 0
	for info, err := range o.heads.Objects.List(ctx, c.name+"/", "") {
		if err != nil {
			return // the store is away: soon again
		}
		if n++; n > maxBeside {
			fault = fmt.Errorf("more than %d objects lie below %s/", maxBeside, c.name)
			break
		}
		tag, found, err := o.putBack(ctx, c, info, end)
		if err != nil {
			return // as above
		}
		if found != nil && fault == nil {
			fault, etag = found, tag
		}
	}
	if c.putBack.Store(fault != nil); fault != nil {
		o.heads.alarms.Raise(c.name+"/", etag, alarm.Manifest, fault)
	} else {
		o.heads.alarms.Clear(c.name + "/")
	}
}

// putBack returns the ETag and the fault of an object that is of an older entry than what was
// seen in its place. One that goes beyond the end of the log is left for later: the log may
// have been read before it was written.
func (o *older) putBack(ctx context.Context, c *channel, info object.Info, end uint64) (etag string, fault, err error) {
	before := c.beside[info.Key]
	if _, _, ring := channels.RingIn(info.Key); !ring && info.Key != channels.DownloadsKey(c.name) || before.size == info.Size && before.changed.Equal(info.ModTime) {
		return "", nil, nil
	}
	data, read, err := object.ReadAll(ctx, o.heads.Objects, info.Key, manifest.MaxSize)
	if err != nil && !errors.Is(err, object.ErrTooLarge) {
		return "", nil, err
	}
	switch n := (channels.Pointer{Data: data}).Sequence(); {
	case n < before.sequence && before.sequence <= end: // else the log was shortened, and that accepted
		return read.ETag, fmt.Errorf("%s is of entry %d of the log, and that of entry %d lay there before", info.Key, n, before.sequence), nil
	case n <= end:
		c.beside[info.Key] = beside{info.Size, info.ModTime, n}
	}
	return "", nil, nil
}
