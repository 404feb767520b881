package channels

import (
	"errors"
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
	if err := fresh.Witness(&follow); err != nil {
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

// TestFollowsWhomOperatorsSay: what operators signed for one channel moves no other channel
// of theirs but one that they have follow it.
func TestFollowsWhomOperatorsSay(t *testing.T) {
	g := guard(t)
	stable := g.story(t, "stable")
	first := entry(Publish, "1.9.0", "", "")
	first.Operators = g.operators
	beta := g.enter(t, &Log{Channel: "beta"}, first, g.ann, g.bob)
	e := entry(Follow, "1.9.0", "beta", "")
	if err := beta.Witness(&e); err != nil {
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
