package fleet

import (
	"math"
	"slices"

	"tsmon/api/fleet/verdict"
	"tsmon/store/record"
)

// networkShare is the share of all counted clients that one network may always make up; it may
// make up more if the other networks are large.
const networkShare = 0.005

// Spread says from how many networks the clients of a release come.
type Spread struct {
	Networks int `json:"fetched"` // networks with clients that fetched the release
	Failing  int `json:"failing"` // networks with clients for which it failed
	// Counted is the share of those clients that count, from 0 to 1.
	Counted float64 `json:"counted"`
}

// Bounded adds up all networks. No network counts for more clients than a quarter of the
// networks have, or half a percent of all that count, whichever is more: each client of a
// larger network counts for less, whether it speaks for the release or against it. If networks
// is 1, for a fleet behind one address, all clients count fully.
func Bounded(all []record.Crowd, networks int) (verdict.Sums, Spread) {
	var sizes []float64 // of networks
	spread := Spread{Counted: 1}
	for i := range all {
		c := &all[i]
		spread.Failing += c.Failed
		if n := handed(c); n > 0 {
			sizes = append(sizes, slices.Repeat([]float64{n}, c.Networks)...)
		}
	}
	spread.Networks = len(sizes)
	most := math.Inf(1)
	if networks > 1 {
		most = mostOfNetwork(sizes)
	}
	var sum verdict.Sums
	var large []weighed
	for i := range all {
		s := sumsOf(&all[i].Counts)
		if n := handed(&all[i]); n > most {
			large = append(large, weighed{s, most / n})
		} else {
			sum = sum.Merge(s)
		}
	}
	if len(large) == 0 {
		return sum, spread
	}
	sum = sum.Merge(weigh(large))
	clients := 0.0
	for _, n := range sizes {
		clients += n
	}
	spread.Counted = min(1, float64(sum.Handed())/clients)
	return sum, spread
}

// handed is the number of clients per network of a crowd that fetched the release.
func handed(c *record.Crowd) float64 {
	return float64(c.Waiting+c.Kept+c.Healthy+c.Failing) / float64(max(1, c.Networks))
}

// sumsOf returns the sums of clients that were counted at verdict.MarkAges, or at no age.
func sumsOf(c *record.Counts) verdict.Sums {
	s := verdict.Sums{Healthy: c.Healthy, Failing: c.Failing, Waiting: c.Waiting + c.Kept, Kept: c.Kept, Offered: c.Offered}
	for k, age := range c.Ages {
		s.Ages[k] = verdict.Age(age)
	}
	return s
}

// mostOfNetwork returns how many clients of one network count at most. The share refers to the
// clients that count with this bound, so it is approached from below.
func mostOfNetwork(sizes []float64) float64 {
	if len(sizes) == 0 {
		return 1
	}
	slices.Sort(sizes)
	quarter := sizes[len(sizes)/4]
	most := quarter
	for range 30 {
		counted := 0.0
		for _, n := range sizes {
			counted += min(n, most)
		}
		next := max(quarter, networkShare*counted)
		if next <= most {
			break
		}
		most = next
	}
	return most
}

// weighed are the sums of a network and the weight of each of its clients.
type weighed struct {
	verdict.Sums
	weight float64
}

// weigh adds up sums by weight, and rounds down.
func weigh(all []weighed) verdict.Sums {
	var sum verdict.Sums
	counts := sum.Counts()
	var totals [len(counts)]float64
	for i := range all {
		for k, count := range all[i].Counts() {
			totals[k] += all[i].weight * float64(*count)
		}
	}
	for k, total := range totals {
		*counts[k] = int64(total + 1e-9)
	}
	for k := range sum.Ages { // rounding must not make them inconsistent
		age := &sum.Ages[k]
		age.Reached = min(age.Reached, sum.Handed())
		age.Failing = min(age.Failing, age.Reached)
		age.Waiting = min(age.Waiting, age.Reached-age.Failing)
	}
	return sum
}
