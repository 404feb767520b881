package release

import (
	"context"

	"tsmon/channels"
	"tsmon/release/upkeep"
)

// enterForKeeper is Keeper.Enter. If the entry that put operators in force is lost, the new one
// puts the configured operators in force.
func (p *Publisher) enterForKeeper(ctx context.Context, log *channels.Log, e channels.Entry, dry bool) (done upkeep.Entered, err error) {
	if log.Operators() == nil {
		e.Operators = p.Policies[log.Channel].Operators
	}
	plan := &Plan{Action: e.Action, Channel: log.Channel, Version: e.Version, Entry: &e, log: log}
	if dry {
		done.Log, err = log, plan.rehearse(p.Plans())
	} else {
		done.Log, err = (&applying{p, plan}).enter(ctx)
	}
	done.Waiting, done.Needs, done.Warnings = plan.Waiting, plan.Needs, plan.Warnings
	return done, err
}
