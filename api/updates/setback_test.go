package updates_test

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/release"
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

// TestRingsPutBack: an older manifest of a ring, or list of downloads, that lies in the place of
// one that the server has seen there is an alarm, once for the channel, and is written anew.
// What clients of the server read stays right. A move that was interrupted there is no alarm.
func TestRingsPutBack(t *testing.T) { testRingsPutBack(t, apitest.Embedded(t)) }

func testRingsPutBack(t *testing.T, w *apitest.World) {
	w.Options.PublicURL = "https://releases.example.com/app"
	w.Rings = map[string]bool{"stable": true}
	d := w.Desk(t)
	d.Policies["stable"] = release.Policy{Rings: true}
	const ring, list = "stable/rings/07/latest.json", "stable/downloads.json"
	seen := []map[string][]byte{{}} // by entry
	publish := func(version string) {
		t.Helper()
		d.PublishWith(t, version, func(o *release.PublishOptions) {
			o.Bundles = apitest.Bundles(t, version, "App_"+version+"_amd64.AppImage.tar.gz", "App_"+version+"_aarch64.dmg")
		})
		all := map[string][]byte{}
		for number := range channels.Rings {
			key := channels.RingKey("stable", number)
			all[key], _ = w.Stored(t, key)
		}
		all[list], _ = w.Stored(t, list)
		seen = append(seen, all)
	}
	lies := func(entry int, keys ...string) {
		t.Helper()
		for _, key := range keys {
			overwrite(t, w.Objects, key, seen[entry][key])
		}
	}
	publish("1.0.0")
	u := serveStill(t, w)
	look := func(version string, alarms int) {
		t.Helper()
		w.Clock.Move(time.Minute)
		u.Heads.Round(t.Context())
		u.Heads.Reread(t.Context())
		shows(t, u, version)
		wantUnverified(t, w, u, alarms)
		if behind := u.Heads.Channels()["stable"].Behind; behind != (alarms > 0) {
			t.Errorf("somebody is told to write it anew: %t", behind)
		}
		newest := seen[len(seen)-1]
		for _, key := range []string{ring, list} {
			if got := u.Get("/updates/" + key); !bytes.Equal(got.Body, newest[key]) {
				t.Errorf("%s: %d %s", key, got.Status, got.Body)
			}
		}
	}
	look("1.0.0", 0)
	publish("1.1.0")
	look("1.1.0", 0)
	for what, keys := range map[string][]string{"a ring": {ring}, "a list": {list}, "all": slices.Collect(maps.Keys(seen[1]))} {
		t.Run(what, func(t *testing.T) {
			w.Logged.Reset()
			lies(1, keys...)
			look("1.1.0", 1)
			look("1.1.0", 1)
			if n := strings.Count(w.Logged.String(), "is of entry 1 of the log, and that of entry 2 lay there before"); n != 1 {
				t.Errorf("it was logged %d times: %s", n, w.Logged.String())
			}
			if n := u.Metric(`tsmon_updates_alarms{channel="stable",kind="manifest"}`); n != "1" {
				t.Errorf("the alarm: %s", n)
			}
			apitest.Must[*release.Plan](t)(d.Finish(t.Context(), "stable")) // as the server does
			for _, key := range keys {
				if data, _ := w.Stored(t, key); !bytes.Equal(data, seen[2][key]) {
					t.Errorf("%s was not written anew: %s", key, data)
				}
			}
			look("1.1.0", 0)
		})
	}
	publish("1.2.0")
	lies(2, slices.Collect(maps.Keys(seen[2]))...) // as a move that was interrupted leaves them
	look("1.2.0", 0)
	overwrite(t, w.Objects, ring, []byte("no manifest"))
	look("1.2.0", 1)
}
