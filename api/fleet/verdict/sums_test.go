package verdict_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tsmon/api/fleet/verdict"
)

func anySums(r *rand.Rand) verdict.Sums {
	var s verdict.Sums
	for range r.IntN(50) {
		s.Add(verdict.Client{
			Outcome: verdict.Outcome(r.IntN(5)),
			Since:   time.Duration(r.Int64N(int64(400 * time.Hour))),
			After:   time.Duration(r.Int64N(int64(400 * time.Hour))),
		})
	}
	return s
}

// TestMerge: sums of parts add up to the sums of all, in any order.
func TestMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	full := verdict.Sums{Healthy: verdict.MaxCount, Failing: verdict.MaxCount - 3, Waiting: verdict.MaxCount, Offered: 1}
	for range 300 {
		a, b, c := anySums(r), anySums(r), anySums(r)
		if r.IntN(3) == 0 {
			b = full
		}
		if a.Merge(b) != b.Merge(a) || a.Merge(b).Merge(c) != a.Merge(b.Merge(c)) || a.Merge(verdict.Sums{}) != a {
			t.Fatalf("%+v, %+v, %+v", a, b, c)
		}
		for _, s := range []verdict.Sums{a, a.Merge(b), a.Merge(b).Merge(c)} {
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := full.Merge(full); got.Healthy != verdict.MaxCount || got.Failing != verdict.MaxCount || got.Offered != 2 {
		t.Errorf("%+v", got)
	}
}

func TestAdd(t *testing.T) {
	var s verdict.Sums
	for _, c := range []verdict.Client{
		{Outcome: verdict.Healthy, Since: 10 * time.Hour, After: 2 * time.Hour},
		{Outcome: verdict.Failing, Since: 10 * time.Hour, After: time.Hour},
		{Outcome: verdict.Failing, Since: 10 * time.Hour, After: 5 * time.Hour},
		{Outcome: verdict.Waiting, Since: 4 * time.Hour},
		{Outcome: verdict.Kept, Since: time.Minute},
		{Outcome: verdict.Offered, Since: 100 * time.Hour},
	} {
		s.Add(c)
	}
	want := verdict.Sums{Healthy: 1, Failing: 2, Waiting: 2, Kept: 1, Offered: 1}
	want.Ages[0] = verdict.Age{Reached: 4, Waiting: 3, Failing: 1}
	want.Ages[1] = verdict.Age{Reached: 4, Waiting: 2, Failing: 1}
	want.Ages[2] = verdict.Age{Reached: 3, Waiting: 0, Failing: 2}
	if s != want {
		t.Errorf("%+v\nnot %+v", s, want)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back verdict.Sums
	if err := json.Unmarshal(text, &back); err != nil || back != s {
		t.Errorf("%s: %+v, %v", text, back, err)
	}
}

// TestInvalid: what cannot be is refused, by sums, guard and verdict alike.
func TestInvalid(t *testing.T) {
	aged := func(a verdict.Age) verdict.Sums {
		s := verdict.Sums{Healthy: 10, Failing: 5}
		s.Ages[3] = a
		return s
	}
	guard, err := verdict.New(0.02, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]verdict.Sums{
		"negative":          {Healthy: -1},
		"too many":          {Failing: verdict.MaxCount + 1},
		"overflow":          {Healthy: math.MaxInt64, Failing: math.MaxInt64, Waiting: math.MaxInt64},
		"kept, not waiting": {Waiting: 1, Kept: 2},
		"negative age":      aged(verdict.Age{Reached: 3, Waiting: -1}),
		"more than all":     aged(verdict.Age{Reached: 16}),
		"more failures":     aged(verdict.Age{Reached: 15, Failing: 6}),
		"too many waiting":  aged(verdict.Age{Reached: 10, Waiting: 8, Failing: 3}),
		"overflowing age":   aged(verdict.Age{Reached: 10, Waiting: math.MaxInt64, Failing: math.MinInt64}),
	} {
		_, asBefore := verdict.New(0.02, &s)
		v, judged := guard.Judge(s, 0)
		if !errors.Is(s.Check(), verdict.ErrInput) || !errors.Is(asBefore, verdict.ErrInput) || !errors.Is(judged, verdict.ErrInput) || v != nil {
			t.Errorf("%s: %v, %v, %v", name, s.Check(), asBefore, judged)
		}
	}
	for _, limit := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		if _, err := verdict.New(limit, nil); !errors.Is(err, verdict.ErrInput) {
			t.Errorf("limit %v: %v", limit, err)
		}
	}
	for _, reach := range []int64{-1, math.MaxInt64} {
		if _, err := guard.Judge(verdict.Sums{}, reach); !errors.Is(err, verdict.ErrInput) {
			t.Errorf("reach %d: %v", reach, err)
		}
	}
}
