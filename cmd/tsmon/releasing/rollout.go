package releasing

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/release"
)

// shareFlags decide who gets a release first.
type shareFlags struct {
	given   func(flag string) bool
	percent int
	steps   []int
	every   time.Duration
	cohorts []string
}

func (f *shareFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.given = flags.Changed
	flags.IntVar(&f.percent, "percent", 100, "offer the release to `N` % of the clients that ask tsmon serve or read their ring; the others keep the previous one")
	flags.IntSliceVar(&f.steps, "steps", nil, "increasing `PERCENTAGES`, such as 5,25,50,100")
	flags.DurationVar(&f.every, "every", 0, "`DURATION` of each step, such as 6h; at least 1m")
	flags.StringSliceVar(&f.cohorts, "cohort", nil, "`NAME` of a cohort that gets the release at once (header X-Tsmon-Cohort), repeatable; without --percent or --steps, only cohorts get it")
}

// rollout returns the rollout that the flags describe, nil for everybody. A flag
// with an empty value, such as a CI variable that is not set, is a usage error.
func (f *shareFlags) rollout() (*channels.Rollout, error) {
	r := &channels.Rollout{Steps: []int{f.percent}, Every: channels.Duration(f.every), Cohorts: f.cohorts}
	switch {
	case f.given("steps") && f.given("percent"):
		return nil, cli.Usagef("--percent and --steps can't be combined")
	case f.given("steps") && len(f.steps) == 0, f.given("cohort") && len(f.cohorts) == 0:
		return nil, cli.Usagef("--steps or --cohort is empty")
	case (len(f.steps) > 1) != f.given("every"):
		return nil, cli.Usagef("--steps and --every must be used together")
	case f.given("steps"):
		r.Steps = f.steps
	case f.given("cohort") && !f.given("percent"):
		r.Steps = []int{0} // nobody else
	}
	for _, cohort := range r.Cohorts {
		if err := channels.CheckCohort(cohort); err != nil {
			return nil, cli.Usagef("--cohort: %w", err)
		}
	}
	if err := r.Check(); err != nil {
		return nil, cli.WithHint(cli.Usage(err), "write --percent 10, or --steps 5,25,50,100 --every 6h")
	}
	if len(r.Steps) == 1 && r.Steps[0] == 100 {
		return nil, nil
	}
	return r, nil
}

func channelRolloutCommand(app *cli.App) *cobra.Command {
	var f moveFlags
	var share shareFlags
	cmd := &cobra.Command{
		Use:   "rollout CHANNEL --percent N",
		Short: "Change the share of the clients that a release is rolled out to",
		Long: `Change the share of the clients that get the release which the channel is rolling out.
A hash of the client's ID decides who gets it, so a client that got it at 5 % gets it
at 25 % too. At 100 % the channel offers it to everybody.

tsmon serve decides for each client that asks
/updates/CHANNEL/{target}/{arch}/{current_version}. Without a server, clients read the
manifest of their ring, if the channel has rings: true. Clients that read latest.json
and clients that send no ID get the release at 100 %.`,
		Example: `  tsmon channel rollout stable --percent 25
  tsmon channel rollout stable --steps 25,50,100 --every 12h
  tsmon channel rollout stable --percent 100`,
		Args: cli.Args(1, 1, "one CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !share.given("percent") && !share.given("steps") {
				return cli.WithHint(cli.Usagef("--percent is missing"), "give --percent N, or --steps 5,25,50,100 --every 6h")
			}
			rollout, err := share.rollout()
			if err != nil {
				return err
			}
			o := f.options(args[0])
			o.Rollout = cmp.Or(rollout, &channels.Rollout{Steps: []int{100}})
			return f.move(cmd.Context(), app, func(_ *config.Config, p *release.Publisher) (*release.Plan, error) {
				return p.Rollout(cmd.Context(), o)
			})
		},
	}
	share.add(cmd)
	f.add(cmd)
	f.addAllowMissing(cmd)
	AddStrand(cmd, &f.strand)
	return cmd
}

func channelPauseCommand(app *cli.App) *cobra.Command {
	return steerCommand(app, moveFlags{needsReason: true}, (*release.Publisher).Pause, &cobra.Command{
		Use:   "pause CHANNEL --reason TEXT",
		Short: "Stop offering the newest release of a channel",
		Long: `Stop offering the newest release of a channel: no client is offered it any more, and
all get the previous one. Clients that have it keep it. The steps of a rollout pause
too. This is not a rollback: ` + "`tsmon channel resume`" + ` offers the release again.`,
		Example: `  tsmon channel pause stable --reason "support is flooded"`,
	})
}

func channelResumeCommand(app *cli.App) *cobra.Command {
	return steerCommand(app, moveFlags{}, (*release.Publisher).Resume, &cobra.Command{
		Use:   "resume CHANNEL",
		Short: "Offer a paused release again",
		Long: `Offer a paused release again, to the clients that were offered it before the pause.
The steps of a rollout continue where they stopped.`,
		Example: `  tsmon channel resume stable --reason "it was the network"`,
	})
}

// steerCommand completes cmd, which makes a move that takes no options of its own.
func steerCommand(app *cli.App, f moveFlags, steer func(*release.Publisher, context.Context, release.Options) (*release.Plan, error), cmd *cobra.Command) *cobra.Command {
	cmd.Args = cli.Args(1, 1, "one CHANNEL")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.move(cmd.Context(), app, func(_ *config.Config, p *release.Publisher) (*release.Plan, error) {
			return steer(p, cmd.Context(), f.options(args[0]))
		})
	}
	f.add(cmd)
	return cmd
}

func percentText(s *release.Share) string {
	if s.Paused {
		return "held back"
	}
	return fmt.Sprintf("%d %%", s.Percent)
}
