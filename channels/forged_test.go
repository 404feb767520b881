package channels

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	"tsmon/signing/signingtest"
)

// TestForgedEntries: somebody with the store and the key of one operator, and with that of
// a server, writes entries that no reader may accept.
func TestForgedEntries(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	thief := signingtest.Operator(t)
	step := func(change func(*Entry)) func(*guarded, *Log) Entry { // that is due, and changed
		return func(_ *guarded, log *Log) Entry {
			e := stepped(log, now)
			change(&e)
			return e
		}
	}
	for name, forge := range map[string]func(g *guarded, log *Log) Entry{
		"no signature":  func(_ *guarded, log *Log) Entry { return signed(t, log, entry(Publish, "1.3.0", "", "")) },
		"one signature": func(g *guarded, log *Log) Entry { return signed(t, log, entry(Publish, "1.3.0", "", ""), g.ann) },
		"one twice": func(g *guarded, log *Log) Entry {
			return signed(t, log, entry(Publish, "1.3.0", "", ""), g.ann, g.ann)
		},
		"a stranger": func(g *guarded, log *Log) Entry {
			return signed(t, log, entry(Publish, "1.3.0", "", ""), g.ann, thief)
		},
		"a server": func(g *guarded, log *Log) Entry {
			return signed(t, log, entry(Publish, "1.3.0", "", ""), g.ann, g.server)
		},
		"a server alone": func(g *guarded, log *Log) Entry {
			return signed(t, log, entry(Publish, "1.3.0", "", ""), g.server)
		},
		"a server lets it go on": func(g *guarded, log *Log) Entry {
			e := entry(Pause, "1.1.0", "1.2.0", "failures")
			e.Rollout = log.Head().Rollout.Pause(now)
			log = g.enter(t, log, e, g.server)
			e.Action, e.Rollout = Resume, e.Rollout.Resume(now)
			return signed(t, log, e, g.server)
		},
		"a server gives it to everybody": func(g *guarded, log *Log) Entry {
			return signed(t, log, entry(Advance, "1.2.0", "", ""), g.server)
		},
		"a server goes back": func(g *guarded, log *Log) Entry {
			return signed(t, log, entry(Rollback, "1.0.0", "1.2.0", ""), g.server)
		},
		"a server prunes": func(g *guarded, log *Log) Entry {
			e := *log.Head()
			e.Action, e.Pruned = Prune, []string{"1.0.0"}
			return signed(t, log, e, g.server)
		},
		"a server accepts a loss": func(g *guarded, log *Log) Entry {
			e := *log.Head()
			e.Action, e.Accepted = Accept, &Position{9, strings.Repeat("0", 64)}
			return signed(t, log, e, g.server)
		},
		"a server appoints itself": func(g *guarded, log *Log) Entry {
			e := *log.Head()
			e.Action, e.Operators = Appoint, &Operators{Keys: map[string]string{"guard": g.server.Public().String()}, Approvals: 1, Rollbacks: 1}
			return signed(t, log, e, g.server)
		},
		"another channel's": func(g *guarded, log *Log) Entry {
			e := log.Next(entry(Publish, "1.3.0", "", ""))
			e.Channel = "beta"
			return resign(t, e, g.ann, g.bob)
		},
		"changed notes": func(g *guarded, log *Log) Entry {
			e := signed(t, log, entry(Publish, "1.3.0", "", ""), g.ann, g.bob)
			e.Release.Notes = "by hand"
			return e
		},
		"a critical flag": func(g *guarded, log *Log) Entry {
			e := signed(t, log, entry(Publish, "1.3.0", "", ""), g.ann, g.bob)
			e.Release.Critical = true
			return e
		},
		"everybody at once":         step(func(e *Entry) { e.Release, e.Version, e.Rollout = releaseOf("1.2.0"), "1.2.0", nil }),
		"a step with another share": step(func(e *Entry) { e.Rollout.Percent = 100 }),
		"a step too early":          func(_ *guarded, log *Log) Entry { return stepped(log, log.Head().When.Add(time.Hour)) },
		"a step from before the newest entry": func(g *guarded, log *Log) Entry {
			e := *log.Head()
			e.Action, e.When, e.Pruned = Prune, now, []string{"1.0.0"}
			log = g.enter(t, log, e, g.ann)
			e = stepped(log, now)
			e.When, e.Rollout.Since = now.Add(-time.Minute), now.Add(-time.Minute)
			return e
		},
		"the last step with other notes": func(g *guarded, log *Log) Entry {
			e := *log.Head()
			last := *e.Rollout
			last.Steps, e.Rollout = []int{20, 100}, &last
			log = g.enter(t, log, e, g.ann, g.bob)
			e = stepped(log, now)
			e.Release, e.Version, e.Rollout = last.Release, last.Version, nil
			e.Release.Notes = "by hand"
			return e
		},
		"a step by somebody":            step(func(e *Entry) { e.Who = "ann" }),
		"a step for a reason":           step(func(e *Entry) { e.Why = "approved by ann" }),
		"a step from a version":         step(func(e *Entry) { e.From = "0.9.0" }),
		"a step of a job":               step(func(e *Entry) { e.Origin = &Origin{Repository: "https://example.com/app"} }),
		"a step by a guard":             step(func(e *Entry) { e.Halted = true }),
		"a step with a leader":          step(func(e *Entry) { e.Leader = "{}" }),
		"a step that accepts a loss":    step(func(e *Entry) { e.Accepted = &Position{9, strings.Repeat("0", 64)} }),
		"a step that prunes":            step(func(e *Entry) { e.Pruned = []string{"1.0.0"} }),
		"a step past a loss":            step(func(e *Entry) { e.Lost = []Lost{{From: 1, To: 1}} }),
		"a step with other targets":     step(func(e *Entry) { e.Targets = append(e.Targets, "windows-x86_64") }),
		"a step without targets":        step(func(e *Entry) { e.Targets = nil }),
		"a step that expires":           step(func(e *Entry) { e.Expires = now.Add(time.Hour) }),
		"a step that was made later":    step(func(e *Entry) { e.Expires, e.Entered = now.Add(time.Hour), now.Add(time.Second) }),
		"a step that a stranger signed": func(_ *guarded, log *Log) Entry { return resign(t, stepped(log, now), thief) },
		"a step that one signed, for a reason": func(g *guarded, log *Log) Entry {
			e := stepped(log, now)
			e.Why = "approved by ann"
			return resign(t, e, g.ann)
		},
		"a pause with another release": func(g *guarded, log *Log) Entry {
			e := entry(Pause, "0.9.0", "1.2.0", "")
			e.Rollout = log.Head().Rollout.Pause(now)
			return signed(t, log, e, g.server)
		},
		"a rollback to what was never shown": func(g *guarded, log *Log) Entry {
			return signed(t, log, entry(Rollback, "0.9.0", "1.2.0", ""), g.ann)
		},
		"a rollback to other bytes": func(g *guarded, log *Log) Entry {
			e := entry(Rollback, "1.0.0", "1.2.0", "")
			e.Release.Platforms = map[string]Bundle{"linux-x86_64": {Signature: signature, Path: "releases/1.0.0/other"}}
			return signed(t, log, e, g.ann)
		},
		"a rollback up to what was rolled back": func(g *guarded, log *Log) Entry {
			log = g.enter(t, log, entry(Rollback, "1.0.0", "1.2.0", ""), g.ann)
			return signed(t, log, entry(Rollback, "1.1.0", "1.0.0", ""), g.ann)
		},
		"a rollback down to what was rolled back": func(g *guarded, log *Log) Entry {
			log = g.enter(t, log, entry(Rollback, "1.0.0", "1.2.0", ""), g.ann)
			log = g.enter(t, log, entry(Publish, "1.3.0", "", ""), g.ann, g.bob)
			return signed(t, log, entry(Rollback, "1.1.0", "1.3.0", ""), g.ann)
		},
		"a rollback up to what a rollout showed": func(g *guarded, log *Log) Entry {
			return signed(t, log, entry(Rollback, "1.2.0", "1.1.0", ""), g.ann)
		},
		"a rollback to what is shown": func(g *guarded, log *Log) Entry {
			log = g.enter(t, log, entry(Rollback, "1.1.0", "1.2.0", ""), g.ann)
			return signed(t, log, entry(Rollback, "1.1.0", "1.1.0", ""), g.ann)
		},
		"lost entries": func(g *guarded, log *Log) Entry {
			e := *log.Head()
			e.Action, e.Lost = Repair, []Lost{{From: 1, To: 1}}
			return signed(t, log, e, g.ann)
		},
		"himself as operator": func(_ *guarded, log *Log) Entry {
			e := *log.Head()
			e.Action, e.Operators = Appoint, &Operators{Keys: map[string]string{"me": thief.Public().String()}, Approvals: 1, Rollbacks: 1}
			return signed(t, log, e, thief)
		},
		"fewer approvals": func(g *guarded, log *Log) Entry {
			e := *log.Head()
			o := *g.operators
			o.Approvals = 1
			e.Action, e.Operators = Appoint, &o
			return signed(t, log, e, g.ann)
		},
		"new ones who have no keys": func(g *guarded, log *Log) Entry {
			e := *log.Head()
			e.Action, e.Operators = Appoint, &Operators{Keys: map[string]string{"me": thief.Public().String()}, Approvals: 1, Rollbacks: 1}
			return signed(t, log, e, g.ann, g.bob)
		},
		"after it expired": func(g *guarded, log *Log) Entry {
			e := entry(Publish, "1.3.0", "", "")
			e.Expires = now.Add(-time.Hour)
			e = signed(t, log, e, g.ann, g.bob)
			e.Entered = now
			return e
		},
		"too many signatures": func(g *guarded, log *Log) Entry {
			e := signed(t, log, entry(Publish, "1.3.0", "", ""), g.ann, g.bob)
			for len(e.Signatures) <= maxSignatures {
				e.Signatures = append(e.Signatures, e.Signatures[0])
			}
			return e
		},
		"no signature at all": func(g *guarded, log *Log) Entry {
			e := signed(t, log, entry(Publish, "1.3.0", "", ""), g.ann, g.bob)
			e.Signatures[1] = "-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----\n"
			return e
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t)
			log := g.story(t, "stable")
			e := forge(g, log)
			log, err := g.Load(t.Context(), "stable") // with what came before e
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Enter(t.Context(), log, e); !errors.Is(err, ErrUnsigned) {
				t.Errorf("it is written: %v", err)
			}
			if _, err := g.journal("stable").create(t.Context(), e); err != nil { // as the thief does
				t.Fatal(err)
			}
			if got, err := g.Load(t.Context(), "stable"); !errors.Is(err, ErrUnsigned) || !errors.Is(err, ErrLog) {
				t.Errorf("it is read: %v, %v", got, err)
			}
			if got, err := g.Extend(t.Context(), log); !errors.Is(err, ErrUnsigned) {
				t.Errorf("it is read by who knows the rest: %v, %v", got, err)
			}
		})
	}
}

