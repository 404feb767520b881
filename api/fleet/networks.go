package fleet

import (
	"math"
	"slices"

	"tsmon/api/fleet/verdict"
	"tsmon/store/record"
)

// networkShare is the share of all clients that count which one network may make up,
// where the size of the other networks does not allow more.
const networkShare = 0.005

// Spread says from how many networks the clients of a release come.
type Spread struct {
	Networks int `json:"fetched"` // with clients that fetched the release
	Failing  int `json:"failing"` // of them with clients that it failed for
	// Counted is the share of those clients that count, from 0 to 1.
	Counted float64 `json:"counted"`
}

// Bounded returns the sums of all networks, in which none counts for more clients than
// a quarter of the networks have, or half a percent of all that count, whichever is
// more. The clients of a larger network count for less each, those for the release
// and those against it. A number of networks of 1, for a fleet behind one address,
// means that all clients count.
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
		s := sumsOf(&all[i])
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

// handed is how many clients each network of a crowd has that fetched the release.
func handed(c *record.Crowd) float64 {
	return float64(c.Waiting+c.Kept+c.Healthy+c.Failing) / float64(max(1, c.Networks))
}

// sumsOf returns the sums of a crowd that was counted at verdict.MarkAges.
func sumsOf(c *record.Crowd) verdict.Sums {
	s := verdict.Sums{Healthy: c.Healthy, Failing: c.Failing, Waiting: c.Waiting + c.Kept, Kept: c.Kept, Offered: c.Offered}
	for k, age := range c.Ages {
		s.Ages[k] = verdict.Age(age)
	}
	return s
}

// mostOfNetwork returns how many clients of one network count. The share is of what
// counts with that bound, so it is approached from below.
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

// weighed is the sums of a network and what each of its clients counts for.
type weighed struct {
	verdict.Sums
	weight float64
}

// weigh adds up sums by weight. What is against a release is rounded down.
func weigh(all []weighed) verdict.Sums {
	total := func(count func(*verdict.Sums) int64) int64 {
		sum := 0.0
		for i := range all {
			sum += all[i].weight * float64(count(&all[i].Sums))
		}
		return int64(sum + 1e-9)
	}
	sum := verdict.Sums{
		Healthy: total(func(s *verdict.Sums) int64 { return s.Healthy }),
		Failing: total(func(s *verdict.Sums) int64 { return s.Failing }),
		Waiting: total(func(s *verdict.Sums) int64 { return s.Waiting }),
		Kept:    total(func(s *verdict.Sums) int64 { return s.Kept }),
		Offered: total(func(s *verdict.Sums) int64 { return s.Offered }),
	}
	for k := range sum.Ages {
		age := &sum.Ages[k]
		age.Reached = min(sum.Handed(), total(func(s *verdict.Sums) int64 { return s.Ages[k].Reached }))
		age.Failing = min(age.Reached, total(func(s *verdict.Sums) int64 { return s.Ages[k].Failing }))
		age.Waiting = min(age.Reached-age.Failing, total(func(s *verdict.Sums) int64 { return s.Ages[k].Waiting }))
	}
	return sum
}
