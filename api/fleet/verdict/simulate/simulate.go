// Package simulate simulates rollouts under a guard, to show the effect of a policy before it
// is used. Each client is drawn separately, and both rules check every five seconds. The same
// seed gives the same figures.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"tsmon/api/fleet/verdict"
)

// Options say what to simulate.
type Options struct {
	Limit     float64       `json:"limit"`     // share of clients that may fail
	Steps     []int         `json:"steps"`     // percentages
	Every     time.Duration `json:"every_ns"`  // least time of a step, in nanoseconds
	Clients   []int         `json:"clients"`   // sizes of the fleet
	Late      []bool        `json:"late"`      // whether the application installs when it is quit, within a day, or at once
	Multiples []float64     `json:"multiples"` // of the limit, that the release fails for
	Dead      bool          `json:"dead"`      // also a release that never starts and reports nothing
	// Before is the multiple of the limit that the release before failed for; below
	// 0 there was none.
	Before   float64 `json:"before"`
	Away     float64 `json:"away"`     // share of clients that fetch a release and are not seen again
	Rollouts int     `json:"rollouts"` // a row
	Seed     uint64  `json:"seed"`
}

// Defaults returns the options of the table in the package's README.
func Defaults(limit float64) Options {
	return Options{
		Limit: limit, Steps: []int{5, 25, 50, 100}, Every: time.Hour, Clients: []int{1200, 100_000}, Late: []bool{false, true},
		Multiples: []float64{0.25, 0.5, 1, 1.5, 2, 5, 10}, Dead: true, Before: 0.5, Rollouts: 2000, Seed: 1,
	}
}

// ErrOptions is returned for options that cannot be simulated.
var ErrOptions = errors.New("this can't be simulated")

// maxClients bounds the memory of a simulation.
const maxClients = 10_000_000

// Check reports options that cannot be simulated. Errors wrap ErrOptions.
func (o *Options) Check() error {
	switch {
	case !(o.Limit > 0 && o.Limit < 1):
		return fmt.Errorf("%w: failures of %.4g%% as the limit; it must be above 0%% and below 100%%", ErrOptions, 100*o.Limit)
	case len(o.Steps) == 0 || !slices.IsSorted(o.Steps) || o.Steps[0] < 1 || o.Steps[len(o.Steps)-1] > 100:
		return fmt.Errorf("%w: steps %v are not rising percentages", ErrOptions, o.Steps)
	case o.Every < 0 || o.Every > 7*24*time.Hour:
		return fmt.Errorf("%w: steps of %s; at most a week is possible", ErrOptions, o.Every)
	case o.Rollouts < 1 || o.Rollouts > 1_000_000:
		return fmt.Errorf("%w: %d rollouts; 1 to 1,000,000 are possible", ErrOptions, o.Rollouts)
	case !(o.Away >= 0 && o.Away < 1):
		return fmt.Errorf("%w: %.4g%% of the clients are never seen again; it must be below 100%%", ErrOptions, 100*o.Away)
	case !(o.Before <= 1/o.Limit):
		return fmt.Errorf("%w: the previous release fails for %.4g%% of the clients", ErrOptions, 100*o.Before*o.Limit)
	}
	if len(o.Clients) == 0 || len(o.Late) == 0 || len(o.Multiples) == 0 && !o.Dead {
		return fmt.Errorf("%w: there is nothing to simulate", ErrOptions)
	}
	for _, n := range o.Clients {
		if n < 1 || n > maxClients {
			return fmt.Errorf("%w: a fleet of %d clients; 1 to %d are possible", ErrOptions, n, maxClients)
		}
	}
	for _, m := range o.Multiples {
		if !(m >= 0 && m*o.Limit <= 1) {
			return fmt.Errorf("%w: a release that fails for %.4g%% of the clients", ErrOptions, 100*m*o.Limit)
		}
	}
	return nil
}

// Report has the results of the simulated rollouts.
type Report struct {
	Options Options `json:"options"`
	Rows    []Row   `json:"rows"`
}

// Row is one kind of rollout under both rules.
type Row struct {
	Clients   int     `json:"clients"`
	Late      bool    `json:"late"`           // the application installs when it is quit
	Multiple  float64 `json:"multiple"`       // of the limit
	Dead      bool    `json:"dead,omitempty"` // the release never starts and reports nothing
	Guard     Result  `json:"guard"`          // sequential test
	Seen      Result  `json:"seen"`           // the same if the outcome of each client were seen before the next one fetches it, without steps
	Threshold Result  `json:"threshold"`      // more than the limit of at least 50 clients within an hour
}

// Result sums up rollouts. Clients are counted at the halt, over those halted.
type Result struct {
	Halted float64 `json:"halted"` // share of the rollouts
	Held   float64 `json:"held"`   // share that was held at a step for three weeks
	// Outcomes are clients whose outcome had been seen, Fetched those that had the
	// release.
	Outcomes Spread `json:"outcomes"`
	Fetched  Spread `json:"fetched"`
	// Percent is the furthest step that any of the rollouts reached.
	Percent int `json:"percent"`
}

