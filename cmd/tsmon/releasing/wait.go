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

// Wait is the flag --wait: how long a command waits for missing signatures of its plan.
type Wait struct{ time.Duration }

// Add adds --wait.
func (f *Wait) Add(cmd *cobra.Command) {
	cmd.Flags().Func("wait", "wait up to this `TIME`, such as 30m, for the signatures of the other operators that a move needs", func(text string) (err error) {
		if f.Duration, err = time.ParseDuration(text); err != nil || f.Duration < 0 {
			err = fmt.Errorf("%q is not a duration such as 30m or 6h", text)
		}
		return err
	})
}

// Await waits for missing signatures of a plan, and of the plans of channels that follow, if
// --wait is given, and returns the resulting plan. If they don't come in time, the plan is kept
// and returned with an error that names the one that waits. A complete plan, or nil, is returned
// unchanged.
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
	app.EndProgress()
	approve := "`tsmon plan approve " + w.Name() + " --channel " + w.Channel + "`"
	app.Say("%s waits for approvals, %s: %s by one of: %s", w.Channel, approvals(w), approve, strings.Join(w.Missing, ", "))
	made, err := p.Await(limited, plan)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return plan, cli.WithHint(cli.Refuse(fmt.Errorf("the plan %s of %s still waits for approvals after %v", w.Name(), w.Channel, f.Duration)),
			approve+" signs it; the command that made it goes on waiting if it is run again")
	}
	return made, err
}
