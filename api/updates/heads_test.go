package updates_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/api"
	"tsmon/api/apitest"
	"tsmon/api/updates"
	"tsmon/channels"
	"tsmon/store/object"
	"tsmon/store/object/objecttest"
)

// still serves updates without a goroutine of its own: the test makes the rounds.
func still(tb testing.TB, w *apitest.World) *apitest.Updates {
	tb.Helper()
	u := w.ServeUpdates(tb)
	u.Heads.Still()
	return u
}

// TestHeadsFollow: what is published is served within the refresh time, unchanged
// manifests are not read again, and a new channel is noticed.
func TestHeadsFollow(t *testing.T) { testHeadsFollow(t, apitest.Embedded(t)) }

func testHeadsFollow(t *testing.T, w *apitest.World) {
	d := w.Desk(t)
	store := w.WatchObjects()
	w.Refresh = 20 * time.Millisecond
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	nobody.Get("/updates/stable/latest.json").WantFailure(t, 404)
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		d.PublishVersion(t, "stable", version)
		want, _ := w.Stored(t, "stable/latest.json")
		apitest.Eventually(t, version, func() bool {
			return bytes.Equal(nobody.Get("/updates/stable/latest.json").Body, want)
		})
	}
	looks := func(n int) {
		rounds := store.Count("Stat stable/latest.json")
		apitest.Eventually(t, "some looks", func() bool { return store.Count("Stat stable/latest.json") > rounds+n })
	}
	looks(2) // an entry of the log is shown before the manifest that goes with it was read
	before := store.Count("Get stable/latest.json")
	looks(5)
	if now := store.Count("Get stable/latest.json"); now != before {
		t.Errorf("what had not changed was read %d times", now-before)
	}
	d.PublishVersion(t, "beta", "2.0.0")
	apitest.Eventually(t, "a new channel", func() bool { return nobody.Get("/updates/beta/latest.json").Status == 200 })
}

