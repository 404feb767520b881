package updates_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/manifest/updater"
	"tsmon/release"
	"tsmon/store/object"
)

// to are the options of a move of stable.
func to(why string) release.Options { return release.Options{Channel: "stable", Why: why} }

// share are those of a move that gives a release to a share of the clients.
func share(percent int) release.Options {
	return release.Options{Channel: "stable", Rollout: &channels.Rollout{Steps: []int{percent}}}
}

// partly lets a share of the clients get what is published, and insiders.
func partly(percent int) func(*release.PublishOptions) {
	return func(o *release.PublishOptions) {
		o.Rollout = &channels.Rollout{Steps: []int{percent}, Cohorts: []string{"internal"}}
	}
}

// insider is an application of the cohort that gets everything first.
func (d *desktop) insider() {
	d.cohort = "internal"
	d.Header.Set(cohortHeader, d.cohort)
}

// TestWatersheds: every application passes all watersheds that stand above what
// it has, in order, until there is nothing more for it.
func TestWatersheds(t *testing.T) { testWatersheds(t, apitest.Embedded(t)) }

func testWatersheds(t *testing.T, w *apitest.World) {
	f := newFleet(t, w, 1)
	d := f.desk
	chains := func(insider bool, want map[string]string) {
		t.Helper()
		for installed, chain := range want {
			client := f.desktop(installed)
			if insider {
				client.insider()
			}
			for len(client.chain) < 10 && client.visit() != "" {
			}
			if got := strings.Join(client.chain[1:], " "); got != chain {
				t.Errorf("from %s an application goes to %q, want %q", installed, got, chain)
			}
		}
	}
	flagged := func(percent int) func(*release.PublishOptions) {
		return func(o *release.PublishOptions) { partly(percent)(o); o.Extra.Watershed = true }
	}
	d.PublishWith(t, "1.1.0", flagged(100))
	d.PublishWith(t, "1.2.0", partly(100))
	d.PublishWith(t, "1.3.0", flagged(100))
	f.settle(t)(d.TryPublish(t, "1.4.0", "", partly(100)))
	chains(false, map[string]string{
		"0.9.0": "1.1.0 1.3.0 1.4.0", "1.0.0": "1.1.0 1.3.0 1.4.0", "1.1.0": "1.3.0 1.4.0", "1.2.0": "1.3.0 1.4.0",
		"1.3.0": "1.4.0", "1.4.0": "", "1.1.0-rc.1": "1.1.0 1.3.0 1.4.0", "2.0.0": "",
	})
	// One that was rolled back holds nobody up, and whoever has more stays.
	f.settle(t)(d.Rollback(t.Context(), release.RollbackOptions{Options: to("crashes"), To: "1.2.0"}))
	chains(false, map[string]string{"0.9.0": "1.1.0 1.2.0", "1.1.0": "1.2.0", "1.2.0": "", "1.3.0": "", "1.4.0": ""})
	// One that is rolled out is on the way of those who get it, once there is more.
	f.settle(t)(d.TryPublish(t, "1.5.0", "", flagged(0)))
	chains(false, map[string]string{"0.9.0": "1.1.0 1.2.0", "1.4.0": ""})
	chains(true, map[string]string{"0.9.0": "1.1.0 1.5.0", "1.4.0": "1.5.0", "1.5.0": ""})
	f.settle(t)(d.TryPublish(t, "1.6.0", "", partly(0)))
	chains(false, map[string]string{"0.9.0": "1.1.0 1.2.0", "1.4.0": ""})
	chains(true, map[string]string{"0.9.0": "1.1.0 1.5.0 1.6.0", "1.4.0": "1.5.0 1.6.0", "1.5.0": "1.6.0"})
}

