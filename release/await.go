package release

import (
	"context"
	"errors"
	"slices"
	"time"

	"tsmon/channels"
)

// awaitEvery is how often a plan is looked at that others are to sign. Each look costs a
// few requests.
const awaitEvery = 2 * time.Second

// ShowPlan is FindPlan with the table of who gets what.
func (p *Publisher) ShowPlan(ctx context.Context, channel, hash string) (*Waiting, error) {
	w, err := p.FindPlan(ctx, channel, hash)
	if err != nil || w.Stale != "" || w.Entry.Action.Upkeep() {
		return w, err
	}
	after := &channels.Log{Channel: w.Channel, Entries: append(slices.Clip(w.log.Entries), *w.Entry)}
	w.Reach, err = p.Replay(after, w.Entry.Sequence)
	return w, err
}

// Await waits until a plan that lacks signatures is made, by whoever brings the last one,
// and returns it as it came out. Should that one be interrupted, Await makes it. The error
// wraps ErrStale once the plan can't be made any more, and is that of ctx when that ends
// first. Failures of the store are waited out.
func (p *Publisher) Await(ctx context.Context, plan *Plan) (*Plan, error) {
	hash, log := plan.Waiting.Hash, plan.Waiting.log
	for {
		w, err := p.waiting(ctx, log, hash)
		if errors.Is(err, ErrNoRelease) || err == nil && (w.Stale != "" || w.Has >= w.Needs) {
			made, err := p.Approve(ctx, plan.Channel, hash, true)
			if err != nil {
				return nil, err
			}
			if made.Waiting == nil {
				plan.Waiting, plan.Changed = nil, true
				plan.Rendered, plan.Followers, plan.Probed = made.Rendered, made.Followers, made.Probed
				plan.Warnings = append(plan.Warnings, made.Warnings...)
				return plan, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(awaitEvery):
		}
		if longer, err := p.trusting(plan.Channel).Extend(ctx, log); err == nil {
			log = longer
		}
	}
}
