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

// Await waits, if that is wanted, for the signatures that a plan lacks, and returns the plan
// as it came out. If they don't come in time, the plan goes on waiting, and is returned with an
// error. A plan that lacks none, or nil, is returned as it is.
func (f *Wait) Await(ctx context.Context, app *cli.App, p *release.Publisher, plan *release.Plan) (*release.Plan, error) {
	if plan == nil || plan.Waiting == nil || f.Duration == 0 {
		return plan, nil
	}
	w := plan.Waiting
	approve := "`tsmon plan approve " + w.Name() + " --channel " + w.Channel + "`"
	app.Say("%s waits for approvals, %s: %s by one of: %s", w.Channel, approvals(w), approve, strings.Join(w.Missing, ", "))
	limited, cancel := context.WithTimeout(ctx, f.Duration)
	defer cancel()
	made, err := p.Await(limited, plan)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return plan, cli.WithHint(cli.Refuse(fmt.Errorf("the plan %s still waits for approvals after %v", w.Name(), f.Duration)),
			approve+" signs it; the command that made it goes on waiting if it is run again")
	}
	return made, err
}
