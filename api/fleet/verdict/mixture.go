package verdict

import "math"

// bet is a bet that clients fail more often than claimed: the stake is multiplied by factor
// with each failure, and divided with each client by the average of that multiplier under the
// claim. It stakes weight, a share of the whole stake.
type bet struct{ factor, weight float64 }

// mixture splits the stake over several bets; the weights add up to 1.
type mixture [4]bet

var (
	// sharp needs the fewest clients to reveal twice the claimed share, and costs
	// little where the true share is far larger, or only slightly.
	sharp = mixture{{1.25, 0.05}, {2, 0.85}, {6, 0.08}, {30, 0.02}}
	// broad is for shares of any size.
	broad = mixture{{1.5, 0.1}, {3, 0.3}, {10, 0.3}, {100, 0.3}}
)

// claim is that each client fails with a probability of at most p, to be refuted
// with a given error by a mixture of bets.
type claim struct {
	p         float64
	threshold float64
	// logarithms of the weights, of what a failure wins and of what a client costs
	stake, wins, costs [len(mixture{})]float64
}

func (m *mixture) claim(p, err float64) claim {
	c := claim{p: p, threshold: -math.Log(err)}
	for i, b := range m {
		c.stake[i], c.wins[i], c.costs[i] = math.Log(b.weight), math.Log(b.factor), math.Log1p((b.factor-1)*p)
	}
	return c
}

// evidence returns the logarithm of the mixture martingale after n clients, s of
// which failed:
//
//	log Σ w · c^s / (1 + (c-1)·p)^n
//
// It falls as n or p grows, and rises with s and with a client that fails.
func (c *claim) evidence(s, n float64) float64 {
	logs, most := c.logs(s, n)
	sum := 0.0
	for _, l := range logs {
		sum += math.Exp(l - most)
	}
	return most + math.Log(sum)
}

func (c *claim) logs(s, n float64) (logs [len(mixture{})]float64, most float64) {
	most = math.Inf(-1)
	for i := range logs {
		logs[i] = c.stake[i] + s*c.wins[i] - n*c.costs[i]
		most = max(most, logs[i])
	}
	return logs, most
}

// refuted reports whether s failures of n clients refute the claim.
func (c *claim) refuted(s, n int64) bool {
	if float64(s) <= c.p*float64(n) {
		return false // the evidence is not positive
	}
	_, most := c.logs(float64(s), float64(n))
	return most >= c.threshold || // the sum is between its largest term and four times that
		most+math.Log(float64(len(mixture{}))) >= c.threshold && c.evidence(float64(s), float64(n)) >= c.threshold
}

// lower returns the lower end of the confidence sequence: every share below it is
// refuted.
func (m *mixture) lower(s, n int64, err float64) float64 {
	if s <= 0 || n <= 0 {
		return 0
	}
	low, high := 0.0, float64(s)/float64(n)
	for range 60 {
		middle := (low + high) / 2
		if c := m.claim(middle, err); c.refuted(s, n) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// upper returns the upper end, which is the lower end for the other outcome.
func (m *mixture) upper(s, n int64, err float64) float64 {
	if n <= 0 {
		return 1
	}
	return 1 - m.lower(n-s, n, err)
}
