package channels

import (
	"errors"
	"testing"
	"time"

	"tsmon/signing"
	"tsmon/signing/signingtest"
)

// TestVoucher: what somebody without a quorum puts behind the newest entry that has one is
// refused, however it is signed; what a quorum has signed another entry behind is vouched
// for, and found by a thorough reader.
func TestVoucher(t *testing.T) {
	move := func(log *Log, version string) Entry {
		e := entry(Publish, version, "", "")
		e.When = log.Head().When.Add(time.Minute)
		return e
	}
	appoint := func(log *Log, o *Operators) Entry {
		e := move(log, log.Head().Version)
		e.Action, e.Release, e.Rollout, e.Operators = Appoint, log.Head().Release, log.Head().Rollout, o
		return e
	}
	type write func(e Entry, by ...signing.SSHSigner)
	for name, c := range map[string]struct {
		forge   func(g *guarded, log func() *Log, write write)
		vouched bool // a later quorum has signed behind it
	}{
		"unsigned, at the end": {forge: func(_ *guarded, log func() *Log, write write) { write(move(log(), "9.0.0")) }},
		"by one of two, at the end": {forge: func(g *guarded, log func() *Log, write write) {
			write(move(log(), "9.0.0"), g.ann)
			write(move(log(), "9.1.0"), g.ann)
		}},
		"by two who were removed": {forge: func(g *guarded, log func() *Log, write write) {
			write(appoint(log(), &Operators{Keys: map[string]string{"root": g.root.Public().String()}, Approvals: 1, Rollbacks: 1}), g.ann, g.bob, g.root)
			write(move(log(), "9.0.0"), g.ann, g.bob)
			write(move(log(), "9.1.0"), g.ann, g.bob)
		}},
		"by two who were removed and appoint themselves": {forge: func(g *guarded, log func() *Log, write write) {
			write(appoint(log(), &Operators{Keys: map[string]string{"root": g.root.Public().String()}, Approvals: 1, Rollbacks: 1}), g.ann, g.bob, g.root)
			write(appoint(log(), g.operators), g.ann, g.bob)
			write(move(log(), "9.0.0"), g.ann, g.bob)
			write(move(log(), "9.1.0"), g.ann, g.bob)
		}},
		"by a server": {forge: func(g *guarded, log func() *Log, write write) {
			write(move(log(), "9.0.0"), g.server)
			write(move(log(), "9.1.0"), g.server, g.server)
		}},
		"another's signature": {forge: func(g *guarded, log func() *Log, write write) {
			write(move(log(), "9.0.0"), signingtest.Operator(t), signingtest.Operator(t))
		}},
		"unsigned, and then by two": {vouched: true, forge: func(g *guarded, log func() *Log, write write) {
			write(move(log(), "9.0.0"))
			write(move(log(), "9.1.0"), g.ann, g.cem)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t)
			known := g.story(t, "stable")
			last := known
			write := func(e Entry, by ...signing.SSHSigner) {
				t.Helper()
				e = signed(t, last, e, by...)
				head, err := g.journal("stable").create(t.Context(), e) // as the thief does
				if err != nil {
					t.Fatal(err)
				}
				longer := *last
				longer.Entries, longer.head = append(longer.Entries[:len(longer.Entries):len(longer.Entries)], e), head
				last = &longer
			}
			c.forge(g, func() *Log { return last }, write)
			for _, thorough := range []bool{false, true} {
				g.Thorough = thorough
				for what, log := range map[string]*Log{"whole": {Channel: "stable"}, "the rest": known} {
					got, err := g.Extend(t.Context(), log)
					if c.vouched && !thorough {
						if err != nil || got.last() != last.last() {
							t.Errorf("%s: %v", what, err)
						}
						continue
					}
					if !errors.Is(err, ErrUnsigned) || !errors.Is(err, ErrLog) {
						t.Errorf("%s, thorough %v: it is read: %v", what, thorough, err)
					}
				}
			}
		})
	}
}

// TestSignersOnDemand: the signers of entries that another one vouches for are known once
// somebody asks.
func TestSignersOnDemand(t *testing.T) {
	g := guard(t)
	g.story(t, "stable")
	log, err := g.Load(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	for i := range log.Entries {
		e := &log.Entries[i]
		if i == 1 && e.verified {
			t.Error("entry 2 was verified, which entry 3 vouches for")
		}
		if len(e.Signers()) != 2 {
			t.Errorf("entry %d has %d signers", e.Sequence, len(e.Signers()))
		}
	}
	follow := entry(Follow, "1.1.0", "stable", "")
	if err := log.Witness(&follow); err != nil || follow.Leader == "" {
		t.Errorf("%q, %v", follow.Leader, err)
	}
}