// TestForgedLogs: a whole log that a thief wrote is not believed, however it is signed.
func TestForgedLogs(t *testing.T) {
	thief := signingtest.Operator(t)
	for name, own := range map[string]func(g *guarded) *Operators{
		"without operators": func(*guarded) *Operators { return nil },
		"with his own": func(*guarded) *Operators {
			return &Operators{Keys: map[string]string{"me": thief.Public().String()}, Approvals: 1, Rollbacks: 1}
		},
		"with himself among ours": func(g *guarded) *Operators {
			return &Operators{Keys: map[string]string{"me": thief.Public().String(), "ann": g.ann.Public().String(), "bob": g.bob.Public().String()}, Approvals: 1, Rollbacks: 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t)
			e := entry(Publish, "9.9.9", "", "")
			e.Operators = own(g)
			log := &Log{Channel: "stable"}
			if _, err := g.journal("stable").create(t.Context(), signed(t, log, e, thief)); err != nil {
				t.Fatal(err)
			}
			if got, err := g.Load(t.Context(), "stable"); !errors.Is(err, ErrUnsigned) {
				t.Errorf("it is read: %v, %v", got, err)
			}
		})
	}
}

// TestForgedFollowers: what follows must be what a signed entry of the leader brings.
func TestForgedFollowers(t *testing.T) {
	for name, forge := range map[string]func(e *Entry, old Entry){
		"another release":      func(e *Entry, _ Entry) { e.Release = releaseOf("1.3.0") },
		"another leader":       func(e *Entry, _ Entry) { e.From = "lab" },
		"an older entry":       func(e *Entry, old Entry) { *e = old },
		"an unsigned entry":    func(e *Entry, _ Entry) { e.Leader = `{"channel":"stable"}` },
		"no entry":             func(e *Entry, _ Entry) { e.Leader = "" },
		"a rollout of its own": func(e *Entry, _ Entry) { e.Rollout = rollout(5); e.Rollout.Release = releaseOf(e.Rollout.Version) },
		"another author":       func(e *Entry, _ Entry) { e.Who = "somebody else" },
		"another reason":       func(e *Entry, _ Entry) { e.Why = "approved by ann" },
		"a job":                func(e *Entry, _ Entry) { e.Origin = &Origin{Repository: "https://example.com/app"} },
		"a guard":              func(e *Entry, _ Entry) { e.Halted = true },
		"other targets":        func(*Entry, Entry) {},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t)
			leader := g.story(t, "stable")
			first := entry(Publish, "1.0.5", "", "")
			first.Operators = g.following("stable")
			log := g.enter(t, &Log{Channel: "beta"}, first, g.ann, g.bob)
			e := entry(Follow, "1.1.0", "stable", "")
			old := entry(Follow, "1.0.0", "stable", "")
			if err := cmp.Or(leader.Witness(&e), leader.Witness(&old)); err != nil {
				t.Fatal(err)
			}
			forge(&e, old)
			switch e = log.Next(e); name {
			case "a rollout of its own":
				e.Rollout.Percent = 5
			case "other targets":
				e.Targets = append(e.Targets, "windows-x86_64")
			}
			if _, err := g.Enter(t.Context(), log, e); !errors.Is(err, ErrUnsigned) {
				t.Errorf("it is accepted: %v", err)
			}
		})
	}
}
