package release

import (
	"context"
	"strings"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/release/approval"
	"tsmon/signing/signingtest"
)

// rolled is approved with a release for a fifth of the clients, whose next step is due. The
// argument is the number of operators who must sign a move.
func rolled(t *testing.T, approvals int) (d *desk, ann approval.Sign) {
	t.Helper()
	d, ann, bob := approved(t)
	d.Policies["stable"].Operators.Approvals = approvals
	for i, version := range []string{"1.0.0", "1.1.0"} {
		o := d.options(t, version)
		if d.Sign = ann; i == 1 {
			o.Rollout = steps(20, 50, 100)
		}
		if plan := d.publish(t, o); plan.Waiting != nil {
			d.Sign = bob
			if _, err := d.Approve(t.Context(), "stable", "", false); err != nil {
				t.Fatal(err)
			}
		}
	}
	d.later(7 * time.Hour)
	return d, ann
}

// TestStepUnsigned: a step needs no signature. The log of an unsigned step says only what follows
// from the rollout. Whoever gives a reason is told that it is not kept.
func TestStepUnsigned(t *testing.T) {
	_, stranger := signingtest.Sign(t, channels.Namespace)
	for name, c := range map[string]struct {
		approvals int
		sign      func(t *testing.T) approval.Sign
	}{
		"one of two": {2, func(t *testing.T) approval.Sign {
			return func(context.Context, []string, []byte) (string, error) {
				t.Error("somebody is asked for a signature that does not count")
				return "", nil
			}
		}},
		"nobody":     {1, func(*testing.T) approval.Sign { return nil }},
		"a stranger": {1, func(*testing.T) approval.Sign { return stranger }},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := rolled(t, c.approvals)
			d.Sign, d.Origin = c.sign(t), &channels.Origin{Run: "https://example.com/7"}
			o := Options{Channel: "stable", Why: "a quiet week"}
			dry := o
			dry.DryRun = true
			if plan, err := d.Advance(t.Context(), dry); err != nil || !plan.Changed || plan.Needs != nil {
				t.Errorf("dry run: %+v, %v", plan, err)
			} else if kept := plan.Entry.Why == o.Why; kept != (c.approvals == 1) || kept == unkept(plan) {
				t.Errorf("dry run: because of %q, with %q", plan.Entry.Why, plan.Warnings)
			}
			for _, by := range []struct {
				move func() (*Plan, error)
				why  string
				lost bool
			}{
				{func() (*Plan, error) { return d.Advance(t.Context(), o) }, "step 2 of 3", true},
				{func() (*Plan, error) {
					return d.Rollout(t.Context(), Options{Channel: "stable", Rollout: steps(100)}) // which is due
				}, "step 3 of 3", false},
			} {
				plan, err := by.move()
				if err != nil || !plan.Changed || plan.Waiting != nil || unkept(plan) != by.lost {
					t.Fatalf("%s: %+v, %v", by.why, plan, err)
				}
				head := d.log(t, "stable").Head()
				if head.Who != channels.Stepper || head.Why != by.why || head.Origin != nil || len(head.Signatures) > 0 || plan.Entry.Who != head.Who {
					t.Errorf("the log has %+v", head)
				}
				d.later(7 * time.Hour)
			}
			if got := d.log(t, "beta").Head().Version; got != "1.1.0" {
				t.Errorf("beta has %s", got)
			}
			d.sound(t, "stable")
		})
	}
}

// TestStepSigned: if one signature is enough for a move, the step of an operator keeps its
// author and reason.
func TestStepSigned(t *testing.T) {
	d, ann := rolled(t, 1)
	d.Sign = ann
	plan, err := d.Advance(t.Context(), Options{Channel: "stable", Why: "a quiet week"})
	if err != nil || !plan.Changed || unkept(plan) {
		t.Fatalf("%+v, %v", plan, err)
	}
	log := d.log(t, "stable")
	if head := log.Head(); head.Who != d.Who || head.Why != "a quiet week" || len(head.SignedBy(log.Operators())) != 1 {
		t.Errorf("the log has %+v", head)
	}
	d.sound(t, "stable")
}

// unkept reports whether a plan says that a reason is not kept.
func unkept(plan *Plan) bool {
	for _, w := range plan.Warnings {
		if strings.Contains(w, "your reason is not kept") {
			return true
		}
	}
	return false
}
