package verdict_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"tsmon/api/fleet/verdict"
)

// anySums returns sums that can be.
func anySums(r *rand.Rand) verdict.Sums {
	s := verdict.Sums{Healthy: r.Int64N(20), Failing: r.Int64N(20), Waiting: r.Int64N(20), Offered: r.Int64N(20)}
	s.Kept = r.Int64N(s.Waiting + 1)
	for k := range s.Ages {
		age := &s.Ages[k]
		age.Reached = r.Int64N(s.Handed() + 1)
		age.Failing = r.Int64N(min(s.Failing, age.Reached) + 1)
		age.Waiting = r.Int64N(age.Reached - age.Failing + 1)
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

// TestKept: sums are kept as JSON, so what was written is read again.
func TestKept(t *testing.T) {
	s := anySums(rand.New(rand.NewPCG(2, 2)))
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
