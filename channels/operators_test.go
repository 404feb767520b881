package channels

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tsmon/channels/journal"
	"tsmon/signing"
	"tsmon/signing/signingtest"
	"tsmon/store/object"
)

// signed completes an entry and adds the signatures of operators.
func signed(t testing.TB, log *Log, e Entry, by ...signing.SSHSigner) Entry {
	t.Helper()
	e = log.Next(e)
	return resign(t, e, by...)
}

func resign(t testing.TB, e Entry, by ...signing.SSHSigner) Entry {
	t.Helper()
	e.Signatures, e.signers, e.verified = nil, nil, false
	payload, err := e.Payload()
	if err != nil {
		t.Fatal(err)
	}
	for _, signer := range by {
		armored, err := signer.Sign(Namespace, payload)
		if err != nil {
			t.Fatal(err)
		}
		e.Signatures = append(e.Signatures, armored)
	}
	return e
}

// guarded is a store whose channels need two of three operators.
type guarded struct {
	Repository
	ann, bob, cem, server, root signing.SSHSigner
	operators                   *Operators
}

func guard(t testing.TB) *guarded {
	t.Helper()
	r, _ := newStore(t)
	g := &guarded{Repository: r, ann: signingtest.Operator(t), bob: signingtest.Operator(t), cem: signingtest.Operator(t), server: signingtest.Operator(t), root: signingtest.Operator(t)}
	g.operators = &Operators{Keys: map[string]string{"ann": g.ann.Public().String(), "bob": g.bob.Public().String(), "cem": g.cem.Public().String()},
		Servers: map[string]string{"guard": g.server.Public().String()}, Approvals: 2, Rollbacks: 1}
	trust := Trust{Operators: g.operators, Root: []string{g.root.Public().String()}}
	g.Trust = map[string]Trust{"stable": trust, "beta": trust}
	return g
}

// following are the operators of a channel that follows another.
func (g *guarded) following(leader string) *Operators {
	o := *g.operators
	o.Follows = leader
	return &o
}

