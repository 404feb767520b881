package updates_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/channels"
)

// TestOlderEntries: what somebody changes before the end of a log has the alarm on a server
// that runs within an hour that one has which begins then. What was good stays shown, the
// alarm stays while it is so, and is gone within a minute after.
func TestOlderEntries(t *testing.T) { testOlderEntries(t, apitest.Embedded(t)) }

func testOlderEntries(t *testing.T, w *apitest.World) {
	g := guard(t, w)
	g.publish(t, "1.0.0", g.ann, g.bob)
	g.publish(t, "1.1.0", g.ann, g.bob)
	rightful := everything(t, w.Objects)
	for name, do := range map[string]func(*testing.T, *guarded){
		"changed": edits(attackedFirst, `"who": "`, `"who": "not `),
		"gone":    removes(attackedFirst),
		"garbage": planted(attackedFirst, "{}"),
	} {
		t.Run(name, func(t *testing.T) {
			known := serveStill(t, w)
			alarmed := func(n int) {
				t.Helper()
				known.Heads.Round(t.Context())
				shows(t, known, "1.1.0")
				wantUnverified(t, w, known, n)
			}
			alarmed(0)
			do(t, g)
			w.Clock.Move(59 * time.Minute)
			known.Heads.Reread(t.Context())
			alarmed(0)
			w.Clock.Move(time.Minute)
			known.Heads.Reread(t.Context())
			for range 3 {
				w.Clock.Move(time.Minute)
				alarmed(1)
			}
			known.Heads.Reread(t.Context())
			alarmed(1)
			fresh := still(t, w)
			fresh.Heads.Round(t.Context())
			const alarm = `tsmon_updates_alarms{channel="stable",kind="log"}`
			if a, b := known.Metric(alarm), fresh.Metric(alarm); a != "1" || b != "1" {
				t.Errorf("the alarms of the servers: %s, %s", a, b)
			}
			if n := strings.Count(w.Logged.String(), `"object":"log/stable/"`); n != 2 {
				t.Errorf("it was logged %d times:\n%s", n, w.Logged.String())
			}
			reset(t, w.Objects, rightful)
			w.Clock.Move(time.Minute)
			known.Heads.Reread(t.Context())
			alarmed(0)
		})
	}
}

// TestOlderSegments: entries that are read from a segment are looked after with it. A bad
// segment alone is none, since the entries are there.
func TestOlderSegments(t *testing.T) {
	w := apitest.Embedded(t)
	w.Options.PublicURL = "https://releases.example.com/app"
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	r := channels.Repository{Store: w.Objects, PublicURL: d.PublicURL}
	log := apitest.Must[*channels.Log](t)(r.Load(t.Context(), "stable"))
	for i := range 260 {
		e := *log.Head()
		e.Action, e.Why = channels.Repair, fmt.Sprint("upkeep ", i)
		log = apitest.Must[*channels.Log](t)(r.Append(t.Context(), log, e))
	}
	if err := r.PackAll(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Repoint(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	known := serveStill(t, w)
	known.Heads.Round(t.Context())
	wantUnverified(t, w, known, 0)
	g := &guarded{World: w, desk: d}
	planted("segments/stable/0000000001-0000000256.zst", "x")(t, g)
	w.Clock.Move(time.Hour)
	known.Heads.Reread(t.Context())
	wantUnverified(t, w, known, 0)
	edits("log/stable/0000000100.json", "upkeep", "uproar")(t, g)
	w.Clock.Move(time.Hour)
	known.Heads.Reread(t.Context())
	shows(t, known, "1.0.0")
	wantUnverified(t, w, known, 1)
}

// TestOlderEntriesBounded: a whole log is read once an hour, one channel at a time, and soon
// again where the store was away, which is no alarm.
func TestOlderEntriesBounded(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	d.PublishVersion(t, "beta", "1.1.0")
	store := w.WatchObjects()
	u := still(t, w)
	u.Heads.Round(t.Context())
	read := func(want int) {
		t.Helper()
		clear(store.Asked)
		u.Heads.Reread(t.Context())
		if n := store.Count("Get log/stable/0000000001.json") + store.Count("Get log/beta/0000000001.json"); n != want {
			t.Errorf("it read %v, want %d logs", store.Asked, want)
		}
	}
	read(0)
	w.Clock.Move(time.Hour)
	for _, want := range []int{1, 1, 0} {
		read(want)
	}
	w.Clock.Move(time.Hour)
	store.Fail(apitest.Unavailable)
	for range 3 {
		u.Heads.Reread(t.Context())
	}
	store.Fail(nil)
	read(0)
	wantUnverified(t, w, u, 0)
	w.Clock.Move(time.Minute)
	for _, want := range []int{1, 1, 0} {
		read(want)
	}
}
