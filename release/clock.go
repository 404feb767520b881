package release

import (
	"context"
	"time"

	"tsmon/channels"
	"tsmon/store/object"
)

// MendClock says what to do about a clock that is far from the store's.
const MendClock = "set the clock of this machine, or of the store, by NTP: `timedatectl set-ntp true`"

// agrees refuses to go by a clock that is further from the store's time than
// channels.Tolerance. A clock that is behind would date the steps of a rollout so that they
// are over at once.
func agrees(ctx context.Context, store object.Store, now time.Time) error {
	theirs, err := store.Now(ctx)
	if err != nil {
		return err
	}
	skew, way := now.Sub(theirs).Round(time.Second), "ahead of"
	if skew < 0 {
		way = "behind"
	}
	if skew.Abs() <= channels.Tolerance {
		return nil
	}
	return refuse(object.ErrClock, MendClock, "this machine's clock is %v %s the store's, at most %v are allowed", skew.Abs(), way, channels.Tolerance)
}

// mendFuture says what to do about an entry from the future.
func mendFuture(channel string) string {
	return "wait until then, or set the store's clock by NTP if that is wrong; if the entry was made by a wrong clock, `tsmon channel verify " + channel + " --accept` has the log go on from now"
}