// enter appends what must be accepted.
func (g *guarded) enter(t testing.TB, log *Log, e Entry, by ...signing.SSHSigner) *Log {
	t.Helper()
	log, err := g.Enter(t.Context(), log, signed(t, log, e, by...))
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// story is a channel with a release for everybody and another for a fifth.
func (g *guarded) story(t testing.TB, channel string) *Log {
	t.Helper()
	first := entry(Publish, "1.0.0", "", "")
	first.When, first.Operators = first.When.Add(-10*time.Hour), g.operators
	log := g.enter(t, &Log{Channel: channel}, first, g.ann, g.bob)
	second := entry(Publish, "1.1.0", "", "")
	second.When = second.When.Add(-9 * time.Hour)
	log = g.enter(t, log, second, g.bob, g.cem)
	third := entry(Publish, "1.1.0", "", "")
	third.When = third.When.Add(-7 * time.Hour).UTC().Truncate(time.Second)
	third.Rollout = &Rollout{ID: "x", Version: "1.2.0", Steps: []int{20, 50, 100}, Every: Duration(6 * time.Hour), Percent: 20, Since: third.When, Release: releaseOf("1.2.0")}
	return g.enter(t, log, third, g.ann, g.cem)
}

// stepped is the next step of a rollout as nobody signs it.
func stepped(log *Log, now time.Time) Entry {
	e := entry(Advance, log.Head().Version, "", "by hand")
	e.When, e.Rollout = now, log.Head().Rollout.Step(now)
	return log.Next(e).unanswered(e.Rollout)
}

// TestOperators: what follows from signed entries needs fewer signatures, or none.
func TestOperators(t *testing.T) {
	g := guard(t)
	log := g.story(t, "stable")
	now := time.Now().UTC().Truncate(time.Second)
	log = g.enter(t, log, stepped(log, now))
	pause := entry(Pause, "1.1.0", "1.2.0", "failures")
	pause.Rollout = log.Head().Rollout.Pause(now)
	log = g.enter(t, log, pause, g.server)
	log = g.enter(t, log, entry(Rollback, "1.0.0", "1.2.0", "crashes"), g.cem)
	fresh, err := g.Load(t.Context(), "stable")
	if err != nil || len(fresh.Entries) != 6 || fresh.head != log.head || !fresh.Operators().Equal(g.operators) {
		t.Fatalf("read: %v, %v", fresh, err)
	}
	if n := len(fresh.At(1).Signers()); n != 2 {
		t.Errorf("entry 1 has %d signers", n)
	}

	// A follower takes what the signed entry of the leader brings.
	beta := entry(Publish, "1.0.0", "", "")
	beta.Operators = g.following("stable")
	follower := g.enter(t, &Log{Channel: "beta"}, beta, g.ann, g.bob)
	follow := entry(Follow, "1.1.0", "stable", "")
	if follow.Leader, err = fresh.Witness("1.1.0"); err != nil {
		t.Fatal(err)
	}
	g.enter(t, follower, follow)

	// Operators are removed, or all of them replaced by a root key.
	two := &Operators{Keys: map[string]string{"ann": g.ann.Public().String(), "bob": g.bob.Public().String()}, Approvals: 2, Rollbacks: 2}
	change := *log.Head()
	change.Action, change.Operators, change.When = Appoint, two, now
	log = g.enter(t, log, change, g.ann, g.bob)
	next := signingtest.Operator(t)
	change.Operators = &Operators{Keys: map[string]string{"new": next.Public().String()}, Approvals: 1, Rollbacks: 1}
	log = g.enter(t, log, change, g.root, next)
	g.enter(t, log, entry(Publish, "1.3.0", "", ""), next)
	if _, err := g.Load(t.Context(), "stable"); err != nil {
		t.Error(err)
	}
	g.Trust["stable"] = Trust{Operators: g.operators}
	if _, err := g.Load(t.Context(), "stable"); !errors.Is(err, ErrUnsigned) {
		t.Errorf("operators of a root key that is not ours: %v", err)
	}
}

// TestUnanswered: a step that is due is made without a signature, and says nothing then that
// only a signature could prove; with those of a move it says who took it, and why.
func TestUnanswered(t *testing.T) {
	g := guard(t)
	log := g.story(t, "stable")
	quick := *log.Head()
	quick.Rollout = rollout(20, 50, 100)
	quick.Rollout.Every, quick.Rollout.Since, quick.Rollout.Release = Duration(time.Hour), quick.When, releaseOf(quick.Rollout.Version)
	log = g.enter(t, log, quick, g.ann, g.bob)
	now := quick.When.Add(time.Hour)
	wanted := func(change func(*Entry)) Entry {
		e := entry(Advance, "1.1.0", "", "a quiet week")
		e.When, e.Origin, e.Rollout = now, &Origin{Run: "https://example.com/7"}, log.Head().Rollout.Step(now)
		if e.Rollout.Complete() {
			e.Release, e.Rollout = log.Head().Rollout.Release, nil
		}
		change(&e)
		return log.Next(e)
	}
	for name, change := range map[string]func(*Entry){
		"too early":      func(e *Entry) { e.When = log.Head().When.Add(time.Minute) },
		"another share":  func(e *Entry) { e.Rollout.Percent = 100 },
		"a missing key":  func(e *Entry) { e.Rollout = e.Rollout.Allow([]string{"darwin-aarch64"}) },
		"another action": func(e *Entry) { e.Action = Resume },
	} {
		if _, ok := Unanswered(log, wanted(change)); ok {
			t.Errorf("%s: it needs no signature", name)
		}
	}
	if _, ok := Unanswered(&Log{Channel: "beta", Entries: log.Entries}, wanted(func(*Entry) {})); ok {
		t.Error("without operators somebody else is the author")
	}
	for _, title := range []string{"step 2 of 3", "step 3 of 3"} {
		e := wanted(func(*Entry) {})
		bare, ok := Unanswered(log, e)
		if !ok || bare.Who != Stepper || bare.Why != title || bare.Origin != nil {
			t.Fatalf("made as %+v", bare)
		}
		if _, err := g.Enter(t.Context(), log, e); !errors.Is(err, ErrUnsigned) {
			t.Errorf("with who and why: %v", err)
		}
		if has, needs, err := g.Approvals(log, resign(t, e, g.ann)); has != 1 || needs != 2 || err != nil {
			t.Errorf("with who and why it has %d of %d signatures, %v", has, needs, err)
		}
		both := resign(t, e, g.ann, g.bob)
		if has, needs, err := g.Approvals(log, both); has != 2 || needs != 2 || err != nil {
			t.Errorf("with who and why it has %d of %d signatures, %v", has, needs, err)
		}
		again, _ := Unanswered(log, both)
		var err error
		if log, err = g.Enter(t.Context(), log, again); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * time.Hour)
	}
	read, err := g.Load(t.Context(), "stable")
	if err != nil || read.Head().Version != "2.0.0" || read.Head().Why != "step 3 of 3" || len(read.Head().Signatures) != 0 {
		t.Errorf("read %+v, %v", read.Head(), err)
	}
}

