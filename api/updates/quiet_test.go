package updates_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"tsmon/api/apitest"
	"tsmon/store/object"
)

// TestQuietRounds: while nothing is new, a round costs the store one request a channel, and
// one more each tenth time. What is published is shown after one round, and what somebody
// puts in the place of the manifest has its alarm within ten.
func TestQuietRounds(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	d.PublishVersion(t, "beta", "1.1.0")
	store := w.WatchObjects()
	u := still(t, w)
	u.Heads.Quiet()
	rounds := func(n int) {
		for range n {
			u.Heads.Round(t.Context())
		}
	}
	wants := func(version string) {
		t.Helper()
		if shown, err := u.Heads.Version(t.Context(), "stable"); err != nil || shown != version {
			t.Errorf("stable shows %s, want %s: %v", shown, version, err)
		}
	}
	rounds(20)
	clear(store.Asked)
	rounds(20)
	if next, manifests := store.Count("Stat log/stable/0000000002.json"), store.Count("Stat stable/latest.json"); next != 20 || manifests != 2 || len(store.Asked) != 4 {
		t.Errorf("20 rounds without news asked for %v", store.Asked)
	}

	d.PublishVersion(t, "stable", "1.2.0")
	rounds(1)
	wants("1.2.0")
	rounds(11)
	if n := u.Heads.Alarms(); n != 0 {
		t.Errorf("%d alarms", n)
	}
	data, info := w.Stored(t, "stable/latest.json")
	forged := []byte(strings.Replace(string(data), "1.2.0", "1.3.0", 1))
	if _, err := w.Objects.Swap(t.Context(), "stable/latest.json", info.ETag, forged, object.Attributes{}); err != nil {
		t.Fatal(err)
	}
	rounds(10)
	if n := u.Heads.Alarms(); n != 1 {
		t.Errorf("%d alarms after ten rounds, want 1", n)
	}
	wants("1.2.0")

	// One that is taken away is gone as fast.
	if err := w.Objects.Delete(t.Context(), "stable/latest.json"); err != nil {
		t.Fatal(err)
	}
	rounds(10)
	if version, err := u.Heads.Version(t.Context(), "stable"); !errors.Is(err, fs.ErrNotExist) || u.Heads.Alarms() != 0 {
		t.Errorf("%s is shown, %d alarms, error %v", version, u.Heads.Alarms(), err)
	}
}