// TestWatershedOfOnePlatform: a watershed lets the platforms pass that it has nothing
// for.
func TestWatershedOfOnePlatform(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	d.PublishWith(t, "1.1.0", func(o *release.PublishOptions) { o.Extra.Watershed = true }) // for Linux alone
	d.PublishVersion(t, "stable", "1.2.0")
	server := w.Serve(t)
	nobody := apitest.Client{TB: t, Base: server.URL}
	for path, want := range map[string]string{
		"linux/x86_64/0.9.0": "1.1.0", "linux/x86_64/1.0.0": "1.1.0", "linux/x86_64/1.1.0": "1.2.0",
		"windows/x86_64/0.9.0": "1.2.0", "windows/x86_64/1.0.0": "1.2.0", "windows/x86_64/1.1.0": "1.2.0", "windows/x86_64/1.2.0": "none",
		"darwin/aarch64/0.9.0": "1.2.0", "darwin/x86_64/1.0.0": "1.2.0",
	} {
		if got := nobody.Get("/updates/stable/" + path).Version(t); got != want {
			t.Errorf("%s is offered %s, want %s", path, got, want)
		}
	}
}

// TestBadRelease: a release goes to half of the clients, is paused, goes on to
// everybody and is rolled back, while clients ask all the time and new ones come.
func TestBadRelease(t *testing.T) { testBadRelease(t, apitest.Embedded(t)) }

func testBadRelease(t *testing.T, w *apitest.World) {
	f := newFleet(t, w, 1)
	d := f.desk
	join := func(installed string) []*desktop {
		return f.join(20, installed, func(i int, d *desktop) {
			if d.plain = i%5 == 0; i%5 == 1 {
				d.insider()
			}
		})
	}
	want := func(who []*desktop, versions map[string]int) {
		t.Helper()
		if got := f.installed(who); !maps.Equal(got, versions) {
			t.Errorf("applications have %v, want %v", got, versions)
		}
	}
	old := append(join("0.9.0"), join("1.0.0")...)
	f.settle(t)(d.TryPublish(t, "1.1.0", "", partly(50)))
	half := f.installed(old)
	if n := half["1.1.0"]; n <= 8 || n >= 32 || n+half["1.0.0"] != 40 { // 8 ask for the manifest, and 8 are insiders
		t.Errorf("at 50 %% applications have %v", half)
	}

	f.settle(t)(d.Pause(t.Context(), to("crashes")))
	half = f.installed(old) // as the last had it before they could see the pause
	late := join("0.9.0")
	f.round(t)
	want(old, half)
	want(late, map[string]int{"1.0.0": 20})

	f.settle(t)(d.Resume(t.Context(), to("it was the network")))
	want(old, half)
	if some := f.installed(late); some["1.1.0"] <= 4 || some["1.1.0"]+some["1.0.0"] != 20 {
		t.Errorf("after the pause new applications have %v", some)
	}

	f.settle(t)(d.Rollout(t.Context(), share(100)))
	want(append(old, late...), map[string]int{"1.1.0": 60})
	f.settle(t)(d.Rollback(t.Context(), release.RollbackOptions{Options: to("crashes")}))
	latest := append(join("0.9.0"), join("1.0.0")...)
	f.round(t)
	want(append(old, late...), map[string]int{"1.1.0": 60})
	want(latest, map[string]int{"1.0.0": 40})
	f.judge(t)
}

// takeable are the ways to take the store of a world away, and what gives it back.
func takeable(w *apitest.World) (ways []func(), back func()) {
	if w.MinIO != nil {
		return []func(){w.MinIO.Stop}, w.MinIO.Start
	}
	f := apitest.Unsteady(w)
	gone := errors.Join(object.ErrUnavailable, errors.New(apitest.Detail))
	return []func(){
		func() { f.Fail(gone, "objects.") },
		func() { f.Fail(gone, "objects.Stat", "objects.Read") }, // what is opened breaks off
	}, func() { f.Fail(nil) }
}

// TestStoreOutages takes the store away and gives it back while a rollout goes on
// and clients ask and download: what they are told stays right, bundles break off
// or don't come, and all is well again without a restart.
func TestStoreOutages(t *testing.T) { testStoreOutages(t, apitest.Embedded(t)) }