// TestMissedSteps: steps that nobody took can be entered as of when each was due, up to where
// the times of the rollout would have it, and no further.
func TestMissedSteps(t *testing.T) {
	g := guard(t)
	log := g.story(t, "stable")
	slow := *log.Head()
	slow.Rollout = rollout(20, 50, 75, 90, 100)
	slow.Rollout.Every, slow.Rollout.Since, slow.Rollout.Release = Duration(3*time.Hour), slow.When, releaseOf(slow.Rollout.Version)
	log = g.enter(t, log, slow, g.ann, g.bob) // seven hours ago
	step := func(due time.Time) error {
		longer, err := g.Enter(t.Context(), log, stepped(log, due))
		if err == nil {
			log = longer
		}
		return err
	}
	second := slow.When.Add(3 * time.Hour)
	for _, due := range []time.Time{second, second.Add(3 * time.Hour)} {
		if err := step(due.Add(-time.Second)); !errors.Is(err, ErrUnsigned) {
			t.Errorf("a second before it is due: %v", err)
		}
		if err := step(due); err != nil {
			t.Errorf("when it was due: %v", err)
		}
	}
	if err := step(time.Now().UTC().Truncate(time.Second)); !errors.Is(err, ErrUnsigned) || log.Head().Rollout.Percent != 75 {
		t.Errorf("beyond its times: %v", err)
	}
	if err := step(second.Add(6 * time.Hour)); !errors.Is(err, object.ErrClock) {
		t.Errorf("in the future: %v", err)
	}

	hold := entry(Pause, "1.1.0", "2.0.0", "")
	hold.When = hold.When.UTC().Truncate(time.Second)
	hold.Rollout = log.Head().Rollout.Pause(hold.When)
	log = g.enter(t, log, hold, g.server)
	if e := stepped(log, hold.When.Add(time.Hour)); e.Rollout.Percent != 75 {
		t.Errorf("a paused rollout has a step to %d %%", e.Rollout.Percent)
	} else if _, err := g.Enter(t.Context(), log, e); !errors.Is(err, ErrUnsigned) {
		t.Errorf("a step of a paused rollout: %v", err)
	}
}

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
	for name, forge := range map[string]func(e *Entry, old string){
		"another release":      func(e *Entry, _ string) { e.Release = releaseOf("1.3.0") },
		"another leader":       func(e *Entry, _ string) { e.From = "lab" },
		"an older entry":       func(e *Entry, old string) { e.Leader, e.Release = old, releaseOf("1.0.0") },
		"an unsigned entry":    func(e *Entry, _ string) { e.Leader = `{"channel":"stable"}` },
		"no entry":             func(e *Entry, _ string) { e.Leader = "" },
		"a rollout of its own": func(e *Entry, _ string) { e.Rollout = rollout(5); e.Rollout.Release = releaseOf(e.Rollout.Version) },
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t)
			leader := g.story(t, "stable")
			first := entry(Publish, "1.0.5", "", "")
			first.Operators = g.following("stable")
			log := g.enter(t, &Log{Channel: "beta"}, first, g.ann, g.bob)
			e := entry(Follow, "1.1.0", "stable", "")
			var err error
			if e.Leader, err = leader.Witness("1.1.0"); err != nil {
				t.Fatal(err)
			}
			old, err := leader.Witness("1.0.0")
			if err != nil {
				t.Fatal(err)
			}
			forge(&e, old)
			if e = log.Next(e); name == "a rollout of its own" {
				e.Rollout.Percent = 5
			}
			if _, err := g.Enter(t.Context(), log, e); !errors.Is(err, ErrUnsigned) {
				t.Errorf("it is accepted: %v", err)
			}
		})
	}
}

