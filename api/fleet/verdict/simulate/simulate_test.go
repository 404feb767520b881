package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

// few are options for a test; each row has its seeds, so the figures are fixed.
func few(t *testing.T, clients int, multiples ...float64) Options {
	t.Helper()
	o := Defaults(0.02)
	o.Clients, o.Multiples, o.Rollouts = []int{clients}, multiples, 300
	if testing.Short() {
		o.Rollouts = 100
	}
	return o
}

func simulated(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// slack allows for the chance in a share that is simulated: two deviations.
func slack(share float64, rollouts int) float64 {
	return 2 * math.Sqrt(share*(1-share)/float64(rollouts))
}

// TestGoals: rollouts of 1,200 clients, whether the application installs at once or
// when it is quit, and also if a tenth of the clients is not seen again.
func TestGoals(t *testing.T) {
	aways := []float64{0, 0.1}
	if testing.Short() {
		aways = aways[:1]
	}
	for _, away := range aways {
		o := few(t, 1200, 0.5, 1, 2, 10)
		o.Away = away
		for _, row := range simulated(t, o).Rows {
			g := row.Guard
			least := 0.95 // of those that fail for twice the limit
			if away > 0 {
				least = 0.85 // there is less to be seen
			}
			switch {
			case row.Dead && (g.Percent > 5 || g.Fetched.P95 > 120):
				t.Errorf("a release that never starts: %+v", row)
			case row.Dead:
			case row.Multiple == 0.5 && g.Halted > 0.01,
				row.Multiple == 1 && g.Halted > 0.05+slack(0.05, o.Rollouts),
				row.Multiple == 2 && g.Halted < least-slack(least, o.Rollouts),
				row.Multiple == 10 && (g.Halted < 0.95 || g.Outcomes.P95 > 60 || g.Fetched.P95 > 60),
				row.Multiple == 0.5 && row.Seen.Halted > 0.01,
				row.Multiple == 1 && row.Seen.Halted > 0.05+slack(0.05, o.Rollouts),
				row.Multiple == 2 && row.Seen.Halted < least-slack(least, o.Rollouts),
				row.Multiple == 10 && (row.Seen.Halted < 0.95 || row.Seen.Fetched.P95 > 60):
				t.Errorf("away %g: %+v", away, row)
			case g.Held > 0:
				t.Errorf("away %g: held for good: %+v", away, row)
			}
		}
	}
}

// TestLargeFleet: what holds for a small fleet holds for a large one.
func TestLargeFleet(t *testing.T) {
	o := few(t, 20_000, 0.5, 2, 10)
	for _, row := range simulated(t, o).Rows {
		if g := row.Guard; row.Multiple == 0.5 && g.Halted > 0 || (row.Multiple == 2 || row.Dead) && g.Halted < 1 || row.Dead && g.Percent > 5 || g.Held > 0 ||
			row.Multiple == 0.5 && row.Seen.Halted > 0 || row.Multiple == 10 && (row.Seen.Halted < 1 || row.Seen.Fetched.P95 > 60 || !row.Late && g.Outcomes.P95 > 60) ||
			row.Dead && row.Seen.Halted > 0 {
			t.Errorf("%+v", row)
		}
	}
}

// TestFirst: with nothing to compare to, a release that never starts is not halted,
// but stays at the first step.
func TestFirst(t *testing.T) {
	o := few(t, 1200)
	o.Before, o.Rollouts = -1, 5
	for _, row := range simulated(t, o).Rows {
		if !row.Dead || row.Guard.Halted > 0 || row.Guard.Held != 1 || row.Guard.Percent != 5 {
			t.Errorf("%+v", row)
		}
	}
}

// TestFarWorse: a release that fails for the limit is halted where the release
// before failed for far fewer, and one that fails for half of the limit is not.
func TestFarWorse(t *testing.T) {
	o := few(t, 50_000, 0.5, 1)
	o.Before, o.Rollouts = 0.05, 5
	for _, row := range simulated(t, o).Rows {
		if g := row.Guard; row.Multiple == 0.5 && g.Halted > 0 || row.Multiple == 1 && g.Halted < 1 {
			t.Errorf("%+v", row)
		}
	}
}

// TestThreshold: the plain threshold halts most releases that fail for half of it.
func TestThreshold(t *testing.T) {
	for _, row := range simulated(t, few(t, 1200, 0.5)).Rows {
		if !row.Dead && row.Threshold.Halted < 0.3 || row.Late && !row.Dead && row.Threshold.Halted < 1 || row.Dead && row.Threshold.Halted > 0 {
			t.Errorf("%+v", row)
		}
	}
}

// TestReport: the same seed gives the same report, another seed another one; both
// forms show all rows.
func TestReport(t *testing.T) {
	o := few(t, 300, 1, 5)
	o.Rollouts = 40
	first, second := simulated(t, o), simulated(t, o)
	if !reflect.DeepEqual(first, second) {
		t.Errorf("%+v\n%+v", first, second)
	}
	o.Seed = 2
	if other := simulated(t, o); reflect.DeepEqual(first.Rows, other.Rows) {
		t.Error("the seed makes no difference")
	}
	var text bytes.Buffer
	if err := first.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"40 rollouts a row, limit 2 %", "when quit", "5 × limit", "never starts"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("%q is not in\n%s", part, &text)
		}
	}
	var back Report
	if data, err := json.Marshal(first); err != nil || json.Unmarshal(data, &back) != nil || !reflect.DeepEqual(&back, first) {
		t.Errorf("%s, %v", data, err)
	}
	if err := first.WriteText(full{}); err == nil {
		t.Error("output that can't be written is ignored")
	}
}

// full takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"limit 0":    func(o *Options) { o.Limit = 0 },
		"no number":  func(o *Options) { o.Limit = math.NaN() },
		"no steps":   func(o *Options) { o.Steps = nil },
		"falling":    func(o *Options) { o.Steps = []int{50, 5} },
		"past 100 %": func(o *Options) { o.Steps = []int{5, 101} },
		"every":      func(o *Options) { o.Every = -1 },
		"rollouts":   func(o *Options) { o.Rollouts = 0 },
		"clients":    func(o *Options) { o.Clients = []int{0} },
		"memory":     func(o *Options) { o.Clients = []int{math.MaxInt} },
		"multiple":   func(o *Options) { o.Multiples = []float64{51} },
		"before":     func(o *Options) { o.Before = math.NaN() },
		"all away":   func(o *Options) { o.Away = 1 },
	} {
		o := Defaults(0.02)
		change(&o)
		if _, err := Run(t.Context(), o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Defaults(0.02)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// BenchmarkRollouts plays one rollout a row.
func BenchmarkRollouts(b *testing.B) {
	for _, clients := range []int{1200, 100_000} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			o := Defaults(0.02)
			o.Clients, o.Rollouts = []int{clients}, b.N
			if _, err := Run(b.Context(), o); err != nil {
				b.Fatal(err)
			}
		})
	}
}
