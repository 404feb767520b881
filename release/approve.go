package release

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"tsmon/channels"
	"tsmon/release/approval"
	"tsmon/release/upkeep"
)

// awaitEvery is how often Await reads a plan, at a few requests each.
const awaitEvery = 2 * time.Second

// ShowPlan is Plans.Find with the table of who gets what.
func (p *Publisher) ShowPlan(ctx context.Context, channel, hash string) (*approval.Waiting, error) {
	w, err := p.Plans().Find(ctx, channel, hash)
	if err != nil || w.Stale != "" || w.Entry.Action.Upkeep() {
		return w, err
	}
	after := &channels.Log{Channel: w.Channel, Entries: append(slices.Clip(w.Log.Entries), *w.Entry)}
	w.Reach, err = p.Inspector().Replay(after, w.Entry.Sequence)
	return w, err
}

// Approve verifies the release of a waiting plan in the store, signs the plan unless apply is
// true, and makes it if it has all signatures. A hash has at least approval.Digits digits. An
// empty one means the only waiting plan; if none waits, Approve completes the last plan that was
// made and interrupted. Errors wrap approval.ErrStale if the channel has moved on, and
// approval.ErrNoKey if there is no key here that may sign.
func (p *Publisher) Approve(ctx context.Context, channel, hash string, apply bool) (*Plan, error) {
	if _, err := p.planner(channel); err != nil {
		return nil, err
	}
	plans := p.Plans()
	w, err := plans.FindToSign(ctx, channel, hash)
	if err == nil && w.Stale != "" {
		hash, err = w.Hash, &Refusal{Cause: approval.ErrStale, Text: w.Stale, Mend: "run the command that made the plan again, for a new plan"}
	}
	if errors.Is(err, approval.ErrNoPlan) || errors.Is(err, approval.ErrStale) {
		return p.completed(ctx, channel, hash, err)
	}
	if err != nil {
		return nil, err
	}
	if w.Log.Fed() {
		return nil, upkeep.Fed(channel)
	}
	if shown := Introduced(w.Entry); introducesNew(w) {
		p.step("verifying %s in the store", shown.Version)
		if _, err := p.Library().Verified(ctx, shown.Version, shown.Record, true); err != nil {
			return nil, err
		}
	}
	var warnings []string
	if !apply {
		var again string
		if w, again, err = plans.SignPlan(ctx, w); err != nil {
			return nil, err
		}
		if again != "" {
			warnings = append(warnings, again+" had signed the plan already: it counts once")
		}
	}
	plan := newPlan(p.PublicURL, w.Log, w.Entry)
	plan.Entry, plan.Warnings = w.Entry, warnings
	plans.Sign = nil // it has signed
	done, err := plans.Complete(ctx, w)
	if plan.Waiting = done.Waiting; err != nil || done.Log == nil {
		return plan, err
	}
	finished, err := p.Finish(ctx, channel)
	if finished != nil {
		finished.Changed = true
		finished.Previous, finished.Rendered, finished.Warnings = plan.Previous, nil, append(warnings, finished.Warnings...)
		plan = finished
	}
	return plan, err
}

// Await waits until a plan has all signatures and is applied, and returns it with its outcome. It
// applies the plan itself if the last signer was interrupted, and retries when the store fails. The
// error wraps approval.ErrStale if the plan can't be applied any more.
func (p *Publisher) Await(ctx context.Context, plan *Plan) (*Plan, error) {
	plans, hash, log := p.Plans(), plan.Waiting.Hash, plan.Waiting.Log
	for {
		w, err := plans.Read(ctx, log, hash)
		if errors.Is(err, approval.ErrNoPlan) || err == nil && (w.Stale != "" || w.Has >= w.Needs) {
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
		if longer, err := plans.Extend(ctx, log); err == nil {
			log = longer
		}
	}
}

// completed finishes a plan that was made and interrupted. If there is none, or without hash
// nothing to do, it returns why.
func (p *Publisher) completed(ctx context.Context, channel, hash string, why error) (*Plan, error) {
	if made, err := p.Plans().Made(ctx, channel, hash); err != nil || !made {
		return nil, cmp.Or(err, why)
	}
	plan, err := p.Finish(ctx, channel)
	if err == nil && hash == "" && !plan.Changed && errors.Is(why, approval.ErrStale) {
		if _, why = p.Plans().Find(ctx, channel, ""); errors.Is(why, approval.ErrStale) {
			return nil, why // of another plan
		}
	}
	return plan, err
}

// introducesNew reports whether a plan gives clients a release that the present log does not.
func introducesNew(w *approval.Waiting) bool {
	switch head := w.Log.Head(); w.Entry.Action {
	case channels.Appoint, channels.Accept, channels.Pause:
		return false
	case channels.Repair:
		return head == nil || !head.Release.Equal(&w.Entry.Release)
	}
	return true
}

// Introduced returns the release that an entry introduces. If the entry has a rollout, it is the
// rollout's release.
func Introduced(e *channels.Entry) *channels.Release {
	if e.Rollout != nil {
		return &e.Rollout.Release
	}
	return &e.Release
}
