package release

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/release/approval"
	"tsmon/release/library"
	"tsmon/release/upkeep"
	"tsmon/signing/signingtest"
	"tsmon/store/object"
)

// approved is a desk whose channel stable needs two operators, with a signer for each.
func approved(t *testing.T) (d *desk, ann, bob approval.Sign) {
	t.Helper()
	d = newDesk(t)
	annKey, ann := signingtest.Sign(t, channels.Namespace)
	bobKey, bob := signingtest.Sign(t, channels.Namespace)
	d.Policies["stable"] = Policy{Operators: &channels.Operators{Keys: map[string]string{"ann": annKey, "bob": bobKey}, Approvals: 2, Rollbacks: 1}}
	d.Sign = ann
	return d, ann, bob
}

// TestApprovals: a release is published once two operators have signed it, and not before.
func TestApprovals(t *testing.T) {
	d, ann, bob := approved(t)
	o := d.options(t, "1.0.0")
	first := d.publish(t, o)
	if first.Changed || first.Waiting == nil || first.Waiting.Has != 1 || first.Waiting.Needs != 2 || !slices.Equal(first.Waiting.Missing, []string{"bob"}) {
		t.Fatalf("changed %v, waiting %+v", first.Changed, first.Waiting)
	}
	if log, err := d.Repository().Load(t.Context(), "stable"); err != nil || log.Head() != nil {
		t.Fatalf("it moved: %v, %v", log, err)
	}
	// The same job again finds its plan, and does not count twice.
	if again := d.publish(t, o); again.Waiting == nil || again.Waiting.Hash != first.Waiting.Hash || again.Waiting.Has != 1 {
		t.Errorf("again: %+v", again.Waiting)
	}
	if _, err := d.Approve(t.Context(), "stable", first.Waiting.Hash[:32], false); err != nil {
		t.Fatal(err)
	}
	for _, apply := range []bool{false, true} {
		if _, err := d.Approve(t.Context(), "stable", first.Waiting.Hash[:31], apply); !errors.Is(err, approval.ErrShort) {
			t.Errorf("too few digits: %v", err)
		}
	}
	d.Sign = nil
	if _, err := d.Approve(t.Context(), "stable", "", false); !errors.Is(err, approval.ErrNoKey) {
		t.Errorf("nobody approves: %v", err)
	}
	if plan, err := d.Approve(t.Context(), "stable", "", true); err != nil || plan.Waiting == nil || plan.Changed {
		t.Errorf("applied without approval: %+v, %v", plan, err)
	}
	d.Sign = bob
	d.later(time.Hour)
	plan, err := d.Approve(t.Context(), "stable", "", false)
	if err != nil || !plan.Changed || plan.Version != "1.0.0" {
		t.Fatalf("plan %+v, error %v", plan, err)
	}
	log := d.log(t, "stable")
	if n := len(log.Head().Signers()); n != 2 || log.Head().Sequence != 1 || log.Operators() == nil {
		t.Errorf("the entry has %d signers", n)
	}
	if d.log(t, "beta").Head().Version != "1.0.0" {
		t.Error("beta did not follow")
	}
	d.sound(t, "stable")

	// A rollback takes one of them, and what waits meanwhile is out of date.
	d.publish(t, d.options(t, "1.1.0"))
	if _, err := d.Approve(t.Context(), "stable", "", true); err != nil {
		t.Fatal(err)
	}
	d.Sign = ann
	if _, err := d.Approve(t.Context(), "stable", "", false); err != nil {
		t.Fatal(err)
	}
	waits := d.publish(t, d.options(t, "1.2.0"))
	if waits.Waiting == nil {
		t.Fatal("1.2.0 does not wait")
	}
	if plan, err := d.Rollback(t.Context(), RollbackOptions{Options: Options{Channel: "stable", Why: "crashes"}}); err != nil || !plan.Changed {
		t.Fatalf("rollback: %+v, %v", plan, err)
	}
	d.Sign = bob
	if _, err := d.Approve(t.Context(), "stable", waits.Waiting.Hash, false); !errors.Is(err, approval.ErrStale) {
		t.Errorf("an old plan: %v", err)
	}
	d.sound(t, "stable")
}

