package channels

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	"tsmon/channels/journal"
	"tsmon/signing"
	"tsmon/signing/signingtest"
	"tsmon/store/object"
)

// TestFollowersOfNothing: what a follower's entry holds must stand in the leader's log. A plan
// that the operators signed and that was never made is no such entry, and no reader accepts
// it: neither one that begins, nor one that knows what was before.
func TestFollowersOfNothing(t *testing.T) {
	plan := func(g *guarded, before *Log) Entry {
		return signed(t, before, entry(Publish, "1.9.0", "", ""), g.ann, g.bob)
	}
	left := func(g *guarded, stable *Log) Entry {
		back := entry(Rollback, "1.0.0", "1.2.0", "crashes")
		back.When = back.When.Add(-6 * time.Hour)
		g.enter(t, stable, back, g.cem)
		return stable.Entries[1]
	}
	for name, c := range map[string]struct {
		names  func(g *guarded, stable *Log) Entry
		brings string
		when   time.Time // of the follower's entry, if it is not now
		fed    bool      // the follower's log comes from elsewhere
		good   bool
	}{
		"a release that a part gets":            {brings: "1.2.0", names: func(_ *guarded, stable *Log) Entry { return *stable.Head() }},
		"a release that was left":               {brings: "1.1.0", names: left},
		"a release that was left, dated before": {brings: "1.1.0", names: left, when: time.Now().Add(-8 * time.Hour)},
		"a release that was left a moment ago": {brings: "1.1.0", good: true, names: func(g *guarded, stable *Log) Entry {
			g.enter(t, stable, entry(Rollback, "1.0.0", "1.2.0", "crashes"), g.cem)
			return stable.Entries[1]
		}},
		"a release that everybody gets": {brings: "1.1.0", good: true, names: func(_ *guarded, stable *Log) Entry { return stable.Entries[1] }},
		"a plan that another overtook": {names: func(g *guarded, stable *Log) Entry {
			before := &Log{Channel: "stable", Entries: stable.Entries[:2], head: stable.HashOf(2), operators: g.operators}
			return plan(g, before)
		}},
		"a plan that nobody made": {names: plan},
		"a plan with a number of none": {names: func(g *guarded, stable *Log) Entry {
			e := plan(g, stable)
			e.Sequence = 0
			return resign(t, e, g.ann, g.bob)
		}},
		"a plan of a channel without a log": {names: func(g *guarded, stable *Log) Entry {
			e := plan(g, &Log{Channel: "lab"})
			e.Channel = "lab"
			return resign(t, e, g.ann, g.bob)
		}},
		"an entry that is there": {good: true, names: func(g *guarded, stable *Log) Entry {
			e := plan(g, stable)
			if _, err := g.Enter(t.Context(), stable, e); err != nil {
				t.Fatal(err)
			}
			e = *must(g.Load(t.Context(), "stable")).Head()
			return e
		}},
		"a site that is fed with the follower first": {fed: true, good: true, names: plan},
		"a site that is fed with another entry": {fed: true, names: func(g *guarded, stable *Log) Entry {
			before := &Log{Channel: "stable", Entries: stable.Entries[:2], head: stable.HashOf(2), operators: g.operators}
			return plan(g, before)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t)
			stable := g.story(t, "stable")
			g.Trust["lab"] = g.Trust["stable"]
			first := entry(Publish, "1.0.5", "", "")
			named := c.names(g, stable)
			first.Operators = g.following(named.Channel)
			before := g.enter(t, &Log{Channel: "beta"}, first, g.ann, g.bob)
			data, err := named.encode()
			if err != nil {
				t.Fatal(err)
			}
			e := entry(Follow, cmp.Or(c.brings, "1.9.0"), named.Channel, "")
			e.Leader = string(data)
			if e = before.Next(e); !c.when.IsZero() {
				e.When = c.when.UTC().Truncate(time.Second)
			}
			if _, err := g.journal("beta").create(t.Context(), e); err != nil { // as the thief does
				t.Fatal(err)
			}
			if before.fed = c.fed; c.fed {
				if _, err := g.Store.Create(t.Context(), journal.Part{From: 1, To: 2}.Key("beta"), strings.NewReader(""), 0, journal.Attributes); err != nil {
					t.Fatal(err)
				}
			}
			standing := must(g.Load(t.Context(), "stable"))
			thorough := g.Repository
			thorough.Thorough = true
			for who, read := range map[string]func() (*Log, error){
				"who begins":   func() (*Log, error) { return g.Load(t.Context(), "beta") },
				"who knows it": func() (*Log, error) { return g.Extend(t.Context(), before) },
				"verify":       func() (*Log, error) { return thorough.Load(t.Context(), "beta") },
				"who knows stable": func() (*Log, error) {
					r := g.Repository
					r.Known = func(string) *Log { return standing }
					return r.Extend(t.Context(), before)
				},
			} {
				if log, err := read(); c.good && (err != nil || log.last() != 2) || !c.good && (!errors.Is(err, ErrUnsigned) || !errors.Is(err, ErrLog)) {
					t.Errorf("%s: %v, %v", who, log, err)
				}
			}
		})
	}
}

