package release

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"tsmon/channels"
	"tsmon/release/approval"
)

// Appoint puts the configured operators of a channel into force. The operators in force must
// approve, or a root key. It warns of other channels that wait for theirs, except along, which
// the caller appoints too.
func (p *Publisher) Appoint(ctx context.Context, o Options, along ...string) (*Plan, error) {
	pl, err := p.planner(o.Channel)
	if err != nil {
		return nil, err
	}
	wanted := p.Policies[o.Channel].Operators
	if wanted == nil {
		return nil, refuse(ErrConfig, "list operators in tsmon.yaml, and set approvals for the channel", "no operators are configured for %s", o.Channel)
	}
	bare := *p
	bare.Policies = maps.Clone(p.Policies)
	policy := bare.Policies[o.Channel]
	policy.Operators = nil // who are not in the log yet
	bare.Policies[o.Channel] = policy
	v := bare.Inspector().look(ctx)
	s := v[o.Channel]
	if err := s.shows(); err != nil {
		return nil, err
	}
	var bareOnes []string
	for _, name := range pl.channels() {
		if other := v[name]; name != o.Channel && !slices.Contains(along, name) && errors.Is(other.err, channels.ErrUnsigned) {
			bareOnes = append(bareOnes, stillBare(name))
		}
	}
	plan := pl.unmoved(s, channels.Appoint)
	plan.Warnings, plan.DryRun = bareOnes, o.DryRun
	if s.log.Operators().Equal(wanted) {
		return plan, nil
	}
	if s.log.Fed() {
		return nil, refuse(channels.ErrFed, "operators are appointed where its log comes from: have tsmon.yaml here name the same ones, and the same server.operators_root, then bring its entries with `tsmon release import` or `tsmon release mirror`; if nothing feeds this store, `tsmon channel verify "+o.Channel+"` names what has it pass for fed", "%s can't be moved here", o.Channel)
	}
	return (&applying{&bare, plan}).decide(ctx, pl, channels.Entry{Why: cmp.Or(o.Why, approval.Appointed), Operators: wanted}, o.DryRun)
}

// unmoved returns the plan of a decision that does not change what clients get.
func (p planner) unmoved(s *state, action channels.Action) *Plan {
	plan := newPlan(p.publicURL, s.log, s.log.Head())
	plan.Action, plan.seen = action, s.seen
	return plan
}

// decide enters the decision e into the log.
func (w *applying) decide(ctx context.Context, pl planner, e channels.Entry, dry bool) (*Plan, error) {
	plan := w.plan
	e.Action, e.Who, e.Origin, e.When, e.Release, e.Rollout = plan.Action, pl.who, pl.origin, pl.now, plan.head.Release, plan.head.Rollout
	e = plan.log.Next(e)
	plan.Entry, plan.Sequence, plan.Changed = &e, e.Sequence, true
	if dry {
		return plan, plan.rehearse(w.Plans())
	}
	_, err := w.advance(ctx, false)
	if err != nil && !plan.Changed {
		return nil, err
	}
	return plan, err
}

// stillBare returns the warning that a channel still waits for its operators.
func stillBare(channel string) string {
	return "nothing moves " + channel + " before the operators that are configured for it are in force there, too: `tsmon channel appoint " + channel + "`"
}

// Accept adds an entry that gives up lost entries which servers have seen, up to a position, and
// accepts entries from the future. The zero position gives up nothing. Operators must approve it
// like any other move.
func (p *Publisher) Accept(ctx context.Context, channel string, seen channels.Position, why string, dry bool) (*Plan, error) {
	pl, err := p.planner(channel)
	if err != nil {
		return nil, err
	}
	in := p.Inspector()
	s := in.look(ctx)[channel]
	early := errors.Is(s.err, channels.ErrFuture)
	if early {
		in.channels.AnyTime = true
		s = in.look(ctx)[channel]
	}
	if err := s.shows(); err != nil {
		return nil, err
	}
	plan := pl.unmoved(s, channels.Accept)
	lost := s.log.Continues(seen) != nil && !s.log.Accepts(seen)
	if !lost && !early {
		return plan, nil
	}
	e := channels.Entry{Why: why}
	if lost {
		e.Why, e.Accepted = cmp.Or(why, "the entries up to "+seen.String()+" are given up"), &seen
	}
	if early {
		e.Why = cmp.Or(e.Why, "entries were made by a clock that was ahead")
	}
	return (&applying{p, plan}).decide(ctx, pl, e, dry)
}
