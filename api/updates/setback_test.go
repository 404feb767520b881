package updates_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/store/record"
)

// noted are records that count what is written of manifests, and fail while away says so.
type noted struct {
	record.Store
	away  error
	wrote []int64
}

func (n *noted) SeeManifest(ctx context.Context, log string, entry int64) error {
	if n.away != nil {
		return n.away
	}
	n.wrote = append(n.wrote, entry)
	return n.Store.SeeManifest(ctx, log, entry)
}

// TestManifestPutBack: an older manifest that lies in the place of one that any server has seen
// there is an alarm of each server, also of one that begins then. A move that was interrupted
// before its manifest is none. The records are written when there is something new, and where
// they are away, once they are back.
func TestManifestPutBack(t *testing.T) { testManifestPutBack(t, apitest.Embedded(t)) }

func testManifestPutBack(t *testing.T, w *apitest.World) {
	w.Options.PublicURL = "https://releases.example.com/app"
	records := &noted{Store: w.Records}
	w.Records = records
	d := w.Desk(t)
	g := &guarded{World: w, desk: d}
	manifests := [][]byte{nil}
	publish := func(version string) {
		t.Helper()
		d.PublishVersion(t, "stable", version)
		data, _ := w.Stored(t, "stable/latest.json")
		manifests = append(manifests, data)
	}
	lies := func(entry int) { t.Helper(); overwrite(t, w.Objects, "stable/latest.json", manifests[entry]) }
	begin := func(version string, alarms int) *apitest.Updates {
		t.Helper()
		u := serveStill(t, w)
		for range 3 {
			u.Heads.Round(t.Context())
		}
		shows(t, u, version)
		wantUnverified(t, w, u, alarms)
		return u
	}
	wrote := func(entries ...int64) {
		t.Helper()
		if len(records.wrote) != len(entries) || len(entries) > 0 && records.wrote[0] != entries[0] {
			t.Errorf("the records were told of the manifests of %v, want %v", records.wrote, entries)
		}
		records.wrote = nil
	}

	publish("1.0.0")
	u := begin("1.0.0", 0)
	wrote(1)
	publish("1.1.0")
	for range 3 {
		u.Heads.Round(t.Context())
		w.Clock.Move(time.Minute)
	}
	wrote(2)

	// It was seen by another server; one that begins now finds the older one.
	lies(1)
	u = begin("1.1.0", 1)
	if n, counted := u.Metric(`tsmon_updates_alarms{channel="stable",kind="manifest"}`), u.Metric(`tsmon_updates_bad_manifests_total{channel="stable"}`); n != "1" || counted != "1" {
		t.Errorf("the alarm is %s, counted %s times", n, counted)
	}
	if !strings.Contains(w.Logged.String(), "it is of entry 1 of the log of stable, and that of entry 2 lay there before") {
		t.Error(w.Logged.String())
	}
	if !u.Heads.Channels()["stable"].Behind {
		t.Error("nobody is told to write it anew")
	}
	if _, err := d.Finish(t.Context(), "stable"); err != nil { // as such a server does
		t.Fatal(err)
	}
	u.Heads.Round(t.Context())
	wantUnverified(t, w, u, 0)
	begin("1.1.0", 0)
	wrote()

	// A move that was interrupted before its manifest.
	publish("1.2.0")
	lies(2)
	begin("1.2.0", 0)
	wrote()
	lies(3)
	begin("1.2.0", 0)
	wrote(3)

	// The records are away. What was seen then is written once they are back.
	records.away = record.ErrUnavailable
	publish("1.3.0")
	u = begin("1.3.0", 0)
	records.away = nil
	u.Heads.Round(t.Context())
	u.Heads.Round(t.Context())
	wrote(4)
	lies(2)
	u.Heads.Round(t.Context())
	wantUnverified(t, w, u, 1)
	begin("1.3.0", 1)
	wrote()

	// The store is restored from a backup, and that accepted: what was seen behind it is forgotten.
	if err := w.Objects.Delete(t.Context(), "log/stable/0000000003.json", "log/stable/0000000004.json"); err != nil {
		t.Fatal(err)
	}
	lies(1)
	g.remember(t, apitest.Must[*channels.Log](t)(channels.Repository{Store: w.Objects}.Load(t.Context(), "stable")).End())
	begin("1.1.0", 1) // that of entry 2 was seen
	lies(2)
	begin("1.1.0", 0)
	wrote()
}
