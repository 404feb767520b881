package fleet_test

import (
	"context"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/store/object"
)

// TestClockAhead: a server whose clock is 12 hours ahead for 13 seconds takes no step early. The
// store's clock may be right, or wrong too, as that of a folder is. The server takes the step
// once it is due by all clocks.
func TestClockAhead(t *testing.T) { testClockAhead(t, apitest.Embedded(t)) }

func testClockAhead(t *testing.T, w *apitest.World) {
	const wrong = 12 * time.Hour
	for name, c := range map[string]struct {
		own, store, elapsed bool // these clocks are 12 hours ahead
	}{
		"from the start":         {own: true, elapsed: true}, // it has seen no other time
		"set while it runs":      {own: true},
		"set with a folder's":    {own: true, store: true},
		"the store's alone":      {store: true},
		"the monotonic one only": {elapsed: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t, w)
			g.publish("1.0.0", nil)
			g.publish("1.1.0", daily())
			began := g.Clock.Now()
			var own, elapsed time.Duration // ahead by
			server := g.stewards[0]
			server.Elapsed = func() time.Duration { return g.Clock.Now().Sub(began) + elapsed }
			server.Guards.Now = func() time.Time { return g.Clock.Now().Add(own) }
			server.Publisher.Now = server.Guards.Now
			server.Publisher.Store = ahead{server.Publisher.Store, &own, c.store}
			pass := func() {
				t.Helper()
				if err := server.Pass(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			pass()
			if c.own || c.store {
				own = wrong
			}
			if c.elapsed {
				elapsed = wrong
			}
			if !c.own {
				server.Guards.Now = g.Clock.Now
				server.Publisher.Now = g.Clock.Now
			}
			for range 13 {
				g.Clock.Move(time.Second)
				pass()
			}
			if head := g.log().Head(); head.Sequence != 2 || head.Rollout.Percent != 5 {
				t.Fatalf("while it is wrong entry %d is written: %d %% by %s", head.Sequence, head.Rollout.Percent, head.Why)
			}
			own, elapsed = 0, 0
			g.Clock.Move(5*time.Hour + 59*time.Minute)
			pass()
			if head := g.log().Head(); head.Sequence != 2 {
				t.Fatalf("before it is due entry %d is written", head.Sequence)
			}
			g.Clock.Move(time.Minute)
			pass()
			if head := g.log().Head(); head.Sequence != 3 || head.Rollout.Percent != 25 || !head.When.Equal(head.Rollout.Since) {
				t.Errorf("once it is due the log ends with entry %d", head.Sequence)
			}
		})
	}
}

// TestClockAheadAtStart: a server starts with a wrong clock, which is also that of its folder.
// It ends no step if the clock is corrected within 20 seconds. A server that finds a step over
// waits 20 seconds before it takes the next.
func TestClockAheadAtStart(t *testing.T) {
	g := guard(t, apitest.Embedded(t))
	g.publish("1.0.0", nil)
	g.publish("1.1.0", daily())
	began, server := time.Now(), g.stewards[0]
	passed := time.Duration(0)
	server.Elapsed = func() time.Duration { return passed }
	pass := func(entries int, after time.Duration) {
		t.Helper()
		passed += after
		g.Clock.Move(after)
		if err := server.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(g.log().Entries); got != entries {
			t.Fatalf("%s later there are %d entries", time.Since(began), got)
		}
	}
	g.Clock.Move(12 * time.Hour)
	pass(2, 0)
	pass(2, 13*time.Second)
	g.Clock.Move(-12 * time.Hour)
	pass(2, 10*time.Second)
	pass(2, 10*time.Minute)
	pass(2, 5*time.Hour)

	g.Clock.Move(12 * time.Hour)
	server.Elapsed = nil // another server
	g.stewards[1].Elapsed = func() time.Duration { return passed }
	server = g.stewards[1]
	pass(2, 0)
	pass(2, 19*time.Second)
	pass(3, time.Second)
}

// ahead is a store whose time may be wrong.
type ahead struct {
	object.Store
	by *time.Duration
	on bool
}

func (s ahead) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Store.Now(ctx)
	if s.on {
		now = now.Add(*s.by)
	}
	return now, err
}