// TestHeadsKeepNothingDeleted: what is taken out of the store by hand is gone.
func TestHeadsKeepNothingDeleted(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	store := w.WatchObjects()
	u := still(t, w)
	if _, err := u.Heads.Version(t.Context(), "stable"); err != nil {
		t.Fatal(err)
	}
	store.Fail(func(context.Context) error { return fs.ErrNotExist })
	u.Heads.Round(t.Context())
	if _, err := u.Heads.Version(t.Context(), "stable"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
	store.Fail(func(context.Context) error { return object.ErrNoStore })
	w.Clock.Move(time.Minute)
	if _, err := u.Heads.Version(t.Context(), "stable"); !errors.Is(err, object.ErrNoStore) {
		t.Errorf("the error is %v", err)
	}
}

// TestHeadsKnowAllChannels: those with a log are read before anybody asks.
func TestHeadsKnowAllChannels(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	d.PublishVersion(t, "beta", "1.1.0")
	store := w.WatchObjects()
	u := still(t, w)
	u.Heads.Round(t.Context())
	store.Fail(apitest.Unavailable)
	for channel, version := range map[string]string{"stable": "1.0.0", "beta": "1.1.0"} {
		if shown, err := u.Heads.Version(t.Context(), channel); err != nil || shown != version {
			t.Errorf("%s: %+v, %v", channel, shown, err)
		}
	}
}

// TestHeadsHostileNames: what is no name never reaches the store.
func TestHeadsHostileNames(t *testing.T) {
	w := apitest.Embedded(t)
	store := w.WatchObjects()
	u := still(t, w)
	for _, name := range append(objecttest.BadKeys, "Stable", "log", "releases", "uploads", "stable/x", "-x", "1x", "x_y", "x y", "ñ", strings.Repeat("x", 33), "../stable", "stable%00") {
		if _, err := u.Heads.Version(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if len(store.Asked) > 0 || u.Heads.Absent() > 0 {
		t.Errorf("the store was asked for %v, %d names are remembered", store.Asked, u.Heads.Absent())
	}
}

// TestHeadsAskOnce: however many ask for a name that no channel has, the store is
// asked once in a refresh time.
func TestHeadsAskOnce(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	store := w.WatchObjects()
	u := still(t, w)
	free := make(chan struct{})
	store.Fail(func(context.Context) error { <-free; return nil })
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() {
			if _, err := u.Heads.Version(t.Context(), "beta"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	apitest.Eventually(t, "one question", func() bool { return store.Count("Stat beta/latest.json") == 1 })
	close(free)
	asking.Wait()
	store.Fail(nil)
	d.PublishVersion(t, "beta", "1.0.0")
	before := store.Count("Stat beta/latest.json")
	for _, step := range []time.Duration{0, w.Refresh / 2, w.Refresh/2 - time.Second} {
		w.Clock.Move(step)
		if _, err := u.Heads.Version(t.Context(), "beta"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the error is %v", err)
		}
	}
	if now := store.Count("Stat beta/latest.json"); now != before {
		t.Errorf("the store was asked %d times more", now-before)
	}
	w.Clock.Move(2 * time.Second)
	if shown, err := u.Heads.Version(t.Context(), "beta"); err != nil || shown != "1.0.0" {
		t.Errorf("%+v, %v", shown, err)
	}
}

// TestHeadsKeepNewer: an answer to a question for a name that comes late puts
// nothing older in the place of what the rounds have seen meanwhile.
func TestHeadsKeepNewer(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	u := still(t, w)
	if _, err := u.Heads.Version(t.Context(), "stable"); err != nil {
		t.Fatal(err)
	}
	// Somebody saw before that the channel was not known, and looks it up late.
	if same, err := u.Heads.LookUp(t.Context(), "stable"); err != nil || !same {
		t.Errorf("the channel that the rounds refresh was replaced, %v", err)
	}
}

// TestHeadsForgetNames: names are not remembered without bound, a clock that was
// set back keeps none for longer, and a failure is not remembered at all.
func TestHeadsForgetNames(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	store := w.WatchObjects()
	u := still(t, w)
	for i := range 3 * updates.MaxAbsent {
		if _, err := u.Heads.Version(t.Context(), fmt.Sprintf("x%d", i)); !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if n := u.Heads.Absent(); n > updates.MaxAbsent {
		t.Errorf("%d names are remembered", n)
	}
	w.Clock.Move(-time.Hour)
	name := fmt.Sprintf("x%d", 3*updates.MaxAbsent-1)
	before := store.Count("Stat " + channels.ManifestKey(name))
	if _, err := u.Heads.Version(t.Context(), name); !errors.Is(err, fs.ErrNotExist) || store.Count("Stat "+channels.ManifestKey(name)) == before {
		t.Errorf("remembered for an hour: %v", err)
	}
	w.Clock.Move(time.Hour) // or the log would be from the future
	store.Fail(apitest.Unavailable)
	if _, err := u.Heads.Version(t.Context(), "stable"); !errors.Is(err, object.ErrUnavailable) {
		t.Errorf("the error is %v", err)
	}
	store.Fail(nil)
	if shown, err := u.Heads.Version(t.Context(), "stable"); err != nil || shown != "1.0.0" {
		t.Errorf("%+v, %v", shown, err)
	}
}

// TestHeadsHang: a store that hangs keeps nobody waiting for what is known, or
// for long, and looks at it do not pile up.
func TestHeadsHang(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	store := w.WatchObjects()
	w.Refresh = 10 * time.Millisecond
	u := w.ServeUpdates(t)
	u.Heads.SetPatience(100 * time.Millisecond)
	if _, err := u.Heads.Version(t.Context(), "stable"); err != nil {
		t.Fatal(err)
	}
	store.Fail(apitest.Hang)
	var asking sync.WaitGroup
	for i := range 40 {
		asking.Go(func() {
			if _, err := u.Heads.Version(t.Context(), fmt.Sprintf("x%d", i)); !errors.Is(err, object.ErrUnavailable) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	for range 10 {
		before := store.Count("Stat stable/latest.json")
		apitest.Eventually(t, "another look", func() bool { return store.Count("Stat stable/latest.json") > before })
		if shown, err := u.Heads.Version(t.Context(), "stable"); err != nil || shown != "1.0.0" {
			t.Errorf("%+v, %v", shown, err)
		}
	}
	asking.Wait()
	if store.Most > 2*updates.MaxLooks+1 { // of each kind, and the other records
		t.Errorf("the store was asked %d times at once", store.Most)
	}
	u.Server.Close()
	u.Server.Close()
	late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	u.Server.Watch(late)
	if store.Running > 0 {
		t.Error("the store is asked after Close")
	}
}

// TestHeadsCloseEndsALook: Close does not wait for a store that hangs.
func TestHeadsCloseEndsALook(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	store := w.WatchObjects()
	w.Refresh = 10 * time.Millisecond
	u := w.ServeUpdates(t)
	u.Heads.SetPatience(time.Hour)
	if _, err := u.Heads.Version(t.Context(), "stable"); err != nil {
		t.Fatal(err)
	}
	store.Fail(apitest.Hang)
	apitest.Eventually(t, "a look", func() bool { return store.Busy() })
	u.Server.Close()
	if store.Busy() {
		t.Error("the store is asked after Close")
	}
}

// TestHeadsPatience: who asked first for a name may go, and the others get what
// the store says.
func TestHeadsPatience(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	store := w.WatchObjects()
	u := still(t, w)
	free := make(chan struct{})
	store.Fail(func(ctx context.Context) error {
		<-free
		return ctx.Err()
	})
	first, leave := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() { _, _ = u.Heads.Version(first, "stable") })
	apitest.Eventually(t, "the question", func() bool { return store.Count("Stat stable/latest.json") == 1 })
	asking.Go(func() {
		if shown, err := u.Heads.Version(t.Context(), "stable"); err != nil || shown != "1.0.0" {
			t.Errorf("%+v, %v", shown, err)
		}
	})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := u.Heads.Version(gone, "stable"); !errors.Is(err, context.Canceled) {
		t.Errorf("who is gone still waits: %v", err)
	}
	leave()
	close(free)
	asking.Wait()
	if n := store.Count("Stat stable/latest.json"); n != 1 {
		t.Errorf("the store was asked %d times", n)
	}
}

// TestHeadsAfterAPanic: a look-up that panics fails, for all that wait for it, and is
// not remembered.
func TestHeadsAfterAPanic(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	store := w.WatchObjects()
	u := still(t, w)
	store.Fail(func(context.Context) error { panic("broken") })
	if _, err := u.Heads.Version(t.Context(), "stable"); err == nil || !strings.Contains(err.Error(), "panic: broken") {
		t.Errorf("the error is %v", err)
	}
	store.Fail(nil)
	if shown, err := u.Heads.Version(t.Context(), "stable"); err != nil || shown != "1.0.0" {
		t.Errorf("%+v, %v", shown, err)
	}
}

// shownLog is a log of the manifests that a channel had, in order.
type shownLog struct {
	mu    sync.Mutex
	place map[string]int // by their bytes
}

func (l *shownLog) add(publish func() []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.place[string(publish())] = len(l.place) + 1
}

// of is the place of a manifest; 0 for one that the channel never had. While
// something is published it waits.
func (l *shownLog) of(manifest []byte) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.place[string(manifest)]
}

// TestHeadsOutlive takes the store away and gives it back while clients ask and
// somebody publishes: every answer is a manifest that the channel had, none goes
// back, and in the end all see the last.
func TestHeadsOutlive(t *testing.T) { testHeadsOutlive(t, apitest.Embedded(t)) }

func testHeadsOutlive(t *testing.T, w *apitest.World) {
	d := w.Desk(t) // whose store stays
	store := w.WatchObjects()
	w.Refresh = 10 * time.Millisecond
	server := w.Serve(t)
	log := &shownLog{place: map[string]int{}}
	publish := func(version string) {
		log.add(func() []byte {
			d.PublishVersion(t, "stable", version)
			data, _ := w.Stored(t, "stable/latest.json")
			return data
		})
	}
	publish("1.0.0")
	nobody := apitest.Client{TB: t, Base: server.URL}
	apitest.Eventually(t, "the first", func() bool { return nobody.Get("/updates/stable/latest.json").Status == 200 })

	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() { followChannel(ctx, t, server.URL, log) })
	}
	faults := []func(context.Context) error{apitest.Unavailable, apitest.Hang, func(context.Context) error { return object.ErrNoStore }}
	for i, fault := range faults {
		store.Fail(fault)
		w.Clock.Move(2 * time.Second)
		if got := nobody.Get("/readyz?for=updates"); got.Status != 503 || !strings.Contains(string(got.Body), `"objects":"failing"`) {
			t.Errorf("without the store: %d %s", got.Status, got.Body)
		}
		store.Fail(nil)
		publish(fmt.Sprintf("1.%d.0", i+1))
		want, _ := w.Stored(t, "stable/latest.json")
		apitest.Eventually(t, "what was published meanwhile", func() bool {
			return bytes.Equal(nobody.Get("/updates/stable/latest.json").Body, want)
		})
		w.Clock.Move(2 * time.Second)
		apitest.Eventually(t, "ready", func() bool { return nobody.Get("/readyz?for=updates").Status == 200 })
	}
	stop()
	asking.Wait()
	if n := strings.Count(w.Logged.String(), "channels are shown as they last were"); n == 0 || n > len(faults) {
		t.Errorf("the outages were logged %d times", n)
	}
}

// followChannel asks for a manifest again and again, with the ETag of the last.
func followChannel(ctx context.Context, t *testing.T, base string, log *shownLog) {
	etag, place := "", 0
	for ctx.Err() == nil {
		got := apitest.Client{TB: t, Base: base}.Attempt(apitest.NewRoute("GET", "/updates/stable/latest.json", ""), http.Header{"If-None-Match": {etag}})
		switch at := log.of(got.Body); {
		case got.Status == 304 && got.Header.Get("ETag") == etag:
		case got.Status != 200 || at < max(place, 1):
			t.Errorf("the channel went from its state %d to %d: %d %.200s", place, at, got.Status, got.Body)
			return
		default:
			etag, place = got.Header.Get("ETag"), at
		}
	}
}

// TestHeadsWarn: a server that trusts no key says so, once.
func TestHeadsWarn(t *testing.T) {
	for _, trusts := range []bool{true, false} {
		w := apitest.Embedded(t)
		if trusts {
			w.Desk(t)
		}
		s := api.New(w.Options)
		s.Watch(t.Context())
		s.Watch(t.Context())
		s.Close()
		if got := strings.Count(w.Logged.String(), `"level":"`+slog.LevelWarn.String()+`","msg":"no key is trusted`); got == 1 == trusts || got > 1 {
			t.Errorf("trusting %v: warned %d times\n%s", trusts, got, w.Logged.String())
		}
	}
}
