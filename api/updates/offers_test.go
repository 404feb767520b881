package updates_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/api"
	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/release"
	"tsmon/store/object"
)

// linux is a client that asks for linux-x86_64.
func linux(c apitest.Client, version, id string) apitest.Answer {
	c.TB.Helper()
	header := http.Header{}
	if id != "" {
		header.Set(clientHeader, id)
	}
	return c.Send("GET", "/updates/stable/linux/x86_64/"+url.PathEscape(version), nil, header)
}

func TestOffers(t *testing.T) { testOffers(t, apitest.Embedded(t)) }

func testOffers(t *testing.T, w *apitest.World) {
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	server := w.Serve(t)
	nobody := apitest.Client{TB: t, Base: server.URL}
	for path, want := range map[string]string{
		"stable/linux/x86_64/0.9.0": "1.0.0", "stable/linux/x86_64/1.0.0": "none", "stable/linux/x86_64/v1.0.0": "none", "stable/linux/x86_64/1.1.0": "none",
		"stable/linux/x86_64/1.0.0-rc.1": "1.0.0", "stable/linux/x86_64/1.0.0%2Bbuild": "none", "stable/linux/x86_64/0.9.0?bundle_type=appimage": "1.0.0",
		"stable/linux/x86_64/0.9.0?bundle_type=unknown": "1.0.0", "stable/darwin/aarch64/0.1.0": "1.0.0", "stable/windows/x86_64/0.1.0?bundle_type=msi": "1.0.0",
		"stable/windows/x86_64/0.1.0?bundle_type=nsis": "none", // there is an MSI alone
	} {
		for _, prefix := range []string{"", "/api"} {
			got := nobody.Get(prefix + "/updates/" + path)
			if version := got.Version(t); version != want || got.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s is told %s (%v), want %s", path, version, got.Header, want)
			}
		}
	}
	// In doubt the client is not told that there is none.
	for path, status := range map[string]int{
		"stable/plan9/mips/0.9.0": 404, "stable/linux/i686/1.0.0": 404, "none/linux/x86_64/0.9.0": 404, "releases/1.0.0/staged/linux.json": 404,
		"Stable/linux/x86_64/0.9.0": 404, "stable/linux/x86_64/one": 500, "stable/linux/x86_64/1.0": 500, "stable/linux/x86_64/%00": 500,
		"stable/linux/x86_64/" + strings.Repeat("9", 3000): 500, "stable/linux/x86_64/": 404, "stable/linux/" + strings.Repeat("x", 5000) + "/1.0.0": 404,
	} {
		nobody.Get("/updates/"+path).WantFailure(t, status)
	}
	nobody.Send("POST", "/updates/stable/linux/x86_64/0.9.0", nil, nil).WantFailure(t, 405)
}

func TestRollout(t *testing.T) { testRollout(t, apitest.Embedded(t)) }