// TestPlanLife: a plan that waited longer than the policy allows is not applied, even if
// everybody has signed it in the end. A new plan is.
func TestPlanLife(t *testing.T) {
	d, ann, bob := approved(t)
	policy := d.Policies["stable"]
	policy.PlanLife = 2 * time.Hour
	d.Policies["stable"] = policy
	d.Sign = ann
	waits := d.publish(t, d.options(t, "1.0.0")).Waiting
	if got := waits.Expires.Sub(waits.Entry.When); got != 2*time.Hour {
		t.Errorf("it waits for %v", got)
	}
	d.later(3 * time.Hour)
	d.Sign = bob
	if _, err := d.Approve(t.Context(), "stable", waits.Hash, false); !errors.Is(err, approval.ErrStale) {
		t.Errorf("an expired plan: %v", err)
	}
	if _, err := d.Await(t.Context(), &Plan{Channel: "stable", Waiting: waits}); !errors.Is(err, approval.ErrStale) {
		t.Errorf("waiting for an expired plan: %v", err)
	}
	again := d.publish(t, d.options(t, "1.0.0")).Waiting
	if again == nil || again.Hash == waits.Hash {
		t.Fatalf("the command again leaves %+v", again)
	}
	d.Sign = ann
	if plan, err := d.Approve(t.Context(), "stable", again.Hash, false); err != nil || !plan.Changed {
		t.Errorf("plan %+v, error %v", plan, err)
	}
}

// TestPlanLeftBehind: an approval that was interrupted after the move leaves its plan behind.
// Completing it removes the plan, and running the same command again does nothing.
func TestPlanLeftBehind(t *testing.T) {
	d, ann, bob := released(t, "1.0.0")
	d.Sign = ann
	waits := d.publish(t, d.options(t, "1.1.0")).Waiting
	left := map[string]string{}
	for _, end := range []string{".json", ".ann.sig"} {
		data, err := os.ReadFile(filepath.Join(d.root, "plans", "stable", waits.Hash+end))
		if err != nil {
			t.Fatal(err)
		}
		left["plans/stable/"+waits.Hash+end] = string(data)
	}
	d.Sign = bob
	if _, err := d.Approve(t.Context(), "stable", waits.Hash, false); err != nil {
		t.Fatal(err)
	}
	for _, hash := range []string{"", waits.Hash} {
		for key, data := range left {
			d.leave(t, key, data)
		}
		for range 2 {
			if plan, err := d.Approve(t.Context(), "stable", hash, true); err != nil || plan.Changed {
				t.Errorf("%q again: %+v, %v", hash, plan, err)
			}
		}
		for info, err := range d.Store.List(t.Context(), "plans/", "") {
			t.Errorf("%s is left, %v", info.Key, err)
		}
	}
}

// TestPlansOfOthers: other objects in the folder of plans are never applied.
func TestPlansOfOthers(t *testing.T) {
	d, _, bob := approved(t)
	waiting := d.publish(t, d.options(t, "1.0.0")).Waiting
	thiefKey, thief := signingtest.Sign(t, channels.Namespace)
	payload, err := waiting.Entry.Payload()
	if err != nil {
		t.Fatal(err)
	}
	armored, err := thief(t.Context(), []string{thiefKey}, payload)
	if err != nil {
		t.Fatal(err)
	}
	for key, data := range map[string]string{
		"plans/stable/" + waiting.Hash + ".bob.sig":                         armored,
		"plans/stable/" + waiting.Hash + ".root.sig":                        armored,
		"plans/stable/" + waiting.Hash + ".me.sig":                          armored,
		"plans/stable/" + strings.Repeat("0", 64) + ".json":                 string(payload),
		"plans/stable/" + strings.Repeat("g", 64) + ".json":                 "{}",
		"plans/stable/" + library.SumOf([]byte("{}")) + ".json":             "{}",
		"plans/stable/" + library.SumOf([]byte("not JSON")) + ".json":       "not JSON",
		"plans/stable/" + library.SumOf([]byte(`{"sequence":1}`)) + ".json": `{"sequence":1}`,
	} {
		if _, err := d.Store.Create(t.Context(), key, strings.NewReader(data), int64(len(data)), library.RecordAttributes); err != nil {
			t.Fatal(err)
		}
	}
	all, _, err := d.Plans().List(t.Context(), "stable")
	if err != nil || len(all) != 1 || all[0].Has != 1 || !slices.Equal(all[0].Signed, []string{"ann"}) {
		t.Fatalf("plans %+v, error %v", all, err)
	}
	if plan, err := d.Approve(t.Context(), "stable", "", true); err != nil || plan.Changed {
		t.Errorf("made: %+v, %v", plan, err)
	}
	// What lies in the place of bob's signature does not keep him from signing.
	d.Sign = bob
	if plan, err := d.Approve(t.Context(), "stable", waiting.Hash, false); err != nil || !plan.Changed {
		t.Errorf("bob: %+v, %v", plan, err)
	}
}

