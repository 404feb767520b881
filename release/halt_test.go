package release

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/store/object"
)

// TestPauseOfAWholeRelease pauses a release that everybody is offered.
func TestPauseOfAWholeRelease(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	if _, err := d.Pause(t.Context(), Options{Channel: "stable", Why: "crashes"}); !errors.Is(err, ErrNoTarget) {
		t.Errorf("the first release: %v", err)
	}
	d.publish(t, d.options(t, "1.1.0"))
	report, err := d.Pause(t.Context(), Options{Channel: "stable", Why: "crashes"})
	if err != nil || !report.Changed || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "beta shows 1.1.0 too") {
		t.Fatalf("%+v, %v", report, err)
	}
	d.wantState(t, "stable", "1.0.0", "1.1.0", 0)
	d.wantState(t, "beta", "1.1.0", "", 0)
	if report, err := d.Resume(t.Context(), Options{Channel: "stable"}); err != nil || !report.Changed || report.Rollout != nil {
		t.Fatalf("%+v, %v", report, err)
	}
	d.wantState(t, "stable", "1.1.0", "", 0)
	if _, err := d.Resume(t.Context(), Options{Channel: "stable"}); !errors.Is(err, channels.ErrRollout) {
		t.Errorf("with nothing held back: %v", err)
	}
}

// TestPauseOfAFollower: moves of the leader don't undo the pause of a follower.
func TestPauseOfAFollower(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	whole := d.options(t, "1.1.0")
	d.publish(t, whole)
	if _, err := d.Pause(t.Context(), Options{Channel: "beta", Why: "crashes"}); err != nil {
		t.Fatal(err)
	}
	d.publish(t, whole) // an old job of stable
	d.wantState(t, "beta", "1.0.0", "1.1.0", 0)
	if _, err := d.Promote(t.Context(), PromoteOptions{Options: Options{Channel: "stable"}, From: "beta", Version: "1.1.0"}); !errors.Is(err, channels.ErrRollout) {
		t.Errorf("what beta holds back was promoted: %v", err)
	}

	// A hotfix of stable reaches beta beneath what it holds back.
	if _, err := d.Resume(t.Context(), Options{Channel: "beta"}); err != nil {
		t.Fatal(err)
	}
	next := d.options(t, "1.2.0-beta.1")
	next.Channel = "beta"
	d.publish(t, next)
	if _, err := d.Pause(t.Context(), Options{Channel: "beta", Why: "crashes"}); err != nil {
		t.Fatal(err)
	}
	d.publish(t, d.options(t, "1.1.1"))
	d.wantState(t, "beta", "1.1.1", "1.2.0-beta.1", 0)
	if report := d.publish(t, next); report.Changed {
		t.Error("an old job let the paused release go on")
	}
}

// TestHalt: a halt pauses a rollout once, and only if the rollout has not changed since it was
// judged.
func TestHalt(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	judged := d.part(t, "1.1.0", steps(5, 100)).Sequence
	if _, err := d.Rollout(t.Context(), Options{Channel: "stable", Rollout: steps(10)}); err != nil {
		t.Fatal(err)
	}
	halt := func(sequence uint64) *Plan {
		t.Helper()
		report, err := d.Halt(t.Context(), Options{Channel: "stable", Why: "60 of 60 failed"}, sequence)
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if report := halt(judged); report.Changed || report.Sequence != judged+1 {
		t.Errorf("after somebody moved it: %+v", report)
	}
	d.wantState(t, "stable", "1.0.0", "1.1.0", 10)
	if report := halt(judged + 1); !report.Changed || report.Action != channels.Pause || report.Sequence != judged+2 {
		t.Errorf("%+v", report)
	}
	d.wantState(t, "stable", "1.0.0", "1.1.0", 0)
	for _, sequence := range []uint64{judged + 1, judged + 2} {
		if report := halt(sequence); report.Changed {
			t.Errorf("again: %+v", report)
		}
	}
	if _, err := d.Resume(t.Context(), Options{Channel: "stable"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Rollout(t.Context(), Options{Channel: "stable", Rollout: steps(100)}); err != nil {
		t.Fatal(err)
	}
	if report := halt(judged + 4); report.Changed {
		t.Errorf("a release that everybody gets: %+v", report)
	}
	d.wantState(t, "stable", "1.1.0", "", 0)
}

// TestHaltRace: if several servers halt a rollout at once, one of them enters the pause.
func TestHaltRace(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	judged := d.part(t, "1.1.0", steps(5, 100)).Sequence
	const servers = 6
	reports := make(chan *Plan, servers)
	for i := range servers {
		go func() {
			server := *d.Publisher
			server.Who = fmt.Sprint("server ", i)
			report, err := server.Halt(t.Context(), Options{Channel: "stable", Why: "60 of 60 failed"}, judged)
			if err != nil {
				t.Error(err)
				report = &Plan{}
			}
			reports <- report
		}()
	}
	changed := 0
	for range servers {
		if report := <-reports; report.Changed {
			changed++
		}
	}
	log, err := d.Repository().Load(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	if head := log.Head(); head.Sequence != judged+1 || head.Action != channels.Pause || changed != 1 {
		t.Errorf("%d servers paused it, the log ends with entry %d, %s", changed, head.Sequence, head.Action)
	}
}

// TestHaltByAWrongClock: a server with a wrong clock still halts a rollout, because that is
// safe, but makes no other move. The entry has the store's time.
func TestHaltByAWrongClock(t *testing.T) {
	for _, wrong := range []time.Duration{-12 * time.Hour, -6 * time.Minute, 6 * time.Minute, 12 * time.Hour, 365 * 24 * time.Hour} {
		d := newDesk(t)
		d.publish(t, d.options(t, "1.0.0"))
		judged := d.part(t, "1.1.0", steps(5, 100)).Sequence
		server := *d.Publisher
		server.Now = func() time.Time { return time.Now().Add(wrong) }
		if _, err := server.Pause(t.Context(), Options{Channel: "stable", Why: "by hand"}); !errors.Is(err, object.ErrClock) {
			t.Errorf("%v: a pause by hand: %v", wrong, err)
		}
		if _, err := server.Rollout(t.Context(), Options{Channel: "stable", Rollout: steps(100)}); !errors.Is(err, object.ErrClock) {
			t.Errorf("%v: more clients: %v", wrong, err)
		}
		before := time.Now().Add(-time.Second).Truncate(time.Second)
		report, err := server.Halt(t.Context(), Options{Channel: "stable", Why: "60 of 60 failed"}, judged)
		if err != nil || !report.Changed {
			t.Fatalf("%v: %+v, %v", wrong, report, err)
		}
		d.wantState(t, "stable", "1.0.0", "1.1.0", 0)
		e := d.log(t, "stable").Head()
		for _, at := range []time.Time{e.When, e.Rollout.Paused} {
			if at.Before(before) || at.After(time.Now()) {
				t.Errorf("%v: the entry is of %s", wrong, at)
			}
		}
		if report, err := d.Resume(t.Context(), Options{Channel: "stable"}); err != nil || !report.Changed {
			t.Errorf("%v: %+v, %v", wrong, report, err)
		}
	}
}