// TestFollowsWhomOperatorsSay: what operators signed for one channel moves no other channel
// of theirs but one that they have follow it.
func TestFollowsWhomOperatorsSay(t *testing.T) {
	g := guard(t)
	stable := g.story(t, "stable")
	first := entry(Publish, "1.9.0", "", "")
	first.Operators = g.operators
	beta := g.enter(t, &Log{Channel: "beta"}, first, g.ann, g.bob)
	e := entry(Follow, "1.9.0", "beta", "")
	var err error
	if e.Leader, err = beta.Witness("1.9.0"); err != nil {
		t.Fatal(err)
	}
	for _, by := range [][]signing.SSHSigner{nil, {g.ann}} {
		if _, err := g.Enter(t.Context(), stable, signed(t, stable, e, by...)); !errors.Is(err, ErrUnsigned) {
			t.Errorf("stable follows beta with %d signatures: %v", len(by), err)
		}
	}
	other := g.following("beta")
	if other.Equal(g.operators) {
		t.Error("whom a channel follows is no difference")
	}
	change := *stable.Head()
	change.Action, change.Operators, change.When = Appoint, other, e.When
	stable = g.enter(t, stable, change, g.ann, g.bob)
	g.enter(t, stable, e)
	if log, err := g.Load(t.Context(), "stable"); err != nil || log.Head().Version != "1.9.0" {
		t.Errorf("where they have it follow beta: %v, %v", log, err)
	}
	for _, name := range []string{"Stable", "log", "a/b"} {
		if other.Follows = name; other.Check() == nil {
			t.Errorf("it may follow %q", name)
		}
	}
}

// TestTimesOfAPlan: the times of an entry that waited count from when it was made.
func TestTimesOfAPlan(t *testing.T) {
	g := guard(t)
	log := g.story(t, "stable")
	e := entry(Publish, "1.1.0", "", "")
	e.When = e.When.Add(-5 * time.Hour).UTC().Truncate(time.Second)
	e.Expires = e.When.Add(24 * time.Hour)
	e.Rollout = &Rollout{ID: "y", Version: "1.3.0", Steps: []int{20, 100}, Every: Duration(time.Hour), Percent: 20, Since: e.When, Release: releaseOf("1.3.0")}
	e = signed(t, log, e, g.ann, g.bob)
	e.Entered = e.When.Add(4 * time.Hour)
	if _, err := g.Enter(t.Context(), log, e); err != nil {
		t.Fatal(err)
	}
	log, err := g.Load(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	head := log.Head()
	if !head.When.Equal(e.Entered) || !head.Rollout.Since.Equal(e.Entered) {
		t.Errorf("made at %s, the rollout since %s, want %s", head.When, head.Rollout.Since, e.Entered)
	}
	for i, change := range []func(*Entry){func(e *Entry) { e.Entered = e.When.Add(-time.Second) }, func(e *Entry) { e.Entered = e.Expires.Add(time.Second) }} {
		r := guard(t)
		fresh := r.story(t, "stable")
		early := e
		early.Sequence, early.Previous = fresh.last()+1, fresh.head
		early = resign(t, early, r.ann, r.bob)
		change(&early)
		if _, err := r.Enter(t.Context(), fresh, early); !errors.Is(err, ErrUnsigned) {
			t.Errorf("%d: accepted: %v", i, err)
		}
	}
}

// TestStands: a log that was read stands until its newest entry is gone or another.
func TestStands(t *testing.T) {
	g := guard(t)
	if err := g.Stands(t.Context(), &Log{Channel: "stable"}); err != nil {
		t.Errorf("an empty log: %v", err)
	}
	log := g.story(t, "stable")
	if err := g.Stands(t.Context(), log); err != nil {
		t.Error(err)
	}
	key := journal.Key("stable", log.last())
	if err := g.Store.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if err := g.Stands(t.Context(), log); !errors.Is(err, ErrLog) {
		t.Errorf("it was shortened: %v", err)
	}
	if err := g.journal("stable").Replace(t.Context(), key, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if err := g.Stands(t.Context(), log); !errors.Is(err, ErrLog) {
		t.Errorf("it was rewritten: %v", err)
	}
}

// TestNextOfACopy: an entry that was read, copied and changed is written as it was changed.
func TestNextOfACopy(t *testing.T) {
	g := guard(t)
	log := g.story(t, "stable")
	e := entry(Publish, "1.3.0", "", "")
	e.Expires = time.Now().Add(time.Hour)
	e = signed(t, log, e, g.ann, g.bob)
	e.Entered = e.When.Add(time.Minute)
	log, err := g.Enter(t.Context(), log, e)
	if err != nil {
		t.Fatal(err)
	}
	again := *log.Head()
	again.Why = "again"
	again.Entered = time.Time{}
	log = g.enter(t, log, again, g.bob, g.cem)
	read, err := g.Load(t.Context(), "stable")
	if err != nil || read.Head().Why != "again" || read.Head().Sequence != log.last() {
		t.Errorf("read %+v, %v", read, err)
	}
}
