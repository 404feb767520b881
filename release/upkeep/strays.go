package upkeep

import (
	"context"
	"fmt"
	"time"

	"tsmon/channels"
)

// deliveryRest is the age at which the objects of an incomplete import count as abandoned.
const deliveryRest = time.Hour

// abandoned returns the strays of a channel's log, except those that may belong to an import in
// progress.
func (k Keeper) abandoned(ctx context.Context, channel string) ([]channels.Stray, error) {
	strays, err := k.Channels.Salvage().Strays(ctx, channel)
	if err != nil || len(strays) == 0 {
		return nil, err
	}
	now, err := k.Library.Store.Now(ctx) // whose clock dated them
	var old []channels.Stray
	for _, s := range strays {
		if !s.Begun || now.Sub(s.Written) > deliveryRest {
			old = append(old, s)
		}
	}
	return old, err
}

// Strangers finds objects among those of a channel that are not part of it: forged ones, or
// those of an interrupted import. log is nil if it can't be read.
func (k Keeper) Strangers(ctx context.Context, channel string, log *channels.Log) (findings Findings, err error) {
	found, err := k.abandoned(ctx, channel)
	if err == nil && log != nil {
		var wrong []channels.Stray
		wrong, err = k.Channels.Salvage().WrongSegments(ctx, log)
		found = append(found, wrong...)
	}
	for _, s := range found {
		findings.find(s.Key, s.Problem, "`tsmon channel repair "+channel+"` removes it")
	}
	if err == nil && log != nil && log.Fed() {
		err = k.marks(ctx, channel, &findings)
	}
	return findings, err
}

// marks finds forged marks, which make a log look imported.
func (k Keeper) marks(ctx context.Context, channel string, findings *Findings) error {
	_, late, err := k.Channels.Salvage().Marks(ctx, channel)
	for _, p := range late {
		key := p.Key(channel)
		findings.find(key, fmt.Errorf("%w: %s says that entries %d to %d come from another store, and was written after they were here", channels.ErrLog, key, p.From, p.To),
			"`tsmon channel repair "+channel+" --own` removes it, and the channel is moved here; if another store does feed this one, its next delivery says so again")
	}
	return err
}

// strays adds what Strangers finds to the report.
func (v *verification) strays(ctx context.Context) error {
	found, err := v.Strangers(ctx, v.report.Channel, v.log)
	v.report.Findings = append(v.report.Findings, found...)
	return err
}

// dropStrays removes the objects that verification.strays finds.
func (r *repair) dropStrays(ctx context.Context) error {
	found, err := r.abandoned(ctx, r.o.Channel)
	if err != nil {
		return err
	}
	var wrong []channels.Stray
	if len(r.lost) == 0 { // otherwise they may be all that is left
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

// own removes the marks of imports, so that the channel can be moved in this store.
func (r *repair) own(ctx context.Context) error {
	if !r.o.Own {
		return nil
	}
	marks, _, err := r.Channels.Salvage().Marks(ctx, r.o.Channel)
	if err != nil {
		return err
	}
	for _, mark := range marks {
		key := mark.Key(r.o.Channel)
		if err := r.do(key, "removed: the channel is moved here", func() error { return r.Library.Store.Delete(ctx, key) }); err != nil {
			return err
		}
	}
	return nil
}
