package updates_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
)

// TestQuietRounds: while nothing is new a round costs one request a channel, and the log is
// looked at once a minute, or each time while a release is being rolled out. A manifest that somebody puts there for a single round has its
// alarm, what is published is shown after one round, and so is a move that was interrupted
// before the manifest, to those who wait for a round, and to all others within a minute.
func TestQuietRounds(t *testing.T) {
	w := apitest.Embedded(t)
	w.Options.PublicURL = "https://releases.example.com/app"
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	d.PublishVersion(t, "beta", "1.1.0")
	store := w.WatchObjects()
	u := still(t, w)
	round := func() { u.Heads.Round(t.Context()) }
	wants := func(version string, alarms int) {
		t.Helper()
		if shown, err := u.Heads.Version(t.Context(), "stable"); err != nil || shown != version || u.Heads.Alarms() != alarms {
			t.Errorf("stable shows %s with %d alarms, want %s with %d: %v", shown, u.Heads.Alarms(), version, alarms, err)
		}
	}
	round()
	clear(store.Asked)
	for range 10 {
		round()
	}
	if want := map[string]int{"Stat stable/latest.json": 10, "Stat beta/latest.json": 10}; !maps.Equal(store.Asked, want) {
		t.Errorf("10 rounds without news asked for %v", store.Asked)
	}

	// What somebody puts there is noticed, however short it stands.
	good, _ := w.Stored(t, "stable/latest.json")
	plant(t, w, "stable/latest.json", changed(t, good, func(m *manifest.Manifest) { m.Notes = "by hand" }))
	round()
	wants("1.0.0", 1)
	plant(t, w, "stable/latest.json", good)
	round()
	wants("1.0.0", 0)

	d.PublishVersion(t, "stable", "1.2.0")
	round()
	wants("1.2.0", 0)

	// So is an older one, which nobody who moves the channel puts back.
	standing, _ := w.Stored(t, "stable/latest.json")
	plant(t, w, "stable/latest.json", good)
	round()
	wants("1.2.0", 1)
	if !strings.Contains(w.Logged.String(), "it is of entry 1 of the log of stable, and that of entry 2 lay there before") {
		t.Error(w.Logged.String())
	}
	plant(t, w, "stable/latest.json", standing)
	round()
	wants("1.2.0", 0)

	// The entry is there and the manifest is not.
	older, _ := w.Stored(t, "stable/latest.json")
	d.PublishVersion(t, "stable", "1.3.0")
	newer, _ := w.Stored(t, "stable/latest.json")
	plant(t, w, "stable/latest.json", older)
	round()
	wants("1.2.0", 0)
	w.Clock.Move(time.Minute)
	round()
	wants("1.3.0", 0)
	clear(store.Asked)
	round()
	if store.Count("Stat log/stable/0000000004.json") != 1 {
		t.Errorf("until the manifest is that of the log a round asked for %v", store.Asked)
	}
	plant(t, w, "stable/latest.json", newer)
	round()
	wants("1.3.0", 0)

	d.PublishVersion(t, "stable", "1.4.0")
	plant(t, w, "stable/latest.json", newer)
	waits := make(chan struct{})
	go func() { u.Heads.Await(t.Context()); close(waits) }()
	apitest.Eventually(t, "somebody waits", u.Heads.Awaited)
	round()
	<-waits
	wants("1.4.0", 0)

	// A pause that was entered counts after one round, as does the step before it.
	d.PublishWith(t, "1.5.0", func(o *release.PublishOptions) { o.Rollout = &channels.Rollout{Steps: []int{50}} })
	round()
	clear(store.Asked)
	round()
	if want := map[string]int{"Stat stable/latest.json": 1, "Stat beta/latest.json": 1, "Stat log/stable/0000000006.json": 1}; !maps.Equal(store.Asked, want) {
		t.Errorf("a round while 1.5.0 is being rolled out asked for %v", store.Asked)
	}
	rolling, _ := w.Stored(t, "stable/latest.json")
	if _, err := d.Pause(t.Context(), release.Options{Channel: "stable", Why: "crashes"}); err != nil {
		t.Fatal(err)
	}
	plant(t, w, "stable/latest.json", rolling)
	round()
	if in := u.Heads.Channels()["stable"]; in.Rolling() != "" || in.Sequence != 6 {
		t.Errorf("entry %d counts, %q is being rolled out", in.Sequence, in.Rolling())
	}

	// A log that was shortened is noticed within a minute.
	if err := w.Objects.Delete(t.Context(), "log/stable/0000000006.json"); err != nil {
		t.Fatal(err)
	}
	w.Clock.Move(time.Minute)
	round()
	wants("1.4.0", 1)
	if got := u.Get("/updates/stable/latest.json"); !bytes.Contains(got.Body, []byte(`"1.4.0"`)) {
		t.Errorf("%d %.300s", got.Status, got.Body)
	}
}
