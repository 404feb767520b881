package release

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/release/approval"
	"tsmon/release/library"
	"tsmon/store/longtest"
)

// leave writes an object to the store, as somebody with its credentials could.
func (d *desk) leave(t *testing.T, key, data string) {
	t.Helper()
	path := filepath.Join(d.root, filepath.FromSlash(key))
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(data), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestManyPlans: even if somebody fills the folder of plans, a plan can be made, found and
// signed, with a bounded number of requests.
func TestManyPlans(t *testing.T) {
	n := 12_000
	if share, long := longtest.Chosen(t); long {
		share.Needs(t, 7)
		n = 100_000
	}
	d, ann, bob := released(t, "1.0.0")
	d.Sign = ann
	model := d.publish(t, d.options(t, "1.1.0")).Waiting
	for i := range n {
		e := *model.Entry
		e.Signatures, e.Why, e.Expires = nil, fmt.Sprint("please sign ", i), e.Expires.AddDate(1, 0, 0)
		payload, err := e.Payload()
		if err != nil {
			t.Fatal(err)
		}
		d.leave(t, "plans/stable/"+library.SumOf(payload)+".json", string(payload))
	}
	for i := range 300 { // beside the rightful one
		d.leave(t, fmt.Sprintf("plans/stable/%s.a%d.sig", model.Hash, i), "no signature")
	}
	d.leave(t, "plans/stable/copy/"+model.Hash+".json", "{}")
	counted := func(most int, what string, move func() error) {
		t.Helper()
		_, requests := d.rounds(func() {
			if err := move(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		})
		t.Logf("%s: %d requests", what, requests)
		if requests > most {
			t.Errorf("%s takes %d requests, at most %d are wanted", what, requests, most)
		}
	}
	counted(700, "plan list", func() error {
		all, more, err := d.Plans().List(t.Context(), "stable")
		if len(all) > 100 || !more {
			t.Errorf("%d plans, more %v", len(all), more)
		}
		return err
	})
	var waits *approval.Waiting
	counted(800, "publish", func() error {
		waits = d.publish(t, d.options(t, "1.2.0")).Waiting
		return nil
	})
	if waits == nil || waits.Has != 1 {
		t.Fatalf("waits: %+v", waits)
	}
	d.Sign = bob
	for _, hash := range []string{model.Hash, model.Hash[:32]} {
		counted(40, "plan show", func() error {
			shown, err := d.ShowPlan(t.Context(), "stable", hash)
			if err == nil && (shown.Hash != model.Hash || !slices.Equal(shown.Signed, []string{"ann"})) {
				err = fmt.Errorf("shown: %+v", shown)
			}
			return err
		})
	}
	counted(100, "plan approve", func() error {
		plan, err := d.Approve(t.Context(), "stable", waits.Hash[:32], false)
		if err == nil && (!plan.Changed || plan.Version != "1.2.0") {
			err = fmt.Errorf("plan: %+v", plan)
		}
		return err
	})
	for _, wrong := range []string{"../" + model.Hash, "copy/", "A", strings.Repeat("a", 65), "%"} {
		if _, err := d.ShowPlan(t.Context(), "stable", wrong); !errors.Is(err, approval.ErrNoPlan) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// TestOldPlansGo: a plan that can't be applied any more is removed with its signatures when the
// next plan is stored, a day later at the earliest.
func TestOldPlansGo(t *testing.T) {
	d, ann, bob := released(t, "1.0.0")
	policy := d.Policies["stable"]
	policy.PlanLife = 48 * time.Hour
	d.Policies["stable"] = policy
	stays := func(w *approval.Waiting) bool {
		t.Helper()
		there := 0
		for _, key := range []string{"plans/stable/" + w.Hash + ".json", "plans/stable/" + w.Hash + ".ann.sig"} {
			_, err := d.Store.Stat(t.Context(), key)
			if err == nil {
				there++
			} else if !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		if there == 1 {
			t.Errorf("half of %s is there", w.Hash)
		}
		return there == 2
	}
	d.Sign = ann
	overtaken := d.publish(t, d.options(t, "1.1.0")).Waiting
	second := d.publish(t, d.options(t, "1.2.0")).Waiting
	d.Sign = bob
	if _, err := d.Approve(t.Context(), "stable", second.Hash, false); err != nil {
		t.Fatal(err)
	}
	d.Sign = ann
	expires := d.publish(t, d.options(t, "1.3.0")).Waiting
	if !stays(overtaken) || !stays(expires) {
		t.Fatal("it is gone at once")
	}
	d.later(25 * time.Hour)
	third := d.publish(t, d.options(t, "1.4.0")).Waiting
	if stays(overtaken) || !stays(expires) || !stays(third) {
		t.Errorf("a day later: overtaken %v, that waits %v, new %v", stays(overtaken), stays(expires), stays(third))
	}
	d.later(48 * time.Hour) // 73 h: both that wait have expired, one of them a day ago
	fourth := d.publish(t, d.options(t, "1.5.0")).Waiting
	if stays(expires) || !stays(third) || !stays(fourth) {
		t.Errorf("three days later: expired %v, just now %v, new %v", stays(expires), stays(third), stays(fourth))
	}
	d.Sign = bob
	if _, err := d.Approve(t.Context(), "stable", third.Hash, false); !errors.Is(err, approval.ErrStale) {
		t.Errorf("it expired just now: %v", err)
	}
}