// TestFollowersKeepTheirEntries: a follower's log stays good while its leader goes on, goes
// back, and says entries to be lost. What was known of the leader needs no request.
func TestFollowersKeepTheirEntries(t *testing.T) {
	g := guard(t)
	stable := g.story(t, "stable")
	first := entry(Publish, "1.0.5", "", "")
	first.Operators = g.following("stable")
	beta := g.enter(t, &Log{Channel: "beta"}, first, g.ann, g.bob)
	e := entry(Follow, "1.1.0", "stable", "")
	if err := stable.Witness(&e); err != nil {
		t.Fatal(err)
	}
	g.enter(t, beta, e)
	good := func(what string) {
		t.Helper()
		for _, thorough := range []bool{false, true} {
			r := g.Repository
			r.Thorough = thorough
			if log, err := r.Load(t.Context(), "beta"); err != nil || log.last() != 2 {
				t.Errorf("%s: %v, %v", what, log, err)
			}
		}
	}
	good("at once")
	stable = g.enter(t, stable, entry(Rollback, "1.0.0", "1.2.0", "crashes"), g.cem)
	good("after a rollback")
	if err := g.Store.Delete(t.Context(), journal.Key("stable", 3)); err != nil {
		t.Fatal(err)
	}
	lost := *stable.Head()
	lost.Action, lost.Lost = Repair, []Lost{{From: 3, To: 3}}
	if _, err := g.journal("stable").create(t.Context(), signed(t, stable, lost, g.ann, g.bob)); err != nil {
		t.Fatal(err)
	}
	good("after its entry was said to be lost")
	r := g.Repository
	r.Store, r.Known = object.Store(nil), func(string) *Log { return stable }
	e = entry(Follow, "1.1.0", "stable", "")
	if log, err := (Position{2, stable.HashOf(2)}).leader(t.Context(), r, nil, "stable", &e); err != nil || log != stable {
		t.Errorf("what is known is read: %v, %v", log, err)
	}
}

func must(log *Log, err error) *Log {
	if err != nil {
		panic(err)
	}
	return log
}

// TestWitness: a follower goes by the entry that let its release out, not by a later one that
// shows the same release. Where the operators in force have signed only such a later one, that
// is the witness.
func TestWitness(t *testing.T) {
	g := guard(t)
	stable := g.story(t, "stable")
	now := time.Now().UTC().Truncate(time.Second)
	move := func(action Action, why string, rollout *Rollout, operators *Operators, by ...signing.SSHSigner) {
		t.Helper()
		e := *stable.Head()
		e.Action, e.Why, e.When, e.Rollout, e.Operators = action, why, now, rollout, operators
		stable = g.enter(t, stable, e, by...)
	}
	witness := func(want uint64) {
		t.Helper()
		e := entry(Follow, "1.2.0", "stable", "a plan's reason")
		if err := stable.Witness(&e); err != nil {
			t.Fatal(err)
		}
		leader, err := decodeEntry([]byte(e.Leader))
		if err != nil || leader.Sequence != want || e.Why != stable.At(want).Why {
			t.Errorf("the witness is entry %d, with %q; want entry %d (%v)", leader.Sequence, e.Why, want, err)
		}
	}
	witness(3)
	move(Pause, "one site fails", stable.Head().Rollout.Pause(now), nil, g.ann, g.bob)
	move(Resume, "the site was misconfigured", stable.Head().Rollout.Resume(now), nil, g.ann, g.bob)
	move(Advance, "as well as all others", stable.Head().Rollout.Step(now), nil, g.ann, g.bob)
	move(Appoint, "bob has left", stable.Head().Rollout, &Operators{Keys: map[string]string{"ann": g.ann.Public().String(), "cem": g.cem.Public().String()}, Approvals: 2, Rollbacks: 2}, g.ann, g.bob, g.cem)
	witness(3)
	next := signingtest.Operator(t)
	move(Appoint, "all keys are new", stable.Head().Rollout, &Operators{Keys: map[string]string{"next": next.Public().String()}, Approvals: 1, Rollbacks: 1}, g.root, next)
	witness(8)
}
