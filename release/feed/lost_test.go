package feed

import (
	"bytes"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/release"
	"tsmon/release/upkeep"
)

// TestLostEntries: a log that says some of its entries to be lost is carried without them.
func TestLostEntries(t *testing.T) {
	hq, site := sides(t)
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		hq.publish(t, "stable", version)
	}
	if err := hq.Store.Delete(t.Context(), "log/stable/0000000002.json"); err != nil {
		t.Fatal(err)
	}
	if report, err := hq.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"}); err != nil || len(report.Findings) > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	site.must(t, hq.export(t, 0))
	site.shows(t, "1.2.0")
	sameLog(t, hq, site)
	hq.publish(t, "stable", "1.3.0")
	if report, err := Mirror(t.Context(), site.Publisher, hq.Store, []string{"stable"}, false); err != nil || !report.Changed {
		t.Fatalf("%+v, %v", report, err)
	}
	site.shows(t, "1.3.0")
	if report, err := Import(t.Context(), site.Publisher, bytes.NewReader(hq.export(t, 0)), false); err != nil || report.Changed {
		t.Fatalf("%+v, %v", report, err)
	}
}

// TestRollout: a rollout that runs is carried with the share that it has, and takes no step
// here.
func TestRollout(t *testing.T) {
	hq, site := sides(t)
	hq.Policies["stable"] = release.Policy{Rings: true}
	site.Policies["stable"] = release.Policy{Rings: true}
	hq.publish(t, "stable", "1.0.0")
	o := hq.options(t, "stable", "1.1.0")
	o.Rollout = &channels.Rollout{Steps: []int{10, 100}, Every: channels.Duration(time.Hour)}
	if _, err := hq.Publish(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	site.must(t, hq.export(t, 0))
	site.shows(t, "1.0.0")
	later := func() time.Time { return time.Now().Add(2 * time.Hour) }
	hq.Now, site.Now = later, later
	if plan, err := site.Advance(t.Context(), release.Options{Channel: "stable"}); err != nil || plan.Changed {
		t.Errorf("a step here: %+v, %v", plan, err)
	}
	if r := site.log(t).Head().Rollout; r == nil || r.Version != "1.1.0" || r.Share() != 10 {
		t.Errorf("%+v", r)
	}
	if plan, err := hq.Advance(t.Context(), release.Options{Channel: "stable"}); err != nil || !plan.Changed {
		t.Fatalf("%+v, %v", plan, err)
	}
	if _, err := Mirror(t.Context(), site.Publisher, hq.Store, nil, false); err != nil {
		t.Fatal(err)
	}
	site.shows(t, "1.1.0")
	if report, err := site.Keeper().Verify(t.Context(), "stable"); err != nil || !report.Rings {
		t.Errorf("%+v, %v", report, err)
	}
	sameLog(t, hq, site)
}
