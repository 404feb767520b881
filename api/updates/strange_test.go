package updates_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"tsmon/api/apitest"
)

// TestStrangeFiles: where operators sign, of releases only what the log of a channel names is
// served, whatever else lies in their folders. What another server has shown since is served
// after one more look.
func TestStrangeFiles(t *testing.T) { testStrangeFiles(t, apitest.Embedded(t)) }

func testStrangeFiles(t *testing.T, w *apitest.World) {
	g := guard(t, w)
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
	g.desk.PublishVersion(t, "beta", "1.2.0") // which this server has not been asked for
	for _, version := range []string{"1.1.0", "1.2.0"} {
		data, _ := w.Stored(t, "releases/"+version+"/App_universal.app.tar.gz")
		if got := u.Get("/updates/releases/" + version + "/App_universal.app.tar.gz"); got.Status != http.StatusOK || !bytes.Equal(got.Body, data) {
			t.Errorf("%s at once: %d %.200s", version, got.Status, got.Body)
		}
	}
}
