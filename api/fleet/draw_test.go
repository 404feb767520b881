package fleet_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/manifest"
)

// drawn returns a number of computers that the first step of the channel's rollout includes, and
// a number that it does not.
func (g *guarded) drawn(in, out int) (computers []computer) {
	g.t.Helper()
	offers := g.servers[0].Heads.Channels()[g.channel]
	for n := 0; in+out > 0; n++ {
		c := computer{id: fmt.Sprint("computer ", n), address: fmt.Sprintf("10.%d.%d.7", n/250, n%250), version: "1.0.0"}
		answer, err := offers.For(channels.Client{Client: manifest.Client{Target: "linux-x86_64", Version: c.version}, ID: c.id})
		room := &out
		switch {
		case err != nil || n == 100_000:
			g.t.Fatalf("computer %d: %v; %d and %d are missing", n, err, in, out)
		case answer.Offer != nil:
			room = &in
		}
		if *room > 0 {
			*room--
			computers = append(computers, c)
		}
	}
	return computers
}

// TestSmallDraw: by chance, a step of a small fleet may include far fewer clients than its
// share. After a day without more clients, these few are enough for the next step.
func TestSmallDraw(t *testing.T) {
	for _, drawn := range []int{2, 0} {
		g := guard(t, apitest.Embedded(t))
		g.publish("1.0.0", nil)
		g.publish("1.1.0", daily())
		g.live(g.drawn(drawn, 120-drawn), 3*24, runs, func() bool { return g.log().Head().Rollout == nil })
		log := g.log()
		var shares []int
		for _, e := range log.Entries {
			if e.Rollout != nil {
				shares = append(shares, e.Rollout.Percent)
			}
		}
		if head := log.Head(); head.Rollout != nil || !slices.Equal(shares, []int{5, 25, 50}) {
			t.Fatalf("%d drawn: the log ends with entry %d, %s: %s; steps %v", drawn, head.Sequence, head.Action, head.Why, shares)
		}
		if took := log.Entries[2].When.Sub(log.Entries[1].When); took < 24*time.Hour {
			t.Errorf("%d drawn: the first step ended after %s", drawn, took)
		}
	}
}

// TestSmallDrawNeverStarts: a few clients that don't start a release are enough to hold it.
func TestSmallDrawNeverStarts(t *testing.T) {
	g := guard(t, apitest.Embedded(t))
	g.publish("1.0.0", nil)
	g.publish("1.1.0", daily())
	g.live(g.drawn(2, 118), 5*24, func(int, time.Duration) string { return "" }, func() bool { return g.log().Head().Sequence > 2 })
	if head := g.log().Head(); head.Sequence != 2 {
		t.Errorf("the log ends with entry %d, %s: %s", head.Sequence, head.Action, head.Why)
	}
}
