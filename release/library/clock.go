package library

import (
	"context"
	"time"

	"tsmon/channels"
	"tsmon/release/bundle"
	"tsmon/store/object"
)

// MendClock says what to do about a clock that is far from the store's.
const MendClock = "set the clock of this machine, or of the store, by NTP: `timedatectl set-ntp true`"

// CheckClock refuses to go by a clock that is further from the store's time than
// channels.Tolerance. A clock that is behind would date the steps of a rollout so that they
// are over at once.
func CheckClock(ctx context.Context, store object.Store, now time.Time) error {
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
	return bundle.Refuse(object.ErrClock, MendClock, "this machine's clock is %v %s the store's, at most %v are allowed", skew.Abs(), way, channels.Tolerance)
}