func testStoreOutages(t *testing.T, w *apitest.World) {
	ways, back := takeable(w)
	f := newFleet(t, w, 1)
	server := apitest.Client{TB: t, Base: f.servers[0].base}
	content := strings.Repeat("0123456789abcdef", 1<<16)
	report, err := f.desk.TryPublish(t, "1.1.0", content, partly(50))
	f.join(20, "1.0.0", func(i int, d *desktop) { d.plain, d.keeps = i%5 == 0, true })
	f.settle(t)(report, err)
	path := "/updates/releases/1.1.0/" + report.Bundles[0].Name
	f.repeat(10*time.Millisecond, f.reader(path, server.Get(path)))
	more := func(what string, number int) (wait func()) {
		enough := f.counted(what) + number
		return func() { t.Helper(); apitest.Eventually(t, what, func() bool { return f.counted(what) >= enough }) }
	}
	for _, away := range ways {
		f.outages.Add(1)
		away()
		told, broken := more("told", 50), more("broken", 10)
		ready(w, server, 503)
		cold(t, f)
		told()
		broken()
		back()
		ready(w, server, 200)
		f.outages.Add(1)
		verified, read := more("verified", 10), more("read", 10)
		verified()
		read()
	}
	f.settle(t)(f.desk.Rollout(t.Context(), share(100)))
	f.judge(t)
}

// ready waits until a server reports that its updates work, or that they don't.
func ready(w *apitest.World, c apitest.Client, status int) {
	c.TB.Helper()
	state := map[int]string{200: "ok", 503: "failing"}[status]
	apitest.Eventually(c.TB, "ready: "+state, func() bool {
		w.Clock.Move(2 * time.Second) // it asks the back ends once a second
		got := c.Get("/readyz?for=updates")
		return got.Status == status && strings.Contains(string(got.Body), `"objects":"`+state+`"`) && strings.Contains(string(got.Body), `"updates":"`+state+`"`)
	})
}

// cold starts another server while the store is away: it does not know whether
// there is an update, and never says that there is none.
func cold(t *testing.T, f *crowd) {
	t.Helper()
	base := f.w.Serve(t).URL
	d := f.desktop("1.0.0")
	d.HTTP, d.Endpoints = &http.Client{Transport: f.base}, []string{base + "/updates/stable/{{target}}/{{arch}}/{{current_version}}", base + "/updates/stable/latest.json"}
	result, err := d.Check(t.Context())
	if !errors.Is(err, updater.ErrNoRelease) || len(result.Attempts) != 2 || result.Attempts[0].Status != 503 || result.Attempts[1].Status != 503 {
		t.Errorf("a server that knows nothing says %+v, %v", result.Attempts, err)
	}
}

// reader asks for a bundle in one way after another: what comes is what was
// published, and breaks off only while the store is away.
func (f *crowd) reader(path string, file apitest.Answer) func() {
	etag, size := file.Header["Etag"], len(file.Body)
	ways := []struct {
		header http.Header
		status int
		body   []byte
	}{
		{http.Header{}, 200, file.Body},
		{http.Header{"Range": {"bytes=1000-99999"}}, 206, file.Body[1000:100_000]},
		{http.Header{"Range": {"bytes=-5000"}, "If-Range": etag}, 206, file.Body[size-5000:]},
		{http.Header{"If-None-Match": etag}, 304, nil},
	}
	n := 0
	return func() {
		way, before := ways[n%len(ways)], f.outages.Load()
		n++
		got, err := f.ask(f.servers[0].base+path, way.header)
		switch {
		case f.ctx.Err() != nil:
		case (err != nil || got.Status == 503) && f.shaken(before):
			f.count("broken")
		case err != nil || got.Status != way.status || !bytes.Equal(got.Body, way.body):
			f.wrong("%v of a bundle: %d, %d bytes, %v", way.header, got.Status, len(got.Body), err)
		default:
			f.count("read")
		}
	}
}

// TestTwoPublishers: two publishers move a channel at once while clients ask two
// servers in turn. Afterwards everything agrees with the log; then a release goes
// to more and more clients, and who was offered it once is never offered less.
func TestTwoPublishers(t *testing.T) { testTwoPublishers(t, apitest.Embedded(t)) }

