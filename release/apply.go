package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"tsmon/channels"
	"tsmon/release/approval"
	"tsmon/release/library"
	"tsmon/release/upkeep"
)

// applying is one run of Apply, or its part that moves a follower.
type applying struct {
	*Publisher
	plan *Plan
}

// finish applies a plan, unless only the plan is wanted.
func (p *Publisher) finish(ctx context.Context, plan *Plan, o Options) (*Plan, error) {
	if plan.Entry != nil {
		if err := library.CheckClock(ctx, p.Store, p.Now()); err != nil {
			return nil, err
		}
	}
	if !o.DryRun {
		return p.Apply(ctx, plan)
	}
	for _, each := range append([]*Plan{plan}, plan.Followers...) {
		if err := each.rehearse(p.Plans()); err != nil {
			return nil, err
		}
	}
	if plan.Entry == nil {
		if behind, err := p.Repository().Behind(plan.log, plan.seen); err == nil && len(behind) > 0 {
			plan.Rendered, plan.Changed = behind, true
		}
	}
	return plan, errors.Join(plan.broken...)
}

// rehearse sets Needs for a dry run: the operators who would have to sign the plan.
func (plan *Plan) rehearse(plans approval.Plans) (err error) {
	plan.DryRun = true
	if plan.Entry != nil && plan.Action != channels.Follow { // which goes by the signatures of its leader's
		plan.Needs, err = plans.Needs(plan.log, plan.Entry)
		if step, free := channels.Unanswered(plan.log, *plan.Entry); free && plan.log.Operators().Approvals > 1 {
			plan.unsign(step)
		}
	}
	return err
}

// unsign has a plan make the step that its entry amounts to without a signature.
func (plan *Plan) unsign(step channels.Entry) {
	plan.Warnings = append(plan.Warnings, approval.Unkept(plan.log, plan.Entry, &step)...)
	plan.Entry, plan.head = &step, &step
}

// Apply carries out a plan and returns it with its outcome. It uploads what is missing, creates
// the record, checks that clients may read both folders, appends the entry if the log still ends
// at Base, updates the manifest, moves the followers, and fetches what clients get. If it fails,
// the plan is nil unless the channel has moved. The error is a *channels.ConflictError if
// somebody else moved the channel since the plan was made.
func (p *Publisher) Apply(ctx context.Context, plan *Plan) (*Plan, error) {
	w := &applying{p, plan}
	if plan.record == nil && plan.Base.Sequence == 0 && plan.Entry != nil {
		drop, err := upkeep.Claim(ctx, w.Store, plan.Version, plan.Channel)
		if err != nil {
			return nil, err
		}
		defer drop()
	}
	if err := w.addRelease(ctx); err != nil {
		return nil, err
	}
	if err := w.readable(ctx); err != nil {
		return nil, err
	}
	followers := plan.Followers
	plan.Followers = nil
	stays, err := w.advance(ctx, len(followers) > 0)
	if err != nil {
		if plan.Entry != nil && plan.Changed {
			return plan, err
		}
		return nil, err
	}
	if plan.Waiting != nil {
		return plan, nil
	}
	if stays {
		w.moveFollowers(ctx, followers)
	}
	if err := errors.Join(plan.broken...); err != nil {
		return plan, err
	}
	return plan, w.probe(ctx)
}

// addRelease adds the release of a plan to the store, which has to prove that it honours
// conditions before anything relies on them.
func (w *applying) addRelease(ctx context.Context) error {
	plan := w.plan
	switch {
	case plan.record != nil:
		u := library.Upload{Library: w.Library(), Version: plan.record.Version, Files: plan.files, Sent: w.Uploaded}
		if n := u.AtHand(plan.record.Bundles); n > 0 { // else they were staged
			w.step("uploading files: %d", n)
		}
		return u.Add(ctx, plan.record)
	case plan.Base.Sequence == 0 && plan.Entry != nil:
		if err := library.CheckConditions(ctx, w.Store, plan.Version); err != nil {
			return err
		}
		// Prune may not know of the channel: no entry of its conflicts with the first.
		v := w.Inspector().look(ctx)
		if s := v[plan.Channel]; s.err != nil {
			return s.err
		}
		return v.resting(v[plan.Channel], plan.Version, w.Now())
	}
	return nil
}

