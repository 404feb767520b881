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

// CheckClock returns an error if now differs from the store's time by more than
// channels.Tolerance. With a clock that is slow, the steps of a rollout would be over at
// once.
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
