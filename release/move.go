package release

import (
	"context"
	"errors"
	"time"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/library"
	"tsmon/release/upkeep"
)

// Build returns the manifest of bundles that will be in the folder at baseURL. It publishes nothing.
func (p *Publisher) Build(ctx context.Context, o PublishOptions, baseURL string) (*manifest.Manifest, error) {
	pl := newPlanner(p)
	err := library.CheckKeys(p.Keys)
	if err == nil {
		err = pl.checkPublish(o)
	}
	if err != nil {
		return nil, err
	}
	contents, err := publishing{Publisher: p, pl: pl, o: o}.readBundles(ctx)
	if err != nil {
		return nil, err
	}
	stored, _ := storedOf(contents)
	m := pl.record(o, stored).Manifest(baseURL)
	return &m, nil
}

// chooser chooses the next state of a channel. A change without an action leaves the channel as it
// is.
type chooser func(planner, view, *state, Options) (change, error)

// move carries out a move to a release that the store holds, or that needs none. others are
// further channels that must be configured.
func (p *Publisher) move(ctx context.Context, o Options, choose chooser, others ...string) (*Plan, error) {
	pl, err := p.planner(append(others, o.Channel)...)
	if err == nil {
		err = checkRollout(o.Rollout)
	}
	if err != nil {
		return nil, err
	}
	v := p.Inspector().look(ctx)
	s := v[o.Channel]
	if s.err != nil {
		return nil, s.err
	}
	c, err := choose(pl, v, s, o)
	switch {
	case s.log.Fed() && errors.As(err, new(*Refusal)) && !errors.Is(err, ErrConfig):
		return nil, upkeep.Fed(s.channel) // whatever else stands against the move
	case err != nil:
		return nil, err
	case c.Action == "":
		return planMade(s.log.Head()), nil
	}
	if c.version != "" {
		if err := v.resting(s, c.version, pl.now); err != nil {
			return nil, err
		}
		p.step("verifying %s in the store", c.version)
		record, err := p.Library().Verified(ctx, c.version, library.RecordOf(v.logs(), c.version, ""), c.AllowUnbound)
		if err != nil {
			return nil, err
		}
		c.take(record)
	}
	plan, err := pl.plan(v, s, c)
	if err != nil {
		return nil, err
	}
	return p.finish(ctx, plan, o)
}

// Promote moves a channel to a release that another channel shows or showed.
func (p *Publisher) Promote(ctx context.Context, o PromoteOptions) (*Plan, error) {
	return p.move(ctx, o.Options, func(pl planner, v view, s *state, _ Options) (change, error) { return pl.promote(v, s, o) }, o.From)
}

// Rollback moves a channel to a release that it showed before. Clients that have the bad release
// keep it, since they only go forward. The same call again, with the same reason and no version,
// does nothing; going back further takes a version, so that two people don't go back twice.
func (p *Publisher) Rollback(ctx context.Context, o RollbackOptions) (*Plan, error) {
	return p.move(ctx, o.Options, func(pl planner, v view, s *state, _ Options) (change, error) { return pl.rollback(v, s, o) })
}

// Rollout offers the release that a channel is rolling out to another share of the clients; with
// 100 % the channel shows it.
func (p *Publisher) Rollout(ctx context.Context, o Options) (*Plan, error) {
	return p.move(ctx, o, planner.rollout)
}

// Resume lets a rollout go on where it was paused.
func (p *Publisher) Resume(ctx context.Context, o Options) (*Plan, error) {
	return p.move(ctx, o, planner.resume)
}

// Pause stops offering the newest release of a channel: everybody is offered the previous one.
// Clients that have the newest release keep it. If the channel is paused, Pause does nothing.
func (p *Publisher) Pause(ctx context.Context, o Options) (*Plan, error) {
	return p.move(ctx, o, planner.pause)
}

// Advance takes one step of a channel's rollout if it is due by the clocks of this machine and
// of the store; at 100 %, the channel shows the release. With no step due, or with Hold, it does
// what Finish does.
func (p *Publisher) Advance(ctx context.Context, o Options) (*Plan, error) {
	now, err := p.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	return p.move(ctx, o, func(pl planner, v view, s *state, o Options) (change, error) {
		if now.Before(pl.now) {
			pl.now = now
		}
		return pl.advance(v, s, o)
	})
}

// Finish completes a move that is in the log and was interrupted: it updates the manifest, and
// moves the channels that follow.
func (p *Publisher) Finish(ctx context.Context, channel string) (*Plan, error) {
	return p.move(ctx, Options{Channel: channel}, planner.finish)
}

// Halt pauses the rollout of a channel that a guard judged when the log ended with entry
// sequence. It does nothing if the channel has moved since. If it fails and the plan has Changed
// set, the pause is in the log and the manifest is not updated yet. If this machine's clock is
// wrong, Halt uses the store's time.
func (p *Publisher) Halt(ctx context.Context, o Options, sequence uint64) (*Plan, error) {
	theirs, err := p.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	timed := *p
	if ahead := theirs.Sub(p.Now()); ahead.Abs() > channels.Tolerance {
		timed.Now = func() time.Time { return p.Now().Add(ahead) }
	}
	plan, err := timed.move(ctx, o, func(pl planner, v view, s *state, o Options) (change, error) {
		head := s.log.Head()
		if head != nil && (head.Sequence != sequence || head.Rollout == nil || !head.Rollout.Paused.IsZero()) {
			return change{}, nil
		}
		c, err := pl.pause(v, s, o)
		c.halted = true
		return c, err
	})
	if conflict := (*channels.ConflictError)(nil); errors.As(err, &conflict) {
		return planMade(&conflict.Winner), nil
	}
	return plan, err
}

// planMade describes a move that was made before.
func planMade(e *channels.Entry) *Plan {
	return &Plan{Action: e.Action, Channel: e.Channel, Version: e.Newest(), Sequence: e.Sequence}
}
