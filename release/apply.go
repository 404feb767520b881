package release

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"tsmon/channels"
)

// Apply carries a plan out: it uploads what is missing, creates the record, appends
// the entry if the log still ends at Base, updates the manifest, then the channels
// that follow, and fetches what clients get. It returns the plan as it came out.
// With an error, the plan is nil unless the channel has moved. A
// *channels.ConflictError if somebody else moved the channel since the plan was
// made.
func (p *Publisher) Apply(ctx context.Context, plan *Plan) (*Plan, error) {
	if err := p.addRelease(ctx, plan); err != nil {
		return nil, err
	}
	followers := plan.Followers
	plan.Followers = nil
	stays, err := p.advance(ctx, plan, len(followers) > 0)
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
		err = p.moveFollowers(ctx, plan, followers)
	}
	if err = errors.Join(append(plan.broken, err)...); err != nil {
		return plan, err
	}
	return plan, p.probe(ctx, plan)
}

// addRelease adds the release of a plan to the store, and has the store prove that
// it honours conditions, before anything relies on them.
func (p *Publisher) addRelease(ctx context.Context, plan *Plan) error {
	switch {
	case plan.record != nil:
		p.step("uploading %d bundles", len(plan.record.Bundles))
		return p.Library().add(ctx, plan.record, plan.files, p.Uploaded)
	case plan.Base.Sequence == 0 && plan.Entry != nil:
		return p.Library().checkConditions(ctx, plan.Version)
	}
	return nil
}

// advance appends the entry of a plan and shows it. stays is false if somebody else
// has moved the channel on since; whoever did takes the followers along. Then
// watched adds a request.
func (p *Publisher) advance(ctx context.Context, plan *Plan, watched bool) (stays bool, err error) {
	if plan.Entry != nil {
		plan.Changed = false
		log, err := p.enter(ctx, plan)
		if err != nil || plan.Waiting != nil {
			return false, err
		}
		plan.log, plan.Changed = log, true
	}
	moved := false
	group, showing := errgroup.WithContext(ctx)
	group.Go(func() error { return p.show(showing, plan) })
	if plan.Entry != nil {
		log := plan.log
		group.Go(func() error {
			_ = p.channels().Pack(showing, log) // without it the log is read entry by entry
			return nil
		})
	}
	group.Go(func() (err error) {
		if watched {
			moved, err = p.channels().Exists(showing, plan.Channel, plan.Sequence+1)
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return false, err
	}
	if moved && plan.head.Sequence == plan.Sequence {
		log, _, err := p.channels().Repoint(ctx, plan.log)
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

// show brings what clients read up to date; head is then what it shows.
func (p *Publisher) show(ctx context.Context, plan *Plan) (err error) {
	shown := plan.log
	if plan.Entry != nil {
		shown, _, err = p.channels().Point(ctx, plan.log, plan.seen)
	} else if !p.channels().Current(plan.log, plan.seen) {
		shown, plan.Changed, err = p.channels().Repoint(ctx, plan.log)
	}
	if err == nil {
		plan.log, plan.head = shown, shown.Head()
	}
	return err
}

// moveFollowers moves the channels that follow a leader, side by side. One that
// can't follow is a warning: the leader has moved.
func (p *Publisher) moveFollowers(ctx context.Context, leader *Plan, followers []*Plan) error {
	var group sync.WaitGroup
	errs := make([]error, len(followers))
	for i := range followers {
		group.Go(func() { followers[i], errs[i] = p.moveFollower(ctx, leader, followers[i]) })
	}
	group.Wait()
	var failed []error
	for i, err := range errs {
		switch {
		case errors.As(err, new(*Refusal)):
			leader.Warnings = append(leader.Warnings, fmt.Sprintf("%s does not follow: %v", followers[i].Channel, err))
		case err != nil:
			failed = append(failed, fmt.Errorf("%s has moved to %s, but %s, which follows it, has not: %w", leader.Channel, leader.Version, followers[i].Channel, err))
		case followers[i].Changed, followers[i].Waiting != nil:
			leader.Followers = append(leader.Followers, followers[i])
		}
	}
	return errors.Join(failed...)
}

// followAttempts bounds how often a follower is tried while others move it.
const followAttempts = 20

// moveFollower applies the plan of a follower. While others move that channel, it
// plans anew; they may have left nothing to do.
func (p *Publisher) moveFollower(ctx context.Context, leader, follower *Plan) (*Plan, error) {
	for attempt := 0; ; attempt++ {
		err := witness(leader, follower)
		if err == nil {
			_, err = p.advance(ctx, follower, false)
		}
		if !errors.As(err, new(*channels.ConflictError)) || attempt == followAttempts {
			return follower, err
		}
		pl, err := p.planner()
		if err != nil {
			return follower, err
		}
		v := p.look(ctx)
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

// probe fetches what clients get of every channel that was moved.
func (p *Publisher) probe(ctx context.Context, plan *Plan) error {
	if p.Probe == nil {
		return nil
	}
	for _, each := range append([]*Plan{plan}, plan.Followers...) {
		if each.Waiting != nil {
			continue
		}
		p.step("fetching %s as a client", each.URL)
		err := p.Probe(ctx, each.URL, each.head.Render(p.PublicURL))
		moved := fmt.Sprintf("%s has moved to %s (entry %d)", each.Channel, each.head.Version, each.head.Sequence)
		switch {
		case errors.Is(err, ErrUnseen):
			plan.Warnings = append(plan.Warnings, fmt.Sprintf("%s, but %v", moved, err))
		case err != nil:
			return &Refusal{Cause: fmt.Errorf("%w: %w", ErrProbe, err), Text: moved,
				Mend: "check that public_url leads to the store, and that a server runs there; `tsmon manifest validate " + each.URL + "` looks again, --no-probe skips this"}
		default:
			each.Probed = true
		}
	}
	return nil
}