// advance appends the entry of a plan and updates what clients read. stays is false if
// somebody else has moved the channel since, in which case that move takes the followers
// along. With watched, advance looks for such a move, which costs a request.
func (w *applying) advance(ctx context.Context, watched bool) (stays bool, err error) {
	plan := w.plan
	if plan.Entry != nil {
		plan.Changed = false
		log, err := w.enter(ctx)
		if err != nil || plan.Waiting != nil {
			return false, err
		}
		plan.log, plan.Changed = log, true
	}
	moved, log := false, plan.log // showing replaces the plan's
	group, showing := errgroup.WithContext(ctx)
	group.Go(func() error { return w.show(showing) })
	if plan.Entry != nil {
		group.Go(func() error {
			_ = w.Repository().Pack(showing, log) // without it the log is read entry by entry
			return nil
		})
	}
	group.Go(func() (err error) {
		if watched {
			moved, err = w.Repository().Exists(showing, plan.Channel, plan.Sequence+1)
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return false, err
	}
	if moved && plan.head.Sequence == plan.Sequence {
		log, _, err := w.Repository().Repoint(ctx, plan.log)
		if err != nil {
			return false, err
		}
		plan.log, plan.head = log, log.Head()
	}
	if head := plan.head; head.Newest() != plan.Version && head.Version != plan.Version {
		plan.Warnings = append(plan.Warnings, fmt.Sprintf("%s has moved on to %s meanwhile (entry %d by %s)", plan.Channel, head.Version, head.Sequence, head.Who))
	}
	return plan.head.Version == plan.Version, nil
}

// enter appends the entry of a plan, signed. Where it lacks signatures, the plan waits for
// them in the store, and the log is nil.
func (w *applying) enter(ctx context.Context) (*channels.Log, error) {
	plan, plans := w.plan, w.Plans()
	if plan.log.Fed() {
		return nil, upkeep.Fed(plan.Channel)
	}
	if err := library.CheckClock(ctx, w.Store, w.Now()); err != nil {
		return nil, err
	}
	e := plan.log.Next(*plan.Entry)
	step, free := channels.Unanswered(plan.log, e)
	if plan.log.Operators() != nil || e.Operators != nil {
		e.Expires = e.When.Add(cmp.Or(w.Policies[plan.Channel].PlanLife, approval.Life))
	}
	unsigned := plans.AddSignature(ctx, plan.log, &e)
	if unsigned != nil && !errors.Is(unsigned, approval.ErrNoKey) {
		return nil, unsigned
	}
	has, needs, err := plans.Channels.Approvals(plan.log, e)
	switch {
	case err != nil:
		return nil, err
	case has < needs && free:
		plan.unsign(step)
		return plans.Channels.Enter(ctx, plan.log, step)
	case has < needs && errors.Is(unsigned, approval.ErrNotOperator) && e.Action != channels.Follow: // whoever leads has moved
		return nil, approval.NobodySigns(unsigned, plan.log, &e)
	case has < needs:
		done, err := plans.Wait(ctx, plan.log, e)
		if plan.Waiting = done.Waiting; done.Warning != "" {
			plan.Warnings = append(plan.Warnings, done.Warning)
		}
		if plan.Waiting != nil && unsigned != nil {
			plan.Warnings = append(plan.Warnings, unsigned.Error())
		}
		return done.Log, err
	}
	return plans.Channels.Enter(ctx, plan.log, e)
}

// show updates the manifests that clients read. Afterwards plan.head is the entry that they
// show.
func (w *applying) show(ctx context.Context) (err error) {
	plan := w.plan
	shown := plan.log
	if plan.Entry != nil {
		shown, _, err = w.Repository().Point(ctx, plan.log, plan.seen)
	} else if behind, unknown := w.Repository().Behind(plan.log, plan.seen); unknown != nil || len(behind) > 0 {
		shown, plan.Changed, err = w.Repository().Repoint(ctx, plan.log)
		if plan.Changed {
			plan.Rendered = behind
		}
	}
	if err == nil {
		plan.log, plan.head = shown, shown.Head()
	}
	return err
}

// moveFollowers moves the channels that follow a leader, side by side.
func (w *applying) moveFollowers(ctx context.Context, followers []*Plan) {
	leader := w.plan
	var group sync.WaitGroup
	errs := make([]error, len(followers))
	for i := range followers {
		group.Go(func() { followers[i], errs[i] = w.moveFollower(ctx, followers[i]) })
	}
	group.Wait()
	for i, follower := range followers {
		if errs[i] != nil {
			leader.leaves(follower.Channel, errs[i])
		} else if follower.Changed || follower.Waiting != nil {
			leader.Followers = append(leader.Followers, follower)
		}
	}
}

// followAttempts bounds how often a follower is tried while others move it.
const followAttempts = 20

// moveFollower applies the plan of a follower, or a new one if somebody else moves that channel
// meanwhile.
func (w *applying) moveFollower(ctx context.Context, follower *Plan) (*Plan, error) {
	leader := w.plan
	for attempt := 0; ; attempt++ {
		var err error
		if force := follower.log.Operators(); follower.Entry != nil && force != nil && force.Follows == leader.Channel {
			err = leader.log.Witness(follower.Entry) // the signed entry that lets it follow
		}
		if err == nil {
			_, err = (&applying{w.Publisher, follower}).advance(ctx, false)
		}
		if !errors.As(err, new(*channels.ConflictError)) || attempt == followAttempts {
			return follower, err
		}
		pl, err := w.planner()
		if err != nil {
			return follower, err
		}
		v := w.Inspector().look(ctx)
		// A rollback that came in between must not be followed by the release that
		// it removed.
		if s := v[leader.Channel]; s.err != nil || s.log.Head().Version != leader.Version {
			return follower, s.err
		}
		next, err := pl.followOne(v, follower.Channel, leader)
		if err != nil || next == nil {
			return follower, err
		}
		follower = next
	}
}