// TestHostilePlans: a hostile entry among the plans never stops others from being listed, shown
// or applied.
func TestHostilePlans(t *testing.T) {
	d, ann, _ := released(t, "1.0.0")
	d.Sign = ann
	model := d.part(t, "1.1.0", steps(5, 100)).Waiting
	for name, change := range map[string]func(e *channels.Entry){
		"no version":      func(e *channels.Entry) { e.Version, e.Release.Version = "", "" },
		"another version": func(e *channels.Entry) { e.Version = "9.9.9" },
		"no platforms":    func(e *channels.Entry) { e.Release.Platforms = nil },
		"no rollout":      func(e *channels.Entry) { e.Rollout = &channels.Rollout{} },
		"no steps":        func(e *channels.Entry) { r := *e.Rollout; r.Steps = nil; e.Rollout = &r },
		"other percent":   func(e *channels.Entry) { r := *e.Rollout; r.Percent = -7; e.Rollout = &r },
		"no operators":    func(e *channels.Entry) { e.Operators = &channels.Operators{} },
		"wrong operators": func(e *channels.Entry) {
			e.Operators = &channels.Operators{Keys: map[string]string{"../x": "no key", "ann": ""}, Approvals: -1}
		},
		"no action":         func(e *channels.Entry) { e.Action = "" },
		"a step":            func(e *channels.Entry) { e.Action = channels.Advance },
		"follows":           func(e *channels.Entry) { e.Action, e.Leader, e.From = channels.Follow, "{", "beta" },
		"all is lost":       func(e *channels.Entry) { e.Action, e.Lost = channels.Repair, []channels.Lost{{From: 0, To: 1<<64 - 1}} },
		"lost backwards":    func(e *channels.Entry) { e.Action, e.Lost = channels.Repair, []channels.Lost{{From: 9, To: 2}} },
		"no time":           func(e *channels.Entry) { e.When, e.Expires = time.Time{}, time.Time{} },
		"number 0":          func(e *channels.Entry) { e.Sequence = 0 },
		"the last number":   func(e *channels.Entry) { e.Sequence = 1<<64 - 1 },
		"a path outside":    func(e *channels.Entry) { e.Release.Record = "../../etc/passwd" },
		"gives up anything": func(e *channels.Entry) { e.Action, e.Accepted = channels.Accept, &channels.Position{} },
	} {
		t.Run(name, func(t *testing.T) {
			e := *model.Entry
			e.Signatures = nil
			change(&e)
			payload, err := e.Payload()
			if err != nil {
				t.Fatal(err)
			}
			hash := library.SumOf(payload)
			d.leave(t, "plans/stable/"+hash+".json", string(payload))
			if _, _, err := d.Plans().List(t.Context(), "stable"); err != nil {
				t.Error(err)
			}
			shown, err := d.ShowPlan(t.Context(), "stable", hash)
			if err == nil && shown.Hash != hash || err != nil && !errors.Is(err, approval.ErrNoPlan) {
				t.Errorf("shown: %+v, %v", shown, err)
			}
			if plan, err := d.Approve(t.Context(), "stable", hash, true); err == nil && plan.Changed {
				t.Errorf("made: %+v", plan)
			}
			if err := d.Store.Delete(t.Context(), "plans/stable/"+hash+".json"); err != nil {
				t.Fatal(err)
			}
			d.wantState(t, "stable", "1.0.0", "", 0)
		})
	}
}

// TestSignatureInTheWay: an operator's own signature replaces anything else under its name.
func TestSignatureInTheWay(t *testing.T) {
	for name, junk := range map[string]string{"empty": "", "text": "no signature", "too large": strings.Repeat("x", 2*4096)} {
		t.Run(name, func(t *testing.T) {
			d, _, bob := approved(t)
			waiting := d.publish(t, d.options(t, "1.0.0")).Waiting
			d.leave(t, "plans/stable/"+waiting.Hash+".bob.sig", junk)
			d.Sign = bob
			if plan, err := d.Approve(t.Context(), "stable", waiting.Hash, false); err != nil || !plan.Changed {
				t.Errorf("bob: %+v, %v", plan, err)
			}
			d.sound(t, "stable")
		})
	}
}

