package fleet

import (
	"fmt"
	"testing"

	"tsmon/api/fleet/verdict"
	"tsmon/store/record"
)

// crowdOf returns the crowd of a number of networks with the same outcomes.
func crowdOf(networks int, each verdict.Sums) record.Crowd {
	n := int64(networks)
	c := record.Crowd{Networks: networks, Counts: record.Counts{
		Offered: n * each.Offered, Waiting: n * (each.Waiting - each.Kept), Kept: n * each.Kept, Healthy: n * each.Healthy, Failing: n * each.Failing,
	}}
	if each.Failing > 0 {
		c.Failed = networks
	}
	for _, age := range each.Ages {
		c.Ages = append(c.Ages, record.AgeCounts{Reached: n * age.Reached, Waiting: n * age.Waiting, Failing: n * age.Failing})
	}
	return c
}

// fleetOf returns the crowds of a fleet with a number of networks of each kind.
func fleetOf(kinds ...kind) (all []record.Crowd) {
	for _, k := range kinds {
		all = append(all, crowdOf(k.networks, k.each))
	}
	return all
}

type kind = struct {
	networks int
	each     verdict.Sums
}

// TestBounded: the weight of a network does not grow with the clients that it makes up. Fleets of
// homes, of offices and of one address are counted exactly.
func TestBounded(t *testing.T) {
	home, office := verdict.Sums{Healthy: 1}, verdict.Sums{Healthy: 57, Failing: 3}
	for name, c := range map[string]struct {
		kinds            []kind
		networks         int
		healthy, failing int64
		spread           string
	}{
		"nobody":                     {nil, 3, 0, 0, "0 0 1.00"},
		"homes":                      {[]kind{{1000, home}, {10, verdict.Sums{Failing: 1}}}, 3, 1000, 10, "1010 10 1.00"},
		"offices":                    {[]kind{{20, office}}, 3, 1140, 60, "20 20 1.00"},
		"one address":                {[]kind{{1, verdict.Sums{Healthy: 900, Failing: 100}}}, 1, 900, 100, "1 1 1.00"},
		"one address among homes":    {[]kind{{60, home}, {1, verdict.Sums{Failing: 833}}}, 3, 60, 1, "61 1 0.07"},
		"one address that is larger": {[]kind{{60, home}, {1, verdict.Sums{Failing: 833_000}}}, 3, 60, 1, "61 1 0.00"},
		"forty that praise":          {[]kind{{120, verdict.Sums{Failing: 1}}, {40, verdict.Sums{Healthy: 5000}}}, 3, 40, 120, "160 120 0.00"},
		"forty that wait":            {[]kind{{120, verdict.Sums{Failing: 1}}, {40, verdict.Sums{Waiting: 5000}}}, 3, 0, 120, "160 120 0.00"},
		"offices among homes":        {[]kind{{1000, home}, {5, verdict.Sums{Healthy: 80}}}, 3, 1025, 0, "1005 0 0.73"},
	} {
		sums, spread := Bounded(fleetOf(c.kinds...), c.networks)
		got := fmt.Sprintf("%d %d %.2f", spread.Networks, spread.Failing, spread.Counted)
		if sums.Healthy != c.healthy || sums.Failing != c.failing || got != c.spread {
			t.Errorf("%s: %d healthy and %d failing of %s, want %d and %d of %s", name, sums.Healthy, sums.Failing, got, c.healthy, c.failing, c.spread)
		}
	}
}

// TestBoundedSums: sums remain consistent after they are bounded.
func TestBoundedSums(t *testing.T) {
	var all []record.Crowd
	for i := range 500 {
		var s verdict.Sums
		size := 1 + i*i%97
		if i%50 == 0 {
			size = 9000
		}
		for n := range size {
			outcome := (n + i) % 5
			*s.Counts()[outcome]++ // the kept ones wait, too
			if outcome == 3 {
				s.Waiting++
			}
			for k := 0; k <= n%verdict.Marks && outcome < 4; k++ {
				age := &s.Ages[k]
				age.Reached++
				switch {
				case outcome >= 2 || k < i%verdict.Marks:
					age.Waiting++
				case outcome == 1:
					age.Failing++
				}
			}
		}
		all = append(all, crowdOf(1, s))
	}
	sums, spread := Bounded(all, 3)
	if err := sums.Check(); err != nil || spread.Counted <= 0.1 || spread.Counted >= 1 {
		t.Errorf("%+v, %+v: %v", sums, spread, err)
	}
}