func testRollout(t *testing.T, w *apitest.World) {
	w.Refresh = 50 * time.Millisecond
	d := w.Desk(t)
	d.PublishWith(t, "1.0.0", func(*release.PublishOptions) {})
	d.PublishWith(t, "1.1.0", func(o *release.PublishOptions) {
		o.Rollout = &channels.Rollout{Steps: []int{25, 50}, Every: channels.Duration(time.Hour), Cohorts: []string{"internal"}}
		o.Extra = manifest.Extra{MinimumVersion: "1.1.0", Critical: true}
	})
	server := w.Serve(t)
	nobody := apitest.Client{TB: t, Base: server.URL}
	count := func(installed string) (told map[string]int, in []string) {
		t.Helper()
		told = map[string]int{}
		for i := range 400 {
			id := fmt.Sprint("client ", i)
			version := linux(nobody, installed, id).Version(t)
			if told[version]++; version == "1.1.0" {
				in = append(in, id)
			}
		}
		return told, in
	}
	told, first := count("0.9.0")
	if n := told["1.1.0"]; n < 70 || n > 130 || n+told["1.0.0"] != 400 {
		t.Errorf("at 25 %% 400 clients are told %v", told)
	}
	if again, same := count("0.9.0"); again["1.1.0"] != told["1.1.0"] || !slices.Equal(same, first) {
		t.Error("who is in changed between two questions")
	}
	for id, want := range map[string]string{"": "1.0.0", strings.Repeat("x", 129): "1.0.0"} {
		if got := linux(nobody, "0.9.0", id).Version(t); got != want {
			t.Errorf("a client without a usable id is told %s", got)
		}
	}
	got := nobody.Send("GET", "/updates/stable/linux/x86_64/1.0.0", nil, http.Header{cohortHeader: {"internal"}})
	var extra manifest.Extra
	if err := json.Unmarshal(got.Body, &extra); got.Version(t) != "1.1.0" || err != nil || extra != (manifest.Extra{MinimumVersion: "1.1.0", Critical: true}) {
		t.Errorf("a cohort is told %s", got.Body)
	}
	// The next step has all of the first. Held clients that are up to date hear so.
	w.Clock.Move(time.Hour)
	if report, err := d.Advance(t.Context(), release.Options{Channel: "stable"}); err != nil || report.Rollout == nil || report.Rollout.Percent != 50 {
		t.Fatalf("%+v, %v", report, err)
	}
	seen(t, "the step", func() bool { later, _ := count("1.0.0"); return later["1.1.0"] > told["1.1.0"] })
	later, second := count("1.0.0")
	if n := later["1.1.0"]; n < 160 || n > 240 || n+later["none"] != 400 {
		t.Errorf("at 50 %% 400 clients are told %v", later)
	}
	for _, id := range first {
		if !slices.Contains(second, id) {
			t.Errorf("%s was in and is no longer", id)
		}
	}
	// What the manifest shows, everybody gets; a pause is seen within the refresh time.
	if got := nobody.Get("/updates/stable/latest.json"); !strings.Contains(string(got.Body), `"version": "1.0.0"`) {
		t.Errorf("the manifest shows %.200s", got.Body)
	}
	if _, err := d.Pause(t.Context(), release.Options{Channel: "stable", Why: "crashes"}); err != nil {
		t.Fatal(err)
	}
	seen(t, "the pause", func() bool { return linux(nobody, "1.0.0", first[0]).Version(t) == "none" })
	if _, err := d.Resume(t.Context(), release.Options{Channel: "stable"}); err != nil {
		t.Fatal(err)
	}
	seen(t, "the resumption", func() bool { return linux(nobody, "1.0.0", first[0]).Version(t) == "1.1.0" })
	if _, err := d.Rollout(t.Context(), release.Options{Channel: "stable", Rollout: &channels.Rollout{Steps: []int{100}}}); err != nil {
		t.Fatal(err)
	}
	seen(t, "the end", func() bool { return linux(nobody, "1.0.0", "").Version(t) == "1.1.0" })
}

