package release

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/store/object/objecttest"
)

// planned is a plan as JSON, without the fields that differ between a dry run and a move.
func planned(t *testing.T, plan *Plan) string {
	t.Helper()
	for _, each := range append([]*Plan{plan}, plan.Followers...) {
		each.DryRun = false
	}
	data, err := json.MarshalIndent(plan, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestDryRunIsThePlan: a command does what its dry run printed.
func TestDryRunIsThePlan(t *testing.T) {
	d := newDesk(t)
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	d.Now = func() time.Time { return at }
	d.publish(t, d.options(t, "1.0.0"))
	publish, part := d.options(t, "1.1.0"), d.options(t, "1.2.0")
	part.Rollout = steps(5, 100)
	for _, move := range []func(dry bool) (*Plan, error){
		func(dry bool) (*Plan, error) { publish.DryRun = dry; return d.Publish(t.Context(), publish) },
		func(dry bool) (*Plan, error) { part.DryRun = dry; return d.Publish(t.Context(), part) },
		func(dry bool) (*Plan, error) {
			return d.Rollout(t.Context(), Options{Channel: "stable", Rollout: steps(50), DryRun: dry})
		},
		func(dry bool) (*Plan, error) {
			return d.Pause(t.Context(), Options{Channel: "stable", Why: "crashes", DryRun: dry})
		},
		func(dry bool) (*Plan, error) { return d.Resume(t.Context(), Options{Channel: "stable", DryRun: dry}) },
		func(dry bool) (*Plan, error) {
			return d.Rollback(t.Context(), RollbackOptions{Options: Options{Channel: "stable", Why: "crashes", DryRun: dry}})
		},
		func(dry bool) (*Plan, error) {
			return d.Promote(t.Context(), PromoteOptions{Options: Options{Channel: "stable", DryRun: dry}, From: "beta"})
		},
	} {
		before := objecttest.Tree(t, d.Store)
		dry, err := move(true)
		if err != nil {
			t.Fatal(err)
		}
		if !dry.DryRun {
			t.Errorf("%s: not marked as a dry run", dry.Action)
		}
		sameTree(t, before, objecttest.Tree(t, d.Store))
		done, err := move(false)
		if err != nil {
			t.Fatal(err)
		}
		if want, got := planned(t, dry), planned(t, done); got != want {
			t.Errorf("planned\n%s\ndone\n%s", want, got)
		}
	}
}

// TestApplyOfAnOldPlan: a plan is applied only if its log has not grown since.
func TestApplyOfAnOldPlan(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	d.publish(t, d.options(t, "1.1.0"))
	old, err := d.Rollback(t.Context(), RollbackOptions{Options: Options{Channel: "stable", Why: "crashes", DryRun: true}})
	if err != nil {
		t.Fatal(err)
	}
	if old.Base.Sequence != 2 || old.Base.Hash == "" || old.Entry.Previous != old.Base.Hash {
		t.Errorf("made for %+v, entry %+v", old.Base, old.Entry)
	}
	d.publish(t, d.options(t, "1.2.0"))
	var conflict *channels.ConflictError
	if plan, err := d.Apply(t.Context(), old); plan != nil || !errors.As(err, &conflict) || conflict.Winner.Version != "1.2.0" {
		t.Errorf("%+v, %v, want a conflict", plan, err)
	}
	d.wantState(t, "stable", "1.2.0", "", 0)
	d.wantState(t, "beta", "1.2.0", "", 0)
}
