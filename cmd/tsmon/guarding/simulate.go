package guarding

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"tsmon/api/fleet/verdict/simulate"
	"tsmon/cmd/tsmon/cli"
)

// simulateFlags say what to simulate; what is not given has the defaults of package
// simulate.
type simulateFlags struct {
	given          func(flag string) bool
	failures       float64
	rates          []float64
	clients, steps []int
	late, dead     bool
	every          time.Duration
	before, away   float64
	rollouts       int
	seed           uint64
}

// simulateNames are the flags, in the order in which help explains them.
var simulateNames = []string{"failures", "rate", "clients", "late", "never-starts", "steps", "every", "before", "away", "rollouts", "seed"}

func (f *simulateFlags) add(cmd *cobra.Command) {
	d := simulate.Defaults(0.02)
	flags := cmd.Flags()
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
}

// first returns a flag that was given, empty if there is none.
func (f *simulateFlags) first() string {
	if i := slices.IndexFunc(simulateNames, f.given); i >= 0 {
		return simulateNames[i]
	}
	return ""
}

// options returns what is to be simulated, with a limit as a share.
func (f *simulateFlags) options(limit float64) simulate.Options {
	if f.given("failures") {
		limit = f.failures / 100
	}
	o := simulate.Defaults(limit)
	o.Clients, o.Steps, o.Every, o.Away, o.Rollouts, o.Seed = f.clients, f.steps, f.every, f.away/100, f.rollouts, f.seed
	if f.given("late") {
		o.Late = []bool{f.late}
	}
	if f.given("rate") {
		o.Multiples, o.Dead = nil, false
		for _, rate := range f.rates {
			o.Multiples = append(o.Multiples, rate/100/limit)
		}
	}
	if f.given("never-starts") {
		o.Dead = f.dead
	}
	if f.given("before") {
		o.Before = f.before / 100 / limit
	}
	return o
}

func runSimulate(ctx context.Context, app *cli.App, f simulateFlags, args []string) error {
	c, err := app.Load()
	if err != nil {
		return err
	}
	report, err := simulate.Run(ctx, f.options(limitOf(c, args)))
	if errors.Is(err, simulate.ErrOptions) {
		return cli.WithHint(cli.Usage(err), "write --failures 2 --rate 1,4 --clients 1200 --steps 5,25,100 --every 1h")
	}
	if err != nil {
		return err
	}
	var failed error
	return errors.Join(app.Print(report, func(w io.Writer) { failed = report.WriteText(w) }), failed)
}