// TestOffersFollowTheLog: a pause that was entered and not shown yet, as by a
// command that was killed, holds all the same, and the server knows that there is
// something left to do.
func TestOffersFollowTheLog(t *testing.T) {
	w := apitest.Embedded(t)
	w.Refresh = 50 * time.Millisecond
	d := w.Desk(t)
	d.PublishWith(t, "1.0.0", func(*release.PublishOptions) {})
	d.PublishWith(t, "1.1.0", func(o *release.PublishOptions) { o.Rollout = &channels.Rollout{Steps: []int{99}} })
	handler := api.New(w.Options)
	server := httptest.NewServer(handler.Handler())
	t.Cleanup(func() { server.Close(); handler.Close() })
	nobody := apitest.Client{TB: t, Base: server.URL}
	seen(t, "the rollout", func() bool { return linux(nobody, "1.0.0", "a").Version(t) == "1.1.0" })
	repository := channels.Repository{Store: w.Objects}
	log := apitest.Must[*channels.Log](t)(repository.Load(t.Context(), "stable"))
	pause := *log.Head()
	pause.Action, pause.Why, pause.Rollout = channels.Pause, "crashes", pause.Rollout.Pause(w.Clock.Now())
	apitest.Must[*channels.Log](t)(repository.Append(t.Context(), log, pause))
	seen(t, "the pause", func() bool { return linux(nobody, "1.0.0", "a").Version(t) == "none" })
	// That the manifest is behind is found out right after the pause counts.
	seen(t, "that the manifest is behind", func() bool { return slices.Equal(unfinished(handler, w.Clock.Now()), []string{"stable"}) })
	if report, err := d.Finish(t.Context(), "stable"); err != nil || !report.Changed {
		t.Fatalf("%+v, %v", report, err)
	}
	seen(t, "the manifest", func() bool { return len(unfinished(handler, w.Clock.Now())) == 0 })
}

// TestOffersWhilePublishing: no client is refused while a channel moves, whichever
// of log and manifest the server has seen.
func TestOffersWhilePublishing(t *testing.T) {
	w := apitest.Embedded(t)
	w.Refresh = 2 * time.Millisecond
	d := w.Desk(t)
	d.PublishWith(t, "1.0.0", func(*release.PublishOptions) {})
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	d.PublishWith(t, "1.1.0", func(o *release.PublishOptions) { o.Rollout = &channels.Rollout{Steps: []int{99}} })
	published := make(chan error, 1)
	go func() {
		var errs []error
		for range 15 {
			_, err := d.Pause(t.Context(), release.Options{Channel: "stable", Why: "crashes"})
			_, err2 := d.Resume(t.Context(), release.Options{Channel: "stable"})
			errs = append(errs, err, err2)
		}
		published <- errors.Join(errs...)
	}()
	for asked := 0; ; asked++ {
		if version := linux(nobody, "0.9.0", "a").Version(t); version != "1.0.0" && version != "1.1.0" {
			t.Fatalf("question %d: a client is told %s", asked, version)
		}
		select {
		case err := <-published:
			if err != nil || asked < 30 {
				t.Errorf("%d questions beside it: %v", asked, err)
			}
			return
		default:
		}
	}
}

// seen polls until something that was published is served.
func seen(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(30 * time.Second); !condition(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s is not seen", what)
		}
	}
}

// TestOffersNeverUnverified: a rollout whose candidate does not verify is not
// offered; what was offered before still is, and the metrics have an alarm. The same
// holds while the store is away.
func TestOffersNeverUnverified(t *testing.T) {
	w := apitest.Embedded(t)
	w.Refresh = 50 * time.Millisecond
	d := w.Desk(t)
	d.PublishWith(t, "1.0.0", func(*release.PublishOptions) {})
	f := apitest.Unsteady(w)
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	seen(t, "the release", func() bool { return linux(nobody, "0.9.0", "").Version(t) == "1.0.0" })

	foreign := w.Desk(t) // whose key the server that runs does not know
	foreign.Keys = append(foreign.Keys, d.Keys...)
	foreign.PublishWith(t, "1.1.0", func(o *release.PublishOptions) { o.Rollout = &channels.Rollout{Steps: []int{99}} })
	seen(t, "the alarm", func() bool { return nobody.Alarms() == 1 })
	for i := range 50 {
		if got := linux(nobody, "0.9.0", fmt.Sprint(i)).Version(t); got != "1.0.0" {
			t.Fatalf("a client is offered %s, which no trusted key signed", got)
		}
	}
	f.Fail(errors.Join(object.ErrUnavailable, errors.New(apitest.Detail)), "objects.")
	for i := range 50 {
		if got := linux(nobody, "0.9.0", fmt.Sprint(i)).Version(t); got != "1.0.0" {
			t.Fatalf("without the store a client is offered %s", got)
		}
	}
}

