package release

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/release/gate"
	"tsmon/signing"
)

// TestReplay: for every kind of move, replaying an entry gives the same reach as its plan, from
// a whole log and from the end of one.
func TestReplay(t *testing.T) {
	d := newDesk(t)
	d.Policies["stable"] = Policy{AllowDowngrades: true}
	var plans []*Plan
	move := func(p *Plan, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		d.later(time.Minute)
		plans = append(plans, p)
	}
	publish := func(version string, rollout *channels.Rollout) {
		t.Helper()
		o := d.options(t, version, "App_"+version+"_amd64.AppImage", "App_"+version+"_amd64.deb")
		o.Rollout = rollout
		move(d.Publish(t.Context(), o))
	}
	publish("1.0.0", nil)
	publish("1.1.0", nil)
	publish("1.2.0", steps(25, 100))
	move(d.Pause(t.Context(), Options{Channel: "stable", Why: "support is flooded"}))
	move(d.Resume(t.Context(), Options{Channel: "stable"}))
	move(d.rollback(t, "stable", "1.0.0", "slow"))

	log := d.log(t, "stable")
	if len(log.Entries) != len(plans) {
		t.Fatalf("%d entries of %d moves", len(log.Entries), len(plans))
	}
	for i, p := range plans {
		got, err := d.Inspector().Replay(log, uint64(i+1))
		if err != nil || len(got) == 0 || !reflect.DeepEqual(got, p.Reach) {
			t.Errorf("entry %d, %s: %v\n%+v\nwant\n%+v", i+1, p.Action, err, got, p.Reach)
		}
	}
	for _, want := range []struct {
		entry        uint64
		key, outcome string
	}{
		{2, "1.0.0 linux-x86_64 deb dynamic -", "offered App_1.1.0_amd64.deb"},
		{3, "1.1.0 linux-x86_64 deb dynamic in", "offered App_1.2.0_amd64.deb"},
		{3, "1.1.0 linux-x86_64 deb static out", "current"},
		{6, "1.2.0 linux-x86_64 deb dynamic -", "ahead"},
	} {
		reach, err := d.Inspector().Replay(log, want.entry)
		if got := reachOf(t, &Plan{Reach: reach}, want.key); err != nil || got != want.outcome {
			t.Errorf("entry %d, %s: %s %v, want %s", want.entry, want.key, got, err, want.outcome)
		}
	}
	end := &channels.Log{Channel: "stable", Entries: log.Entries[1:]}
	for _, none := range []uint64{0, 1, 7} {
		if got, err := d.Inspector().Replay(end, none); got != nil || err != nil {
			t.Errorf("entry %d, which the end of the log lacks: %v %v", none, got, err)
		}
	}
	if got, err := d.Inspector().Replay(end, 3); err != nil || !slices.ContainsFunc(got, func(r gate.Reach) bool { return r.Version == "1.1.0" && r.Offered == "1.2.0" }) {
		t.Errorf("from the end of the log: %+v %v", got, err)
	}

	// A move of long ago is not refused by the keys of today: its cells say what is wrong.
	d.Keys = newDesk(t).Keys
	reach, err := d.Inspector().Replay(log, 2)
	if got := reachOf(t, &Plan{Reach: reach}, "1.0.0 linux-x86_64 deb dynamic -"); err != nil || got != "broken App_1.1.0_amd64.deb" {
		t.Errorf("with other keys: %s %v", got, err)
	}
	d.Keys = signing.Keyring{}
	if got, err := d.Inspector().Replay(log, 2); got != nil || err != nil {
		t.Errorf("without keys: %v %v", got, err)
	}
}
