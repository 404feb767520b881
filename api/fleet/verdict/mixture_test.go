package verdict

import (
	"math"
	"testing"
)

// crossing returns the probability that the claim is refuted at or before each
// number of clients, when they fail with probability p and each outcome is seen
// before the next. It follows all paths, so the result is exact.
func crossing(c *claim, p float64, clients int) []float64 {
	boundary := make([]int64, clients+1) // fewest failures that refute
	var s int64
	for n := range boundary[1:] {
		for s <= int64(n)+1 && !c.refuted(s, int64(n)+1) {
			s++
		}
		boundary[n+1] = s
	}
	paths := make([]float64, s+1) // probability of each number of failures on paths that have not crossed
	paths[0] = 1
	crossed := make([]float64, clients+1)
	for n := 1; n <= clients; n++ {
		crossed[n] = crossed[n-1]
		for s := len(paths) - 1; s >= 0; s-- {
			paths[s] *= 1 - p
			if s > 0 {
				paths[s] += paths[s-1] * p
			}
		}
		for s := boundary[n]; s < int64(len(paths)); s++ {
			crossed[n] += paths[s]
			paths[s] = 0
		}
	}
	return crossed
}

// TestGoals: what the limit's test promises where every outcome is seen at once.
func TestGoals(t *testing.T) {
	const limit = 0.02
	c := sharp.claim(limit, LimitError)
	for _, goal := range []struct {
		multiple    float64
		clients     int
		least, most float64
	}{
		{0.5, 1200, 0, 0.01}, {1, 1200, 0, 0.05}, {2, 1200, 0.95, 1}, {10, 60, 0.95, 1},
	} {
		if got := crossing(&c, goal.multiple*limit, goal.clients)[goal.clients]; got < goal.least || got > goal.most {
			t.Errorf("%g times the limit: halted within %d clients with probability %.4f, not from %g to %g", goal.multiple, goal.clients, got, goal.least, goal.most)
		}
	}
}

// TestError: the error holds over all looks, whatever the share and the mixture.
func TestError(t *testing.T) {
	clients := 2500
	if testing.Short() {
		clients = 1000
	}
	for _, m := range []*mixture{&sharp, &broad} {
		for _, p := range []float64{0.001, 0.01, 0.02, 0.1, 0.5, 0.9, 0.99} {
			for _, err := range []float64{0.2, 0.05, 0.001} {
				c := m.claim(p, err)
				if got := crossing(&c, p, clients)[clients]; got > err {
					t.Errorf("p %g: refuted with probability %.5f, error %g", p, got, err)
				}
			}
		}
	}
}

// TestMartingale: one more client leaves the evidence as it is on average under
// the claim, and makes it smaller if clients fail less often.
func TestMartingale(t *testing.T) {
	for _, m := range []*mixture{&sharp, &broad} {
		for _, p := range []float64{0.001, 0.02, 0.3, 0.95} {
			c := m.claim(p, 0.05)
			for s := range 20 {
				for _, n := range []float64{20, 100, 500} {
					now := math.Exp(c.evidence(float64(s), n))
					after := func(q float64) float64 {
						return q*math.Exp(c.evidence(float64(s)+1, n+1)) + (1-q)*math.Exp(c.evidence(float64(s), n+1))
					}
					if got := after(p); math.Abs(got-now) > 1e-9*now {
						t.Fatalf("p %g, %d of %g: %g becomes %g", p, s, n, now, got)
					}
					if got := after(p / 2); got > now {
						t.Fatalf("p %g, %d of %g: %g becomes %g when half as many fail", p, s, n, now, got)
					}
				}
			}
		}
	}
}

// TestKnownEvidence compares with values worked out by hand.
func TestKnownEvidence(t *testing.T) {
	c := sharp.claim(0.02, 0.05)
	for _, known := range []struct{ s, n, want float64 }{
		{0, 0, 1},
		{1, 1, 0.05*1.25/1.005 + 0.85*2/1.02 + 0.08*6/1.1 + 0.02*30/1.58},
		{0, 1, 0.05/1.005 + 0.85/1.02 + 0.08/1.1 + 0.02/1.58},
		{2, 3, 0.05*1.5625/1.015075125 + 0.85*4/1.061208 + 0.08*36/1.331 + 0.02*900/3.944312},
	} {
		if got := math.Exp(c.evidence(known.s, known.n)); math.Abs(got-known.want) > 1e-12*known.want {
			t.Errorf("%g of %g: %.15g, not %.15g", known.s, known.n, got, known.want)
		}
	}
	for _, m := range []mixture{sharp, broad} {
		sum := 0.0
		for _, b := range m {
			sum += b.weight
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("the weights of %v add up to %v", m, sum)
		}
	}
}

// TestBounds: the bounds surround the observed share, tighten as clients come, and
// the lower one passes the limit exactly when the limit is refuted.
func TestBounds(t *testing.T) {
	limit := sharp.claim(0.02, LimitError)
	for n := int64(1); n < 3000; n += 1 + n/10 {
		last := -1.0
		for s := range min(n, 200) + 1 {
			low, high, share := sharp.lower(s, n, LimitError), sharp.upper(s, n, LimitError), float64(s)/float64(n)
			if !(0 <= low && low <= share && share <= high && high <= 1 && low >= last) {
				t.Fatalf("%d of %d: from %v to %v after %v", s, n, low, high, last)
			}
			if limit.refuted(s, n) != (low > 0.02) {
				t.Fatalf("%d of %d: refuted %v, lower bound %v", s, n, limit.refuted(s, n), low)
			}
			last = low
		}
	}
	if a, b := sharp.upper(2, 100, 0.05)-sharp.lower(2, 100, 0.05), sharp.upper(200, 10_000, 0.05)-sharp.lower(200, 10_000, 0.05); b > a/4 {
		t.Errorf("bounds %v apart with 100 clients, %v with 10,000", a, b)
	}
}

// TestMoreFailures: a failure more is never less evidence.
func TestMoreFailures(t *testing.T) {
	for _, p := range []float64{0, 0.001, 0.02, 0.5, 1} {
		c := broad.claim(p, 0.05)
		for n := range 60 {
			for s := range n + 1 {
				now := c.evidence(float64(s), float64(n))
				if one, other := c.evidence(float64(s+1), float64(n+1)), c.evidence(float64(s+1), float64(n)); one < now-1e-9 || other < now || other < one {
					t.Fatalf("p %g, %d of %d: %v, with one more client that fails %v, with one more that failed %v", p, s, n, now, one, other)
				}
			}
		}
	}
}
