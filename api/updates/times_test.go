package updates_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/channels"
	"tsmon/release"
	"tsmon/store/object"
)

// TestFuture: a log with an entry from the future is shown neither by a server that knew
// the channel, which goes on with what was good, nor by a fresh one. It settles when the
// time has come, or by an entry that accepts it.
func TestFuture(t *testing.T) { testFuture(t, apitest.Embedded(t)) }

func testFuture(t *testing.T, w *apitest.World) {
	d := w.Desk(t)
	g := &guarded{World: w, desk: d}
	d.PublishVersion(t, "stable", "1.0.0")
	d.PublishVersion(t, "stable", "1.1.0")
	rightful, histories := g.objects(t), fleet.Histories{Records: w.Records}
	for name, settle := range map[string]func(){
		"time comes":   func() { w.Clock.Move(365 * 24 * time.Hour) },
		"it is undone": func() { g.restore(t, rightful) },
		"it is accepted": func() {
			plan, err := d.Accept(t.Context(), "stable", channels.Position{}, "", false)
			if err != nil || !plan.Changed || plan.Sequence != 4 || !strings.Contains(plan.Entry.Why, "a clock that was ahead") {
				t.Fatalf("%+v, %v", plan, err)
			}
			if again, err := d.Accept(t.Context(), "stable", channels.Position{}, "", false); err != nil || again.Changed {
				t.Fatalf("%+v, %v", again, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g.restore(t, rightful)
			seen := apitest.Must[channels.Position](t)(histories.Seen(t.Context(), "stable"))
			apitest.Must[bool](t)(histories.See(t.Context(), "stable", seen, g.log(t).End()))
			known := serveStill(t, w)
			known.Heads.Round(t.Context())
			shows(t, known, "1.1.0")

			log := g.log(t)
			e := *log.At(1)
			e.Action, e.From, e.Why, e.When = channels.Rollback, "1.1.0", "by a clock that is a year ahead", w.Clock.Now().AddDate(1, 0, -1)
			careless := channels.Repository{Store: yearAhead{w.Objects}, PublicURL: d.PublicURL}
			log = apitest.Must[*channels.Log](t)(careless.Append(t.Context(), log, e))
			m := log.Head().Render(d.PublicURL)
			plant(t, w, "stable/latest.json", apitest.Must[[]byte](t)(m.Encode()))
			fresh := still(t, w)
			for range 3 {
				w.Clock.Move(time.Minute)
				known.Heads.Round(t.Context())
				fresh.Heads.Round(t.Context())
			}
			shows(t, known, "1.1.0")
			shows(t, fresh, "")
			for _, u := range []*apitest.Updates{known, fresh} {
				if n := u.Metric(`tsmon_updates_alarms{channel="stable",kind="clock"}`); n != "1" {
					t.Errorf("the alarm: %q", n)
				}
			}
			if _, err := d.Rollback(t.Context(), release.RollbackOptions{Options: release.Options{Channel: "stable", Why: "?"}}); err == nil {
				t.Error("a move goes on from it")
			}

			settle()
			want := "1.0.0"
			if name == "it is undone" {
				want = "1.1.0"
			}
			w.Clock.Move(time.Minute)
			for _, u := range []*apitest.Updates{known, fresh} {
				u.Heads.Round(t.Context())
				shows(t, u, want)
				if n := u.Metric(`tsmon_updates_alarms{channel="stable",kind="clock"}`); n != "0" {
					t.Errorf("the alarm afterwards: %q", n)
				}
			}
			if name == "time comes" {
				w.Clock.Move(-365 * 24 * time.Hour)
			}
		})
	}
}

// TestOwnClockWrong: a server whose own clock is wrong, and not the store's, raises no
// alarm about what is good.
func TestOwnClockWrong(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	right := w.Options.Now
	for _, by := range []time.Duration{-365 * 24 * time.Hour, 12 * time.Hour, 365 * 24 * time.Hour} {
		w.Options.Now = func() time.Time { return right().Add(by) }
		u := still(t, w)
		u.Heads.Round(t.Context())
		shows(t, u, "1.0.0")
		if n := u.Alarms(); n != 0 {
			t.Errorf("%s: %d alarms", by, n)
		}
	}
}

// yearAhead is a store whose time is a year ahead.
type yearAhead struct{ object.Store }

func (s yearAhead) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Store.Now(ctx)
	return now.AddDate(1, 0, 0), err
}
