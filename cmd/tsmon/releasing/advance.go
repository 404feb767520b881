package releasing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"tsmon/api/fleet/verdict"
	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/showing"
	"tsmon/release"
	"tsmon/release/library"
)

func channelAdvanceCommand(app *cli.App) *cobra.Command {
	var f moveFlags
	cmd := &cobra.Command{
		Use:   "advance [CHANNEL…]",
		Short: "Take the due steps of rollouts",
		Long: `Take the due step of each rollout, on the named channels or on all, and update
manifests that lag behind the log, for example because a command was killed. If there
is nothing to do the exit code is 0. If no tsmon serve runs, run this from cron or a CI
schedule.

A step that is taken late still lasts its whole time. If the records of tsmon serve are
configured, a step also waits for the outcomes of the previous one, as
` + "`tsmon channel guard`" + ` shows; otherwise time alone decides.
` + "`tsmon channel rollout CHANNEL --percent N`" + ` does not wait.

A step is refused if latest.json would break known clients; --allow-missing gives those
no update, with this step and all that follow. A step follows from the signed rollout and
needs no operator; with --allow-missing it does, like any move. The log names "schedule" as
the author of a step without the signatures of a move, and keeps no --reason for it.`,
		Example: `  tsmon channel advance
  tsmon channel advance stable --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error { return runAdvance(cmd.Context(), app, f, args) },
	}
	f.add(cmd)
	f.addAllowMissing(cmd)
	return cmd
}

func runAdvance(ctx context.Context, app *cli.App, f moveFlags, names []string) error {
	c, p, err := f.publisher(ctx, app)
	if err != nil {
		return err
	}
	if c.Server.Records != "" {
		p.Seen = func(ctx context.Context, channel string) (channels.Position, error) { return cli.Seen(ctx, c, channel) }
	}
	return f.moveEach(ctx, app, p, names, func(name string, _ []string) (*release.Plan, error) {
		return advance(ctx, app, c, p, f.options(name))
	}, library.ErrNoRelease)
}

// moveEach moves the named channels one after another and prints the results. If one fails the
// others are still moved. Without names it moves all channels, except those that fail with one of
// the errors in absent. move gets a name, and those of all channels that are moved.
func (f *moveFlags) moveEach(ctx context.Context, app *cli.App, p *release.Publisher, names []string, move func(name string, names []string) (*release.Plan, error), absent ...error) error {
	all := len(names) == 0
	if all {
		names = slices.Sorted(maps.Keys(p.Policies))
	}
	if err := p.Configured(names...); err != nil {
		return err
	}
	plans := []*release.Plan{}
	var failed []error
	for _, name := range names {
		plan, err := move(name, names)
		if all && slices.ContainsFunc(absent, func(e error) bool { return errors.Is(err, e) }) {
			continue
		}
		if err == nil {
			plan, err = f.wait.Await(ctx, app, p, plan)
		}
		if plan != nil {
			plans = append(plans, plan)
		}
		failed = append(failed, err)
	}
	err := app.Print(plans, func(w io.Writer) {
		for _, plan := range plans {
			if plan.Changed || plan.Waiting != nil {
				PrintPlan(w, plan, f.verbose)
				continue
			}
			fmt.Fprintf(w, "%s: nothing to do (entry %d)\n", plan.Channel, plan.Sequence)
			if plan.Rollout != nil {
				fmt.Fprintf(w, "  %s\n", showing.ShareText(plan.Rollout))
			}
		}
	})
	for _, plan := range plans {
		Warn(app, plan)
	}
	return errors.Join(append([]error{err}, failed...)...)
}

// advanceAttempts bounds how often a channel is tried while others move it.
const advanceAttempts = 5

// advance takes the step of one channel that is due, unless the guard lets it wait. If
// somebody else takes it first, what is left is looked at again.
func advance(ctx context.Context, app *cli.App, c *config.Config, p *release.Publisher, o release.Options) (plan *release.Plan, err error) {
	for range advanceAttempts {
		var why string
		if why, err = waits(ctx, app, c, p, o.Channel); err != nil {
			return nil, err
		}
		o.Hold = why != ""
		if plan, err = p.Advance(ctx, o); err == nil && o.Hold {
			plan.Warnings = append(plan.Warnings, "the next step waits: "+why)
			if c.Shared && cli.RecordsFile(c) != "" {
				plan.Warnings = append(plan.Warnings, "the clients' versions were read from "+cli.RecordsFile(c)+", which all projects without a name share: if another project's tsmon serve wrote it, add project: NAME to this tsmon.yaml")
			}
		}
		if !errors.As(err, new(*channels.ConflictError)) {
			break
		}
	}
	return plan, err
}

// waits returns why a due step has to wait, empty if it need not. Without records of clients no
// step waits.
func waits(ctx context.Context, app *cli.App, c *config.Config, p *release.Publisher, channel string) (string, error) {
	log, err := p.Repository().Load(ctx, channel)
	if err != nil || log.Head() == nil || log.Head().Rollout == nil || !log.Head().Rollout.Due(p.Now()) {
		return "", err
	}
	opinion, err := app.Judge(ctx, c, log)
	if errors.Is(err, cli.ErrNoRecords) {
		return "", nil
	}
	if err != nil || opinion.Decision == verdict.Continue {
		return "", err
	}
	return opinion.Why, nil
}
