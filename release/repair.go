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
	// Waiting is the plan of the entry that says what is lost, if it lacks signatures of
	// operators.
	Waiting *approval.Waiting `json:"waiting,omitempty"`
	// Needs says, of a dry run, whose signatures that entry takes; nil if it takes none.
	Needs *approval.Need `json:"needs,omitempty"`
}

// Repair is Keeper.Repair. Whoever brings the last signature of the entry that says what is
// lost has the log hold it; what is left then, Repair does with Rest.
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

// enters returns what enters an entry as that of a plan, which then says what it waits for.
// Where the entry is lost that put operators in force, it puts those of tsmon.yaml in force.
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
