package release

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tsmon/channels"
	"tsmon/release/approval"
	"tsmon/release/upkeep"
	"tsmon/signing/signingtest"
	"tsmon/store/object"
)

// released is a desk whose two operators have published some versions to stable.
func released(t *testing.T, versions ...string) (d *desk, ann, bob approval.Sign) {
	t.Helper()
	d, ann, bob = approved(t)
	for _, version := range versions {
		d.Sign = ann
		d.publish(t, d.options(t, version))
		d.Sign = bob
		if _, err := d.Approve(t.Context(), "stable", "", false); err != nil {
			t.Fatal(err)
		}
	}
	return d, ann, bob
}

// loses removes an object.
func (d *desk) loses(t *testing.T, key string) {
	t.Helper()
	if _, err := d.Store.Stat(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if err := d.Store.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

// spoils writes other bytes over an object.
func (d *desk) spoils(t *testing.T, key string) {
	t.Helper()
	info, err := d.Store.Stat(t.Context(), key)
	if err == nil {
		_, err = d.Store.Swap(t.Context(), key, info.ETag, []byte("not what was published"), object.Attributes{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRepairByTwo: if somebody with the bucket's credentials destroys objects, two operators
// declare them lost, as for any other move. One alone can't.
func TestRepairByTwo(t *testing.T) {
	const bundle = "releases/1.0.0/App_1.0.0_amd64.AppImage.tar.gz"
	for name, damage := range map[string]func(t *testing.T, d *desk){
		"an entry in the middle":       func(t *testing.T, d *desk) { d.loses(t, "log/stable/0000000002.json") },
		"the entry that appoints them": func(t *testing.T, d *desk) { d.loses(t, "log/stable/0000000001.json") },
		"two entries": func(t *testing.T, d *desk) {
			d.loses(t, "log/stable/0000000002.json")
			d.spoils(t, "log/stable/0000000003.json")
		},
		"the last entry": func(t *testing.T, d *desk) { d.spoils(t, "log/stable/0000000004.json") },
		"a bundle":       func(t *testing.T, d *desk) { d.loses(t, bundle) },
		"other bytes":    func(t *testing.T, d *desk) { d.spoils(t, bundle) },
		"everything": func(t *testing.T, d *desk) {
			d.spoils(t, bundle)
			d.loses(t, "log/stable/0000000002.json")
			d.spoils(t, "log/stable/0000000004.json")
			d.spoils(t, "stable/latest.json")
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, ann, bob := released(t, "1.0.0", "1.1.0", "1.2.0", "1.3.0")
			_, thief := signingtest.Sign(t, channels.Namespace)
			damage(t, d)
			repair := func(sign approval.Sign) (*upkeep.RepairReport, error) {
				d.Sign = sign
				return d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"})
			}
			first, err := repair(nil)
			if err != nil || first.Waiting == nil || first.Waiting.Needs != 2 || first.Waiting.Has != 0 || first.Sequence != 0 {
				t.Fatalf("without a key: %+v, %v", first, err)
			}
			hash := first.Waiting.Hash
			if report, err := repair(thief); err != nil || report.Waiting == nil || report.Waiting.Has != 0 {
				t.Errorf("the thief: %+v, %v", report, err)
			}
			for range 2 { // he counts once
				report, err := repair(ann)
				if err != nil || report.Waiting == nil || report.Waiting.Hash != hash || !slices.Equal(report.Waiting.Missing, []string{"bob"}) {
					t.Fatalf("ann: %+v, %v", report, err)
				}
			}
			if plan, err := d.Approve(t.Context(), "stable", hash, true); err != nil || plan.Waiting == nil {
				t.Errorf("made with one signature: %+v, %v", plan, err)
			}
			if shown, err := d.ShowPlan(t.Context(), "stable", ""); err != nil || shown.Stale != "" || len(shown.Entry.Lost)+len(shown.Entry.Pruned) == 0 {
				t.Errorf("shown: %+v, %v", shown, err)
			}
			d.Sign = bob
			plan, err := d.Approve(t.Context(), "stable", hash[:32], false)
			if err != nil || !plan.Changed || plan.Action != channels.Repair {
				t.Fatalf("bob: %+v, %v", plan, err)
			}
			rest, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable", Rest: true})
			if err != nil || rest.Findings.Err() != nil {
				t.Fatalf("the rest: %+v, %v", rest, err)
			}
			d.sound(t, "stable")
			if operators := d.log(t, "stable").Operators(); !operators.Equal(d.Policies["stable"].Operators) {
				t.Errorf("in force: %+v", operators)
			}
			if n := len(d.log(t, "stable").Head().Signers()); n != 2 {
				t.Errorf("%d have signed", n)
			}
			if again, err := repair(ann); err != nil || again.Changed || again.Waiting != nil {
				t.Errorf("again: %+v, %v", again, err)
			}
			if waits := d.publish(t, d.options(t, "1.4.0")); waits.Waiting == nil {
				t.Error("a publish afterwards does not wait")
			}
		})
	}
}

// TestMovesOfABrokenLog: while entries are missing, only a plan that declares them lost can be
// applied.
func TestMovesOfABrokenLog(t *testing.T) {
	d, ann, bob := released(t, "1.0.0", "1.1.0", "1.2.0")
	d.Sign = ann
	waits := d.publish(t, d.options(t, "1.3.0")).Waiting
	d.loses(t, "log/stable/0000000002.json")
	d.Sign = bob
	if _, err := d.Approve(t.Context(), "stable", waits.Hash, false); err == nil {
		t.Error("1.3.0 is out behind a broken log")
	}
	if _, err := d.Store.Stat(t.Context(), "log/stable/0000000004.json"); err == nil {
		t.Error("an entry follows a broken log")
	}
	report, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"})
	if err != nil || report.Waiting == nil {
		t.Fatalf("%+v, %v", report, err)
	}
	// A lost entry that is there again is not said to be lost.
	put, _, err := d.Plans().List(t.Context(), "stable")
	if err != nil || len(put) != 2 {
		t.Fatalf("%d plans, %v", len(put), err)
	}
	for _, w := range put {
		if repairs := w.Entry.Action == channels.Repair; repairs != (w.Stale == "") {
			t.Errorf("%s: %q", w.Entry.Action, w.Stale)
		}
	}
}

// TestRepairTurnedUp: a plan that declares an entry lost is not applied once its bytes are back.
func TestRepairTurnedUp(t *testing.T) {
	d, ann, bob := released(t, "1.0.0", "1.1.0", "1.2.0")
	const key = "log/stable/0000000002.json"
	data, _, err := object.ReadAll(t.Context(), d.Store, key, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	d.loses(t, key)
	d.Sign = ann
	report, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"})
	if err != nil || report.Waiting == nil {
		t.Fatalf("%+v, %v", report, err)
	}
	if _, err := d.Store.Create(t.Context(), key, strings.NewReader(string(data)), int64(len(data)), object.Attributes{}); err != nil {
		t.Fatal(err)
	}
	d.Sign = bob
	if plan, err := d.Approve(t.Context(), "stable", report.Waiting.Hash, false); !errors.Is(err, approval.ErrStale) {
		t.Errorf("%+v, %v", plan, err)
	}
	d.sound(t, "stable")
}