// BenchmarkOffer measures the answer to one client, with a rollout and 200
// entries in the log; the store is not asked.
func BenchmarkOffer(b *testing.B) {
	w := apitest.Embedded(b)
	d := w.Desk(b)
	d.PublishWith(b, "1.0.0", func(*release.PublishOptions) {})
	repository := channels.Repository{Store: w.Objects}
	log := apitest.Must[*channels.Log](b)(repository.Load(b.Context(), "stable"))
	for range 198 {
		e := *log.Head()
		e.Action, e.Why = channels.Promote, "again"
		log = apitest.Must[*channels.Log](b)(repository.Append(b.Context(), log, e))
	}
	d.PublishWith(b, "1.1.0", func(o *release.PublishOptions) { o.Rollout = &channels.Rollout{Steps: []int{50}} })
	handler := api.New(w.Options)
	defer handler.Close()
	routes := handler.Handler()
	writer := &discarded{}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r, err := http.NewRequest("GET", "http://127.0.0.1/updates/stable/linux/x86_64/1.0.0", nil)
		if err != nil {
			b.Fatal(err)
		}
		r.RemoteAddr = "127.0.0.1:4711"
		r.Header.Set(clientHeader, fmt.Sprint(i))
		writer.header = http.Header{}
		routes.ServeHTTP(writer, r)
		if writer.status != 200 && writer.status != 204 {
			b.Fatal(writer.status)
		}
	}
}

// discarded is where an answer goes that nobody reads.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }
func (d *discarded) WriteHeader(status int)      { d.status = status }

// unfinished names the channels that somebody should bring up to date.
func unfinished(s *api.Server, now time.Time) (names []string) {
	for name, c := range s.Channels() {
		due, steps := c.NextStep()
		if c.Shown && (steps && !now.Before(due) || c.Behind) {
			names = append(names, name)
		}
	}
	return names
}

