package updates_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"tsmon/api/apitest"
	"tsmon/api/updates"
	"tsmon/channels"
)

// TestStrangeFiles: where operators sign, of releases only what the log of a channel names is
// served, whatever else lies in their folders. What another server has shown since is served
// after one more look.
func TestStrangeFiles(t *testing.T) { testStrangeFiles(t, apitest.Embedded(t)) }

func testStrangeFiles(t *testing.T, w *apitest.World) {
	g := guard(t, w)
	g.Trust["beta"] = updates.Trust{}
	g.publish(t, "1.0.0", g.ann, g.bob)
	u := w.ServeUpdates(t)
	u.Get("/updates/stable/latest.json") // so that the server knows the log: for a signature it looks at none
	good, _ := w.Stored(t, "releases/1.0.0/release.json")
	var record map[string]any
	if err := json.Unmarshal(good, &record); err != nil {
		t.Fatal(err)
	}
	record["bundles"] = append(record["bundles"].([]any), map[string]any{"name": "evil.exe", "size": 1, "keys": []string{}})
	forged := apitest.Must[[]byte](t)(json.Marshal(record))
	overwrite(t, g.Objects, "releases/1.0.0/evil.exe", []byte("x"))
	overwrite(t, g.Objects, "releases/1.0.0/evil.exe.sig", []byte("x"))
	overwrite(t, g.Objects, "releases/1.0.0/release-2.json", forged)
	overwrite(t, g.Objects, "releases/6.6.6/evil.exe", []byte("x"))
	for key, want := range map[string]int{
		"releases/1.0.0/release.json":                 http.StatusOK,
		"releases/1.0.0/App_universal.app.tar.gz":     http.StatusOK,
		"releases/1.0.0/App_universal.app.tar.gz.sig": http.StatusOK,
		"releases/1.0.0/evil.exe":                     http.StatusNotFound,
		"releases/1.0.0/evil.exe.sig":                 http.StatusNotFound,
		"releases/1.0.0/release-2.json":               http.StatusNotFound,
		"releases/6.6.6/evil.exe":                     http.StatusNotFound,
	} {
		if got := u.Get("/updates/" + key); got.Status != want {
			t.Errorf("%s: %d %.200s, want %d", key, got.Status, got.Body, want)
		}
	}
	overwrite(t, g.Objects, "releases/1.0.0/release.json", forged)
	if got := u.Get("/updates/releases/1.0.0/release.json"); got.Status != http.StatusServiceUnavailable {
		t.Errorf("a forged record: %d %.200s", got.Status, got.Body)
	}
	overwrite(t, g.Objects, "releases/1.0.0/release.json", good)
	g.publish(t, "1.1.0", g.ann, g.bob)
	g.desk.PublishVersion(t, "beta", "1.2.0") // which this server has not been asked for, and which is not signed
	for _, version := range []string{"1.1.0", "1.2.0"} {
		data, _ := w.Stored(t, "releases/"+version+"/App_universal.app.tar.gz")
		if got := u.Get("/updates/releases/" + version + "/App_universal.app.tar.gz"); got.Status != http.StatusOK || !bytes.Equal(got.Body, data) {
			t.Errorf("%s at once: %d %.200s", version, got.Status, got.Body)
		}
	}
}

// TestStrangeChannels: where operators sign, a channel that is not configured is not served, and
// its log vouches for no file, whoever signed it: somebody with the bucket alone can make one.
// Its alarm says what to do, and ends once it is done, or the channel is removed.
func TestStrangeChannels(t *testing.T) { testStrangeChannels(t, apitest.Embedded(t)) }

func testStrangeChannels(t *testing.T, w *apitest.World) {
	g := guard(t, w)
	g.publish(t, "1.0.0", g.ann, g.bob)
	rightful := everything(t, w.Objects)
	thief := newOperator(t)
	var own channels.Operators
	own.Keys, own.Approvals, own.Rollbacks = map[string]string{"me": thief.key()}, 1, 1
	for name, operators := range map[string]*channels.Operators{"without operators": nil, "with his own": &own} {
		t.Run(name, func(t *testing.T) {
			reset(t, w.Objects, rightful)
			known := serveStill(t, w)
			known.Heads.Round(t.Context())
			e := *g.log(t).Head()
			e.Signatures, e.Operators = nil, operators
			e.Release.Files = []channels.File{{Path: "releases/1.0.0/evil.exe", Keys: []string{"windows-x86_64"}, Size: 1, BLAKE2b: strings.Repeat("0", 128)}}
			log := &channels.Log{Channel: "evil"}
			if e = log.Next(e); operators != nil {
				e = approved(t, e, thief)
			}
			overwrite(t, w.Objects, "log/evil/0000000001.json", apitest.Must[[]byte](t)(json.Marshal(e)))
			m := e.Render(w.Options.PublicURL)
			overwrite(t, w.Objects, "evil/latest.json", apitest.Must[[]byte](t)(m.Encode()))
			overwrite(t, w.Objects, "releases/1.0.0/evil.exe", []byte("x"))
			fresh := still(t, w)
			fresh.Heads.Round(t.Context())
			for _, u := range []*apitest.Updates{known, fresh} {
				for _, path := range []string{"evil/latest.json", "evil/downloads.json", "evil/linux/x86_64/0.9.0", "evil/download/windows-x86_64"} {
					if got := u.Get("/updates/" + path); got.Status != http.StatusServiceUnavailable {
						t.Errorf("%s: %d %.200s", path, got.Status, got.Body)
					}
				}
				u.Heads.Round(t.Context())
				if _, shown := u.Heads.Channels()["evil"]; shown {
					t.Error("the pages show it")
				}
				shows(t, u, "1.0.0")
				wantUnverified(t, w, u, 2)
				if n := u.Metric(`tsmon_updates_alarms{channel="evil",kind="unsigned"}`); n != "1" {
					t.Errorf("the alarm: %q", n)
				}
			}
			if got := w.ServeUpdates(t).Get("/updates/releases/1.0.0/evil.exe"); got.Status != http.StatusNotFound {
				t.Errorf("its file: %d %.200s", got.Status, got.Body)
			}
			if !strings.Contains(w.Logged.String(), "operators are configured, and no channel evil: name it in tsmon.yaml; only if nobody knows it, remove it from the store") {
				t.Error(w.Logged.String())
			}
			reset(t, w.Objects, rightful)
			for _, u := range []*apitest.Updates{known, fresh} {
				u.Heads.Round(t.Context())
				wantUnverified(t, w, u, 0)
			}
		})
	}

	// Named, and without operators, it is served.
	g.desk.PublishVersion(t, "beta", "1.1.0")
	for status, trust := range map[int]map[string]updates.Trust{
		http.StatusServiceUnavailable: g.Trust,
		http.StatusOK:                 {"stable": g.Trust["stable"], "beta": {}},
	} {
		w.Trust = trust
		u := w.ServeUpdates(t)
		if got := u.Get("/updates/beta/latest.json"); got.Status != status {
			t.Errorf("beta: %d %.200s, want %d", got.Status, got.Body, status)
		}
	}
}