// Spread is the median and the 95th percentile.
type Spread struct {
	Median int64 `json:"median"`
	P95    int64 `json:"p95"`
}

// Run simulates all rows. It ends early with the context's error.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	report := &Report{Options: o}
	for _, clients := range o.Clients {
		for _, late := range o.Late {
			for _, m := range o.Multiples {
				report.Rows = append(report.Rows, Row{Clients: clients, Late: late, Multiple: m})
			}
			if o.Dead {
				report.Rows = append(report.Rows, Row{Clients: clients, Late: late, Dead: true})
			}
		}
	}
	runs := make([]run, runtime.GOMAXPROCS(0)) // one a worker; they keep their memory
	for i := range report.Rows {
		if err := o.simulate(ctx, &report.Rows[i], runs); err != nil {
			return nil, err
		}
	}
	return report, nil
}

func (o *Options) simulate(ctx context.Context, row *Row, runs []run) error {
	f := fleet{clients: row.Clients, fails: row.Multiple * o.Limit, late: row.Late, away: o.Away, dead: row.Dead}
	guard, err := verdict.New(o.Limit, o.before(f, &runs[0]))
	if err != nil {
		return err
	}
	rules := [2]rule{guarded{guard}, threshold{o.Limit, 50}}
	endings := [3][]ending{make([]ending, o.Rollouts), make([]ending, o.Rollouts), make([]ending, o.Rollouts)}
	var next atomic.Int64
	var workers sync.WaitGroup
	for worker := range runs {
		workers.Go(func() {
			r := &runs[worker]
			r.fleet = f
			for i := int(next.Add(1)) - 1; i < o.Rollouts && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				for k, by := range rules {
					r.random = rand.New(rand.NewPCG(o.Seed, uint64(i)))
					endings[k][i] = r.roll(o.Steps, o.Every, by)
				}
				r.random = rand.New(rand.NewPCG(o.Seed, uint64(i)))
				endings[2][i] = r.oneByOne(rules[0])
			}
		})
	}
	workers.Wait()
	row.Guard, row.Threshold, row.Seen = sumUp(endings[0]), sumUp(endings[1]), sumUp(endings[2])
	return ctx.Err()
}

// before simulates the rollout of the previous release, to all clients and to its end.
func (o *Options) before(f fleet, r *run) *verdict.Sums {
	if o.Before < 0 {
		return nil
	}
	f.fails, f.dead = o.Before*o.Limit, false
	r.fleet, r.random = f, rand.New(rand.NewPCG(o.Seed, 1<<63))
	lenient := threshold{limit: 1} // halts nothing
	end := r.roll([]int{100}, 0, lenient)
	for k := range end.sums.Ages { // all have passed every age by now
		end.sums.Ages[k].Reached = end.fetched
	}
	return &end.sums
}

func sumUp(endings []ending) Result {
	var r Result
	var outcomes, fetched []int64
	for _, e := range endings {
		r.Percent = max(r.Percent, e.percent)
		switch {
		case e.halted:
			outcomes, fetched = append(outcomes, e.outcomes), append(fetched, e.fetched)
		case e.stalled:
			r.Held++
		}
	}
	r.Halted = float64(len(outcomes)) / float64(len(endings))
	r.Held /= float64(len(endings))
	r.Outcomes, r.Fetched = spread(outcomes), spread(fetched)
	return r
}

func spread(of []int64) Spread {
	if len(of) == 0 {
		return Spread{}
	}
	slices.Sort(of)
	return Spread{of[(len(of)-1)/2], of[(len(of)-1)*95/100]}
}

// WriteText writes the report as a table.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%d rollouts a row, limit %g %%, steps %v %% of at least %s\n\n", r.Options.Rollouts, r.Options.Limit*100, r.Options.Steps, r.Options.Every)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "clients\tinstalls\tfails for\thalted\theld\tafter outcomes\tfetched by\tfurthest\t|\teach seen: halted\tafter\t|\tthreshold: halted\tafter outcomes\tfetched by\t")
	for _, row := range r.Rows {
		installs, fails := "at once", fmt.Sprintf("%g × limit", row.Multiple)
		if row.Late {
			installs = "when quit"
		}
		if row.Dead {
			fails = "never starts"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%.1f %%\t%.1f %%\t%s\t%s\t%d %%\t|\t%.1f %%\t%s\t|\t%.1f %%\t%s\t%s\t\n", row.Clients, installs, fails,
			row.Guard.Halted*100, row.Guard.Held*100, row.Guard.Outcomes.text(row.Guard), row.Guard.Fetched.text(row.Guard), row.Guard.Percent,
			row.Seen.Halted*100, row.Seen.Fetched.text(row.Seen), row.Threshold.Halted*100, row.Threshold.Outcomes.text(row.Threshold), row.Threshold.Fetched.text(row.Threshold))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nOutcomes and fetches are counted when the rollout is halted: median, and 95th percentile in brackets.\nEach seen: the guard, if the outcome of each client were seen before the next one fetches the release.")
	return err
}

func (s Spread) text(of Result) string {
	if of.Halted == 0 {
		return "-"
	}
	return fmt.Sprintf("%d (%d)", s.Median, s.P95)
}