// TestOffersByType: no client is offered a bundle that does not suit its type.
func TestOffersByType(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	bundles := func(names ...string) func(*release.PublishOptions) {
		return func(o *release.PublishOptions) { o.Bundles = apitest.Bundles(t, o.Version, names...) }
	}
	d.PublishWith(t, "1.0.0", bundles("App_1.0.0_amd64.AppImage", "App_1.0.0_amd64.deb", "App_1.0.0_x64-setup.exe", "App_1.0.0_x64_en-US.msi", "App_1.0.0_arm64-setup.exe"))
	server := w.Serve(t)
	nobody := apitest.Client{TB: t, Base: server.URL}
	for path, want := range map[string]string{
		"linux/x86_64/0.9.0?bundle_type=deb":                 "App_1.0.0_amd64.deb",
		"linux/x86_64/0.9.0?bundle_type=appimage":            "App_1.0.0_amd64.AppImage",
		"linux/x86_64/0.9.0?bundle_type=unknown":             "App_1.0.0_amd64.AppImage",
		"linux/x86_64/0.9.0":                                 "App_1.0.0_amd64.AppImage",
		"linux/x86_64/0.9.0?bundle_type=flatpak":             "App_1.0.0_amd64.AppImage",
		"linux/x86_64/0.9.0?bundle_type=msi":                 "App_1.0.0_amd64.AppImage",
		"linux/x86_64/0.9.0?bundle_type=rpm":                 "none",
		"windows/x86_64/0.9.0?bundle_type=msi":               "App_1.0.0_x64_en-US.msi",
		"windows/x86_64/0.9.0?bundle_type=nsis":              "App_1.0.0_x64-setup.exe",
		"windows/x86_64/0.9.0":                               "App_1.0.0_x64-setup.exe",
		"windows/aarch64/0.9.0?bundle_type=msi":              "none",
		"windows/aarch64/0.9.0?bundle_type=nsis":             "App_1.0.0_arm64-setup.exe",
		"windows-x86_64/x86_64/0.9.0":                        "App_1.0.0_x64-setup.exe", // set with target()
		"windows-x86_64/x86_64/0.9.0?bundle_type=msi":        "App_1.0.0_x64_en-US.msi",
		"windows-x86_64-msi/x86_64/0.9.0":                    "App_1.0.0_x64_en-US.msi",
		"linux-x86_64-deb/x86_64/0.9.0":                      "App_1.0.0_amd64.deb",
		"linux-x86_64-deb/x86_64/0.9.0?bundle_type=unknown":  "App_1.0.0_amd64.deb",
		"linux-x86_64-deb/x86_64/0.9.0?bundle_type=appimage": "App_1.0.0_amd64.AppImage",
		"linux-x86_64-rpm/x86_64/0.9.0":                      "none",
		"windows-x86_64/aarch64/0.9.0":                       "App_1.0.0_x64-setup.exe",
	} {
		got := nobody.Get("/updates/stable/" + path)
		switch got.Version(t) {
		case "none":
			if shows := got.Header.Get("X-Tsmon-Shows"); want != "none" || shows != "1.0.0" {
				t.Errorf("%s is told nothing, and that stable shows %q; want %s", path, shows, want)
			}
		default:
			if !strings.Contains(string(got.Body), "/"+want+`"`) {
				t.Errorf("%s is offered %.200s, want %s", path, got.Body, want)
			}
		}
	}
	for _, path := range []string{"windows-x86_64/mips/0.9.0", "windows-mips/x86_64/0.9.0", "linux-x86_64-msi/x86_64/0.9.0", "windows-x86_64-/x86_64/0.9.0",
		"-/x86_64/0.9.0", "windows%2Dx86_64%2D/x86_64/0.9.0", "linux/x86_64-deb/0.9.0", "darwin-universal/x86_64/0.9.0"} {
		nobody.Get("/updates/stable/"+path).WantFailure(t, 404)
	}
}

// TestDowngrades: with allow_downgrades both addresses give the same after a rollback;
// applications that only go forward ignore it.
func TestDowngrades(t *testing.T) {
	w := apitest.Embedded(t)
	w.Downgrades = map[string]bool{"stable": true}
	d := w.Desk(t)
	for _, channel := range []string{"stable", "beta"} {
		d.PublishVersion(t, channel, "1.0.0")
		d.PublishVersion(t, channel, "1.1.0")
		if _, err := d.Rollback(t.Context(), release.RollbackOptions{Options: release.Options{Channel: channel, Why: "crashes"}}); err != nil {
			t.Fatal(err)
		}
	}
	server := w.Serve(t)
	for _, c := range []struct {
		channel    string
		downgrades bool
		want       map[string]string // by address
	}{
		{"stable", true, map[string]string{"latest.json": "1.0.0", "{{target}}/{{arch}}/{{current_version}}": "1.0.0"}},
		{"stable", false, map[string]string{"latest.json": "none", "{{target}}/{{arch}}/{{current_version}}": "none"}},
		{"beta", true, map[string]string{"latest.json": "1.0.0", "{{target}}/{{arch}}/{{current_version}}": "none"}},
	} {
		for address, want := range c.want {
			u := updater.Updater{Endpoints: []string{server.URL + "/updates/" + c.channel + "/" + address},
				Client: manifest.Client{Version: "1.1.0", Target: "linux-x86_64", Downgrades: c.downgrades}}
			got := "none"
			result, err := u.Check(t.Context())
			if err == nil && result.Offer != nil {
				got = result.Offer.Version
			}
			if err != nil || got != want || result.Shows != "1.0.0" {
				t.Errorf("%s from %s, downgrades %v: %s (shows %q), %v; want %s", c.channel, address, c.downgrades, got, result.Shows, err, want)
			}
		}
	}
}