func testTwoPublishers(t *testing.T, w *apitest.World) {
	f := newFleet(t, w, 2)
	f.join(24, "0.9.0", func(i int, d *desktop) {
		d.plain, d.keeps = i%8 == 0, i%2 == 0
		if i%8 == 1 {
			d.insider()
		}
	})
	second := *f.desk.Publisher
	second.Who = "second"
	desks := []apitest.Desk{f.desk, {Publisher: &second, Key: f.desk.Key}}
	var version atomic.Int64
	made := make([][]*release.Plan, len(desks))
	apitest.Concurrently(len(desks), func(i int) { made[i] = f.race(desks[i], &version, 3*i) })
	log := f.agree(t)
	for i, d := range desks {
		for _, r := range made[i] {
			if !slices.ContainsFunc(log.Entries, func(e channels.Entry) bool {
				return e.Sequence == r.Sequence && (e.Newest() == r.Version || e.Version == r.Version)
			}) {
				t.Errorf("%s says that %s of %s is entry %d, which it is not", d.Who, r.Action, r.Version, r.Sequence)
			}
		}
	}

	before := len(f.answers())
	f.settle(t)(f.desk.TryPublish(t, "2.0.0", "", partly(5)))
	for i, percent := range []int{20, 50, 90, 100} {
		f.settle(t)(desks[i%2].Rollout(t.Context(), share(percent)))
	}
	f.agree(t)
	onlyRises(t, f.answers()[before:], "2.0.0")
}

// race moves stable in every way, beginning with a given one, while others do the
// same, and returns what it did: who comes late is told so.
func (f *crowd) race(d apitest.Desk, versions *atomic.Int64, begin int) (made []*release.Plan) {
	next := func(change func(*release.PublishOptions)) (*release.Plan, error) {
		return d.TryPublish(f.t, fmt.Sprintf("1.%d.0", versions.Add(1)), "", change)
	}
	why := d.Who + " says so"
	moves := []func() (*release.Plan, error){
		func() (*release.Plan, error) { return next(partly(25)) },
		func() (*release.Plan, error) { return d.Rollout(f.ctx, share(60)) },
		func() (*release.Plan, error) { return d.Pause(f.ctx, to(why)) },
		func() (*release.Plan, error) { return d.Resume(f.ctx, to(why)) },
		func() (*release.Plan, error) { return d.Rollout(f.ctx, share(100)) },
		func() (*release.Plan, error) { return next(func(o *release.PublishOptions) { o.Channel = "beta" }) },
		func() (*release.Plan, error) {
			return d.Promote(f.ctx, release.PromoteOptions{Options: share(40), From: "beta"})
		},
		func() (*release.Plan, error) { return d.Rollback(f.ctx, release.RollbackOptions{Options: to(why)}) },
	}
	for n := range 2 * len(moves) {
		report, err := moves[(begin+n)%len(moves)]()
		switch {
		case err == nil:
			if f.count("moves"); report.Channel == "stable" {
				made = append(made, report)
			}
		case errors.As(err, new(*channels.ConflictError)):
			f.count("conflicts")
		case errors.As(err, new(*release.Refusal)):
			f.count("refusals")
		default:
			f.wrong("%s: %v", d.Who, err)
		}
	}
	return made
}

// onlyRises demands that a version which a client was offered once is offered to
// it ever after, until it has it, by every server that has seen as much.
func onlyRises(t *testing.T, answers []told, version string) {
	t.Helper()
	since := map[string]uint64{} // entry that the first offer came from, at the latest
	again := 0
	for _, a := range answers {
		first, offered := since[a.id]
		switch {
		case !offered && a.offered == version:
			since[a.id] = a.last
		case offered && a.first >= first && a.installed != version && a.offered != version:
			t.Errorf("%+v: it was offered %s before, by entry %d", a, version, first)
		case offered:
			again++
		}
	}
	if len(since) != 24 || again < 24 {
		t.Errorf("%d of 24 clients were offered %s, %d times again", len(since), version, again)
	}
}
