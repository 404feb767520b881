package release

import (
	"context"

	"tsmon/channels"
	"tsmon/release/approval"
	"tsmon/release/upkeep"
)

// RepairReport is what Repair did, and what is left.
type RepairReport struct {
	upkeep.RepairReport
	// Waiting is the plan of the entry that says what is lost, if it lacks signatures.
	Waiting *approval.Waiting `json:"waiting,omitempty"`
	// Needs says, of a dry run, whose signatures that entry takes; nil if it takes none.
	Needs *approval.Need `json:"needs,omitempty"`
}

// Repair is Keeper.Repair. If its log entry has to wait for signatures, the last signer makes
// the entry, and a call with Rest does the remaining work.
func (p *Publisher) Repair(ctx context.Context, o upkeep.RepairOptions) (*RepairReport, error) {
	plan, keeper := &Plan{}, p.Keeper()
	keeper.Enter = enters(p, plan)
	report, err := keeper.Repair(ctx, o)
	if report == nil {
		return nil, err
	}
	report.Warnings = append(report.Warnings, plan.Warnings...)
	return &RepairReport{*report, plan.Waiting, plan.Needs}, err
}

// enters returns the function that appends an entry for a Keeper, and records in plan what the
// entry waits for. If the entry that put operators in force is lost, the new one puts those that
// are configured in force.
func enters(p *Publisher, plan *Plan) func(context.Context, *channels.Log, channels.Entry, bool) (*channels.Log, error) {
	return func(ctx context.Context, log *channels.Log, e channels.Entry, dry bool) (*channels.Log, error) {
		if log.Operators() == nil {
			e.Operators = p.Policies[log.Channel].Operators
		}
		plan.Action, plan.Channel, plan.Version, plan.Entry, plan.log = e.Action, log.Channel, e.Version, &e, log
		if dry {
			return log, plan.rehearse(p.Plans())
		}
		return (&applying{p, plan}).enter(ctx)
	}
}
