package releasing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/release"
)

// Wait is the flag of commands whose plan may lack signatures: how long they stay for them.
type Wait struct{ time.Duration }

// Add adds --wait.
func (f *Wait) Add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.Duration, "wait", 0, "wait up to this `TIME`, such as 30m, for the signatures of the other operators that a move needs")
}

// Check looks at the flag alone.
func (f *Wait) Check() error {
	if f.Duration < 0 {
		return cli.Usagef("--wait is a time such as 30m, not %v", f.Duration)
	}
	return nil
}

// Await waits, if that is wanted, for the signatures that a plan lacks and those of the channels
// that follow, and returns the plan as it came out. If they don't come in time, what lacks them
// goes on waiting, and the plan is returned with an error that names it. A plan that lacks none,
// or nil, is returned as it is.
func (f *Wait) Await(ctx context.Context, app *cli.App, p *release.Publisher, plan *release.Plan) (*release.Plan, error) {
	if plan == nil || f.Duration == 0 {
		return plan, nil
	}
	limited, cancel := context.WithTimeout(ctx, f.Duration)
	defer cancel()
	plan, err := f.awaitOne(ctx, limited, app, p, plan)
	for i := 0; err == nil && i < len(plan.Followers); i++ {
		var made *release.Plan
		if made, err = f.awaitOne(ctx, limited, app, p, plan.Followers[i]); made != nil {
			plan.Followers[i] = made
		}
	}
	return plan, err
}

// awaitOne is Await of one channel, until limited ends.
func (f *Wait) awaitOne(ctx, limited context.Context, app *cli.App, p *release.Publisher, plan *release.Plan) (*release.Plan, error) {
	w := plan.Waiting
	if w == nil {
		return plan, nil
	}
	approve := "`tsmon plan approve " + w.Name() + " --channel " + w.Channel + "`"
	app.Say("%s waits for approvals, %s: %s by one of: %s", w.Channel, approvals(w), approve, strings.Join(w.Missing, ", "))
	made, err := p.Await(limited, plan)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return plan, cli.WithHint(cli.Refuse(fmt.Errorf("the plan %s of %s still waits for approvals after %v", w.Name(), w.Channel, f.Duration)),
			approve+" signs it; the command that made it goes on waiting if it is run again")
	}
	return made, err
}
