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

// maxBeside bounds the objects beside the manifest of a channel. The manifests of its rings and
// the list of downloads are 101.
const maxBeside = 1000

// beside is the newest manifest of a ring, or list of downloads, that was seen at a key.
type beside struct {
	size     int64
	changed  time.Time
	sequence uint64
}

// lookBeside checks what clients of the bucket read besides latest.json. This server's own
// clients are not affected, because it renders the same from the log. An object that is older
// than one that was seen there before raises an alarm of the channel.
func (o *older) lookBeside(ctx context.Context, c *channel) {
	ctx, cancel := context.WithTimeout(ctx, wholePatience)
	defer cancel()
	end := c.log.Load().End().Sequence
	if end == 0 {
		return
	}
	var fault error
	etag, n := "", 0
	for info, err := range o.heads.Objects.List(ctx, c.name+"/", "") {
		if err != nil {
			return // the store does not answer; the next round tries again
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

// putBack returns the ETag and the fault of an object that is of an older entry than one that was
// seen there before. It ignores an object of an entry after end, which may have been written
// after the log was read.
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
	case n < before.sequence && before.sequence <= end: // otherwise the log was shortened, and that was accepted
		return read.ETag, fmt.Errorf("%s is of entry %d of the log, and that of entry %d lay there before", info.Key, n, before.sequence), nil
	case n <= end:
		c.beside[info.Key] = beside{info.Size, info.ModTime, n}
	}
	return "", nil, nil
}
