package upkeep

import (
	"context"
	"time"

	"tsmon/channels"
)

// deliveryRest is how old what a delivery left must be before it is taken for abandoned.
const deliveryRest = time.Hour

// abandoned returns what no reader of a channel's log heeds, but for what may be of a delivery
// that is still under way.
func (k Keeper) abandoned(ctx context.Context, channel string) ([]channels.Stray, error) {
	strays, err := k.Channels.Salvage().Strays(ctx, channel)
	if err != nil || len(strays) == 0 {
		return nil, err
	}
	now, err := k.Library.Store.Now(ctx) // which dated them
	var old []channels.Stray
	for _, s := range strays {
		if !s.Begun || now.Sub(s.Written) > deliveryRest {
			old = append(old, s)
		}
	}
	return old, err
}

// strays finds what no reader of the log heeds, and that somebody wrote there who may not, or
// did not end.
func (v *verification) strays(ctx context.Context) error {
	found, err := v.abandoned(ctx, v.report.Channel)
	if err == nil && v.log != nil {
		var wrong []channels.Stray
		wrong, err = v.Channels.Salvage().WrongSegments(ctx, v.log)
		found = append(found, wrong...)
	}
	for _, s := range found {
		v.report.find(s.Key, s.Problem, "`tsmon channel repair "+v.report.Channel+"` removes it")
	}
	return err
}

// dropStrays removes what verification.strays finds.
func (r *repair) dropStrays(ctx context.Context) error {
	found, err := r.abandoned(ctx, r.o.Channel)
	if err != nil {
		return err
	}
	var wrong []channels.Stray
	if len(r.lost) == 0 { // else they may be all that is left
		if wrong, err = r.Channels.Salvage().WrongSegments(ctx, r.log); err != nil {
			return err
		}
	}
	for _, s := range append(found, wrong...) {
		if r.goesOut(s) {
			if err := r.moveOut(ctx, s.Key); err != nil {
				return err
			}
			continue
		}
		if err := r.do(s.Key, "removed: nothing heeds it", func() error { return r.Library.Store.Delete(ctx, s.Key) }); err != nil {
			return err
		}
	}
	if len(wrong) > 0 && !r.o.DryRun {
		return r.Channels.PackAll(ctx, r.log)
	}
	return nil
}

// own has a channel moved here again that passes for one that is fed.
func (r *repair) own(ctx context.Context) error {
	if !r.o.Own {
		return nil
	}
	marks, err := r.Channels.Salvage().Marks(ctx, r.o.Channel)
	if err != nil {
		return err
	}
	for _, key := range marks {
		if err := r.do(key, "removed: the channel is moved here", func() error { return r.Library.Store.Delete(ctx, key) }); err != nil {
			return err
		}
	}
	return nil
}
