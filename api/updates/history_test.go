package updates_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/channels"
)

// TestHistory: a log that was shortened or rewritten is shown neither by a server that saw
// it before nor by one that shares its records and begins later. Both raise an alarm that
// says how to accept it, and go on by themselves once the rightful log is back.
func TestHistory(t *testing.T) { testHistory(t, apitest.Embedded(t)) }

func testHistory(t *testing.T, w *apitest.World) {
	d := w.Desk(t)
	g := &guarded{World: w, desk: d}
	r := channels.Repository{Store: w.Objects, PublicURL: w.Options.PublicURL}
	var backup map[string][]byte
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		d.PublishVersion(t, "stable", version)
		if version == "1.1.0" {
			backup = g.objects(t)
		}
	}
	rightful := g.objects(t)
	end := g.log(t).End()
	for name, attack := range map[string]func(t *testing.T){
		"shortened": func(t *testing.T) {
			g.restore(t, backup)
		},
		"nothing left": func(t *testing.T) {
			g.restore(t, map[string][]byte{"stable/latest.json": rightful["stable/latest.json"]})
		},
		"another newest entry": func(t *testing.T) {
			g.restore(t, backup)
			log := g.log(t)
			e := *log.At(1)
			e.Action = channels.Rollback
			log = apitest.Must[*channels.Log](t)(r.Append(t.Context(), log, e))
			m := log.Head().Render(d.PublicURL)
			plant(t, w, "stable/latest.json", apitest.Must[[]byte](t)(m.Encode()))
		},
		"another history, which is longer": func(t *testing.T) {
			g.restore(t, backup)
			log := g.log(t)
			for i := range 3 {
				e := *log.At(uint64(i%2) + 1)
				e.Action = channels.Rollback
				log = apitest.Must[*channels.Log](t)(r.Append(t.Context(), log, e))
			}
			m := log.Head().Render(d.PublicURL)
			plant(t, w, "stable/latest.json", apitest.Must[[]byte](t)(m.Encode()))
		},
		"another first entry": func(t *testing.T) {
			log := &channels.Log{Channel: "stable"}
			first := *g.log(t).At(1)
			g.restore(t, nil)
			first.Who = "somebody else"
			log = apitest.Must[*channels.Log](t)(r.Append(t.Context(), log, first))
			m := log.Head().Render(d.PublicURL)
			plant(t, w, "stable/latest.json", apitest.Must[[]byte](t)(m.Encode()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			known := serveStill(t, w)
			known.Heads.Round(t.Context())
			shows(t, known, "1.2.0")
			attack(t)
			w.Clock.Move(time.Minute)
			fresh := still(t, w)
			for range 3 {
				known.Heads.Round(t.Context())
				fresh.Heads.Round(t.Context())
			}
			shows(t, known, "1.2.0")
			shows(t, fresh, "")
			if n := fresh.Metric(`tsmon_updates_alarms{channel="stable",kind="history"}`); n != "1" {
				t.Errorf("the alarm of the fresh server: %q", n)
			}
			if known.Alarms() == 0 || fresh.Alarms() == 0 {
				t.Error("there is no alarm")
			}
			if hint := fmt.Sprintf("`tsmon channel verify stable --from %s --accept`", end); !strings.Contains(w.Logged.String(), hint) {
				t.Errorf("the log does not say %s:\n%s", hint, w.Logged.String())
			}
			g.restore(t, rightful)
			for _, u := range []*apitest.Updates{known, fresh} {
				u.Heads.Round(t.Context())
				shows(t, u, "1.2.0")
				wantUnverified(t, w, u, 0)
			}
		})
	}
}

// TestHistoryAccepted: the store is restored from a backup. Servers go on with it once
// somebody has put its end into the records, which takes access to those.
func TestHistoryAccepted(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	g := &guarded{World: w, desk: d}
	d.PublishVersion(t, "stable", "1.0.0")
	backup := g.objects(t)
	d.PublishVersion(t, "stable", "1.1.0")
	lost := g.log(t).End()
	known := serveStill(t, w)
	known.Heads.Round(t.Context())
	g.restore(t, backup)
	d.PublishVersion(t, "stable", "1.2.0") // by somebody who does not know
	fresh := still(t, w)
	known.Heads.Round(t.Context())
	fresh.Heads.Round(t.Context())
	shows(t, known, "1.1.0")
	shows(t, fresh, "")
	end := g.log(t).End()
	see := func(old, seen channels.Position) bool {
		return apitest.Must[bool](t)(fleet.Histories{Records: w.Records}.See(t.Context(), "stable", old, seen))
	}
	if !see(lost, end) {
		t.Fatal("the records don't have what was seen")
	}
	for _, u := range []*apitest.Updates{known, fresh} {
		u.Heads.Round(t.Context())
		shows(t, u, "1.2.0")
		wantUnverified(t, w, u, 0)
	}
	d.PublishVersion(t, "stable", "1.3.0")
	for _, u := range []*apitest.Updates{known, fresh} {
		u.Heads.Round(t.Context())
		shows(t, u, "1.3.0")
	}
	if !see(g.log(t).End(), end) {
		t.Error("the records don't follow")
	}
}

