package guarding

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tsmon/api/fleet/verdict/simulate"
	"tsmon/cmd/tsmon/cli"
)

// simulateFlags say what to simulate; what is not given has the defaults of package
// simulate.
type simulateFlags struct {
	set            *pflag.FlagSet
	failures       float64
	rates          []float64
	clients, steps []int
	late, dead     bool
	every          time.Duration
	before, away   float64
	rollouts       int
	seed           uint64
}

func (f *simulateFlags) add(cmd *cobra.Command) {
	d := simulate.Defaults(0.02)
	f.set = pflag.NewFlagSet("", pflag.ContinueOnError)
	flags := f.set
	flags.Float64Var(&f.failures, "failures", 0, "limit in `PERCENT` (default that of the channel)")
	flags.Float64SliceVar(&f.rates, "rate", nil, "`PERCENT` of the clients that the release fails for, repeatable (default 0.25 to 10 times the limit)")
	flags.IntSliceVar(&f.clients, "clients", d.Clients, "`SIZE` of the fleet, repeatable")
	flags.BoolVar(&f.late, "late", false, "the application installs when it is quit; --late=false: at once (default both)")
	flags.BoolVar(&f.dead, "never-starts", false, "also simulate a release that never starts and reports nothing (default true without --rate)")
	flags.IntSliceVar(&f.steps, "steps", d.Steps, "increasing `PERCENTAGES`")
	flags.DurationVar(&f.every, "every", d.Every, "shortest `DURATION` of a step")
	flags.Float64Var(&f.before, "before", 0, "`PERCENT` of the clients that the previous release failed for; -1: there was none (default half of the limit)")
	flags.Float64Var(&f.away, "away", 0, "`PERCENT` of the clients that download a release and are never seen again")
	flags.IntVar(&f.rollouts, "rollouts", d.Rollouts, "`NUMBER` of rollouts of each kind")
	flags.Uint64Var(&f.seed, "seed", d.Seed, "`NUMBER` that seeds the random generator")
	cmd.Flags().AddFlagSet(flags)
}

// first returns a flag that was given, empty if there is none.
func (f *simulateFlags) first() (name string) {
	f.set.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			name = cmp.Or(name, flag.Name)
		}
	})
	return name
}

// options returns what is to be simulated, with a limit as a share.
func (f *simulateFlags) options(limit float64) simulate.Options {
	if f.set.Changed("failures") {
		limit = f.failures / 100
	}
	o := simulate.Defaults(limit)
	o.Clients, o.Steps, o.Every, o.Away, o.Rollouts, o.Seed = f.clients, f.steps, f.every, f.away/100, f.rollouts, f.seed
	if f.set.Changed("late") {
		o.Late = []bool{f.late}
	}
	if f.set.Changed("rate") {
		o.Multiples, o.Dead = nil, false
		for _, rate := range f.rates {
			o.Multiples = append(o.Multiples, rate/100/limit)
		}
	}
	if f.set.Changed("never-starts") {
		o.Dead = f.dead
	}
	if f.set.Changed("before") {
		o.Before = f.before / 100 / limit
	}
	return o
}

func runSimulate(ctx context.Context, app *cli.App, f simulateFlags, args []string) error {
	c, err := app.Load()
	if err != nil {
		return err
	}
	limit := cli.GuardOf(c.Channels[strings.Join(args, "")]).Failures / 100
	report, err := simulate.Run(ctx, f.options(limit))
	if errors.Is(err, simulate.ErrOptions) {
		return cli.WithHint(cli.Usage(err), "write --failures 2 --rate 1,4 --clients 1200 --steps 5,25,100 --every 1h")
	}
	if err != nil {
		return err
	}
	var failed error
	return errors.Join(app.Print(report, func(w io.Writer) { failed = report.WriteText(w) }), failed)
}