// TestAppoint: an entry puts operators into force, and only those in force can change them.
func TestAppoint(t *testing.T) {
	d, _, bob := approved(t)
	operators := d.Policies["stable"].Operators
	d.Policies["stable"] = Policy{}
	d.publish(t, d.options(t, "1.0.0"))
	d.Policies["stable"] = Policy{Operators: operators}
	if _, err := d.Publish(t.Context(), d.options(t, "1.1.0")); !errors.Is(err, channels.ErrUnsigned) {
		t.Errorf("a publish before they are in force: %v", err)
	}
	appoint := func() *Plan {
		t.Helper()
		plan, err := d.Appoint(t.Context(), Options{Channel: "stable", Why: "we are two"})
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	if plan := appoint(); plan.Waiting == nil || plan.Changed {
		t.Fatalf("plan %+v", plan)
	}
	d.Sign = bob
	if plan := appoint(); plan.Waiting != nil || !plan.Changed {
		t.Fatalf("plan %+v", plan)
	}
	if plan := appoint(); plan.Changed || plan.Waiting != nil {
		t.Errorf("again: %+v", plan)
	}
	d.sound(t, "stable")
	if plan := d.publish(t, d.options(t, "1.1.0")); plan.Waiting == nil {
		t.Error("bob alone moves stable")
	}
}

// TestSurveyOfForgedLog: the list leaves out entries that the operators have not signed.
func TestSurveyOfForgedLog(t *testing.T) {
	d, _, bob := approved(t)
	d.publish(t, d.options(t, "1.0.0"))
	d.Sign = bob
	if _, err := d.Approve(t.Context(), "stable", "", false); err != nil {
		t.Fatal(err)
	}
	if found, err := d.Library().Survey(t.Context()); err != nil || len(found) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	thief := channels.Repository{Store: d.Store}
	log := &channels.Log{Channel: "stable"}
	if err := d.Store.Delete(t.Context(), "log/stable/0000000001.json"); err != nil {
		t.Fatal(err)
	}
	e := channels.Entry{Channel: "stable", Action: channels.Publish, Who: "me", When: d.Now(), Release: d.log(t, "beta").Head().Release}
	if _, err := thief.Append(t.Context(), log, e); err != nil {
		t.Fatal(err)
	}
	if found, err := d.Library().Survey(t.Context()); !errors.Is(err, channels.ErrUnsigned) {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestPlanOfAnyFleet: a plan does not depend on the known clients. It keeps its hash and its
// signatures while clients come and go.
func TestPlanOfAnyFleet(t *testing.T) {
	d, ann, bob := approved(t)
	d.publish(t, d.options(t, "1.0.0"))
	d.Sign = bob
	if _, err := d.Approve(t.Context(), "stable", "", false); err != nil {
		t.Fatal(err)
	}
	d.Sign = ann
	o := d.options(t, "1.1.0")
	var first *approval.Waiting
	for n := 1; n <= 3; n++ {
		d.Clients = func(context.Context, string) (map[string]int, error) { return map[string]int{"1.0.0": 10 * n}, nil }
		d.Types = func(context.Context, string) (map[string]int, error) {
			return map[string]int{"linux-x86_64-appimage": 7 * n}, nil
		}
		waits := d.publish(t, o).Waiting
		if waits == nil {
			t.Fatal("it does not wait")
		}
		if first == nil {
			first = waits
		}
		if waits.Hash != first.Hash || waits.Has != 1 {
			t.Errorf("with %d clients: plan %s has %d signatures, want %s", 10*n, waits.Hash, waits.Has, first.Hash)
		}
	}
}

// TestForgedPointer: a manifest that shows an entry which the signed log lacks proves nothing
// against the log. It doesn't stop a rollback, and repair renders it again without an entry.
func TestForgedPointer(t *testing.T) {
	for name, c := range map[string]struct {
		sequence string
		by       func(t *testing.T, d *desk)
	}{
		"rollback, one ahead": {`"sequence": 3`, goBack},
		"rollback, far ahead": {`"sequence": 900`, goBack},
		"repair, by nobody":   {`"sequence": 3`, repairAlone},
		"repair, far ahead":   {`"sequence": 900`, repairAlone},
	} {
		t.Run(name, func(t *testing.T) {
			d, ann, bob := approved(t)
			for _, version := range []string{"1.0.0", "1.1.0"} {
				d.Sign = ann
				d.publish(t, d.options(t, version))
				d.Sign = bob
				if _, err := d.Approve(t.Context(), "stable", "", false); err != nil {
					t.Fatal(err)
				}
			}
			const key = "stable/latest.json"
			data, info, err := object.ReadAll(t.Context(), d.Store, key, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			forged := strings.Replace(string(data), `"sequence": 2`, c.sequence, 1)
			if _, err := d.Store.Swap(t.Context(), key, info.ETag, []byte(forged), object.Attributes{}); err != nil || forged == string(data) {
				t.Fatal(err)
			}
			if _, err := d.Publish(t.Context(), d.options(t, "1.2.0")); !errors.Is(err, channels.ErrLog) {
				t.Errorf("a publish: %v", err)
			}
			c.by(t, d)
			d.sound(t, "stable")
			if waits := d.publish(t, d.options(t, "1.2.0")); waits.Waiting == nil {
				t.Errorf("a publish afterwards: %+v", waits)
			}
		})
	}
}

func goBack(t *testing.T, d *desk) {
	t.Helper()
	plan, err := d.Rollback(t.Context(), RollbackOptions{Options: Options{Channel: "stable", Why: "crashes"}})
	if err != nil || !plan.Changed || plan.Version != "1.0.0" || len(plan.Warnings) == 0 {
		t.Fatalf("rollback: %+v, %v", plan, err)
	}
}

func repairAlone(t *testing.T, d *desk) {
	t.Helper()
	sign := d.Sign
	d.Sign = nil
	for _, want := range []bool{true, false} {
		report, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"})
		if err != nil || report.Findings.Err() != nil || report.Changed != want || report.Sequence != 0 || len(report.Warnings) > 0 != want {
			t.Fatalf("repair: %+v, %v", report, err)
		}
	}
	d.Sign = sign
	if head := d.log(t, "stable").Head(); head.Sequence != 2 {
		t.Errorf("the log ends with entry %d", head.Sequence)
	}
}

// TestSignsAsAsked: a publish that differs from the waiting plan is refused and signs nothing.
func TestSignsAsAsked(t *testing.T) {
	d, ann, bob := approved(t)
	o := d.options(t, "1.0.0")
	hash := d.publish(t, o).Waiting.Hash
	d.Sign = bob
	for name, change := range map[string]func(*PublishOptions){
		"critical":  func(o *PublishOptions) { o.Extra.Critical = true },
		"minimum":   func(o *PublishOptions) { o.Extra.MinimumVersion = "1.0.0" },
		"watershed": func(o *PublishOptions) { o.Extra.Watershed = true },
		"notes":     func(o *PublishOptions) { o.Notes = "other notes" },
		"dry run":   func(o *PublishOptions) { o.Extra.Critical, o.DryRun = true, true },
	} {
		other := o
		change(&other)
		if _, err := d.Publish(t.Context(), other); !errors.Is(err, ErrOtherwise) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if w, err := d.Plans().Find(t.Context(), "stable", hash); err != nil || !slices.Equal(w.Signed, []string{"ann"}) {
		t.Fatalf("plan %+v, %v", w, err)
	}
	// follows: leave out --watershed, --minimum-version, --critical and the notes
	if plan := d.publish(t, o); !plan.Changed || plan.Waiting != nil {
		t.Errorf("as it is: %+v", plan)
	}
	higher := d.options(t, "1.1.0")
	higher.Extra.Critical = true
	d.publish(t, higher)
	d.Sign = ann
	if plan := d.publish(t, higher); !plan.Changed || !plan.Entry.Release.Critical {
		t.Errorf("a higher version: %+v", plan)
	}
}

// TestApproveFed: a plan can't be signed for a channel that is moved elsewhere, or is marked as
// if it were. The refusal says how to move the channel here again.
func TestApproveFed(t *testing.T) {
	d, ann, bob := approved(t)
	first := d.publish(t, d.options(t, "1.0.0"))
	d.Sign = bob
	if _, err := d.Approve(t.Context(), "stable", first.Waiting.Hash, false); err != nil {
		t.Fatal(err)
	}
	waiting := d.publish(t, d.options(t, "1.1.0")).Waiting
	mark := "log/stable/0000000001-0000000001.part"
	if _, err := d.Store.Create(t.Context(), mark, strings.NewReader(""), 0, library.RecordAttributes); err != nil {
		t.Fatal(err)
	}
	d.Sign = ann
	refusal := (*Refusal)(nil)
	if _, err := d.Approve(t.Context(), "stable", waiting.Hash, false); !errors.Is(err, channels.ErrFed) || !errors.As(err, &refusal) || !strings.Contains(refusal.Mend, "--own") {
		t.Errorf("error %v", err)
	}
	if err := d.Store.Delete(t.Context(), mark); err != nil {
		t.Fatal(err)
	}
	if w, err := d.Plans().Find(t.Context(), "stable", waiting.Hash); err != nil || !slices.Equal(w.Signed, []string{"bob"}) {
		t.Errorf("plan %+v, %v", w, err)
	}
}