// TestHistoryOfSeveral: servers that share records see the log at different times, none of
// them raises an alarm, and the records have its end.
func TestHistoryOfSeveral(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	servers := []*apitest.Updates{still(t, w), still(t, w), still(t, w)}
	for i := range 9 {
		version := fmt.Sprintf("1.%d.0", i)
		d.PublishVersion(t, "stable", version)
		u := servers[i*i%3]
		u.Heads.Round(t.Context())
		shows(t, u, version)
	}
	done := make(chan bool)
	for _, u := range servers {
		go func() { u.Heads.Round(t.Context()); done <- true }()
	}
	for range servers {
		<-done
	}
	for _, u := range servers {
		u.Heads.Round(t.Context())
		shows(t, u, "1.8.0")
		wantUnverified(t, w, u, 0)
	}
	seen := apitest.Must[channels.Position](t)(fleet.Histories{Records: w.Records}.Seen(t.Context(), "stable"))
	if seen.Sequence != 9 {
		t.Errorf("the records have entry %d, want 9", seen.Sequence)
	}
	if other := apitest.Must[channels.Position](t)(fleet.Histories{Records: w.Records, Store: "s3://other"}.Seen(t.Context(), "stable")); other.Sequence != 0 {
		t.Errorf("another store's log ends at entry %d", other.Sequence)
	}
}

// TestHistoryByOperators: an entry that the operators signed gives up what was lost. One
// that lacks a signature does not, nor does one that gives up something else.
func TestHistoryByOperators(t *testing.T) { testHistoryByOperators(t, apitest.Embedded(t)) }

func testHistoryByOperators(t *testing.T, w *apitest.World) {
	g := guard(t, w)
	g.publish(t, "1.0.0", g.ann, g.bob)
	backup := g.objects(t)
	g.publish(t, "1.1.0", g.ann, g.bob)
	lost := g.log(t).End()
	known := serveStill(t, w)
	known.Heads.Round(t.Context())
	g.restore(t, backup)
	log := g.log(t)
	accept := func(p channels.Position) channels.Entry {
		e := *log.Head()
		e.Action, e.Signatures, e.Operators, e.Accepted = channels.Accept, nil, nil, &p
		e.Expires, e.Entered = e.When, e.When
		return log.Next(e)
	}
	other := lost
	other.Hash = strings.Repeat("0", 64)
	for name, e := range map[string]channels.Entry{
		"by one":                   approved(t, accept(lost), g.ann),
		"something else, by both":  approved(t, accept(other), g.ann, g.bob),
		"nothing at all, by both ": approved(t, func() channels.Entry { e := accept(lost); e.Accepted = nil; return e }(), g.ann, g.bob),
	} {
		restore := g.steal(t, e)
		fresh := still(t, w)
		for range 2 {
			known.Heads.Round(t.Context())
			fresh.Heads.Round(t.Context())
		}
		shows(t, known, "1.1.0")
		shows(t, fresh, "")
		if known.Alarms() == 0 || fresh.Alarms() == 0 {
			t.Errorf("%s: there is no alarm", name)
		}
		restore()
	}
	g.steal(t, approved(t, accept(lost), g.ann, g.bob)) // by its owners this time
	w.Clock.Move(time.Minute)
	for _, u := range []*apitest.Updates{known, still(t, w)} {
		u.Heads.Round(t.Context())
		shows(t, u, "1.0.0")
		wantUnverified(t, w, u, 0)
	}
	// And from there on.
	g.publish(t, "1.2.0", g.bob, g.ann)
	for _, u := range []*apitest.Updates{known, still(t, w)} {
		u.Heads.Round(t.Context())
		shows(t, u, "1.2.0")
		wantUnverified(t, w, u, 0)
	}
}
