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
	plan := &Plan{}
	keeper := p.Keeper()
	keeper.Enter = enters(p, plan)
	report, err := keeper.Repair(ctx, o)
	if report == nil {
		return nil, err
	}
	report.Warnings = append(report.Warnings, plan.Warnings...)
	whole := &RepairReport{RepairReport: *report, Waiting: plan.Waiting}
	if err == nil && o.DryRun && report.Entry != nil {
		whole.Needs, err = p.Plans().Needs(report.Log, report.Entry)
	}
	return whole, err
}

// enters returns what enters an entry as that of any plan, which then says what it waits for.
func enters(p *Publisher, plan *Plan) func(context.Context, *channels.Log, channels.Entry) (*channels.Log, error) {
	return func(ctx context.Context, log *channels.Log, e channels.Entry) (*channels.Log, error) {
		plan.Action, plan.Channel, plan.Version, plan.Entry, plan.log = e.Action, log.Channel, e.Version, &e, log
		return (&applying{p, plan}).enter(ctx)
	}
}
