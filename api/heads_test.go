//go:build unported

package api_test

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

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/store/object"
	"tsmon/store/object/objecttest"
)

func init() {
	interfaceTests["heads follow the store"] = testHeadsFollow
	interfaceTests["heads outlive the store"] = testHeadsOutlive
}

// still makes a server without a goroutine of its own: rounds are the test's.
func (w *apitest.World) still(tb testing.TB) *api.Server {
	tb.Helper()
	s := api.New(w.Options)
	s.heads.begin.Do(func() {})
	tb.Cleanup(s.Close)
	return s
}

// testHeadsFollow: what is published is served within the time, nothing is read
// twice, and a channel that is new, or gone, is noticed.
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
	before := store.Count("Get stable/latest.json")
	rounds := store.Count("Stat stable/latest.json")
	apitest.Eventually(t, "some looks", func() bool { return store.Count("Stat stable/latest.json") > rounds+5 })
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
	s := w.still(t)
	if _, err := s.heads.of(t.Context(), "stable"); err != nil {
		t.Fatal(err)
	}
	store.Fail(func(context.Context) error { return fs.ErrNotExist })
	s.heads.round(t.Context())
	if _, err := s.heads.of(t.Context(), "stable"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
	store.Fail(func(context.Context) error { return object.ErrNoStore })
	w.Clock.Move(time.Minute)
	if _, err := s.heads.of(t.Context(), "stable"); !errors.Is(err, object.ErrNoStore) {
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
	s := w.still(t)
	s.heads.round(t.Context())
	store.Fail(apitest.Unavailable)
	for channel, version := range map[string]string{"stable": "1.0.0", "beta": "1.1.0"} {
		if shown, err := s.heads.of(t.Context(), channel); err != nil || shown.version != version {
			t.Errorf("%s: %+v, %v", channel, shown, err)
		}
	}
}

// TestHeadsHostileNames: what is no name never reaches the store.
func TestHeadsHostileNames(t *testing.T) {
	w := apitest.Embedded(t)
	store := w.WatchObjects()
	s := w.still(t)
	for _, name := range append(objecttest.BadKeys, "Stable", "log", "releases", "uploads", "stable/x", "-x", "1x", "x_y", "x y", "ñ", strings.Repeat("x", 33), "../stable", "stable%00") {
		if _, err := s.heads.of(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if len(store.Asked) > 0 || len(s.heads.asked) > 0 {
		t.Errorf("the store was asked for %v, remembered are %v", store.Asked, s.heads.asked)
	}
}

// TestHeadsAskOnce: however many ask for a name that no channel has, the store is
// asked once in a refresh time.
func TestHeadsAskOnce(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	store := w.WatchObjects()
	s := w.still(t)
	free := make(chan struct{})
	store.Fail(func(context.Context) error { <-free; return nil })
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() {
			if _, err := s.heads.of(t.Context(), "beta"); !errors.Is(err, fs.ErrNotExist) {
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
	for _, step := range []time.Duration{0, s.Refresh / 2, s.Refresh/2 - time.Second} {
		w.Clock.Move(step)
		if _, err := s.heads.of(t.Context(), "beta"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the error is %v", err)
		}
	}
	if now := store.Count("Stat beta/latest.json"); now != before {
		t.Errorf("the store was asked %d times more", now-before)
	}
	w.Clock.Move(2 * time.Second)
	if shown, err := s.heads.of(t.Context(), "beta"); err != nil || shown.version != "1.0.0" {
		t.Errorf("%+v, %v", shown, err)
	}
}

// TestHeadsKeepNewer: an answer to a question for a name that comes late puts
// nothing older in the place of what the rounds have seen meanwhile.
func TestHeadsKeepNewer(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	s := w.still(t)
	if _, err := s.heads.of(t.Context(), "stable"); err != nil {
		t.Fatal(err)
	}
	known := (*s.heads.known.Load())["stable"]
	late, mine := s.heads.join("stable") // of somebody who saw before that it was not known
	if !mine {
		t.Fatal("somebody else answers")
	}
	s.heads.lookUp(t.Context(), "stable", late)
	if (*s.heads.known.Load())["stable"] != known {
		t.Error("the channel that the rounds look after was replaced")
	}
}

// TestHeadsForgetNames: names are not remembered without bound, a clock that was
// set back keeps none for longer, and a failure is not remembered at all.
func TestHeadsForgetNames(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	store := w.WatchObjects()
	s := w.still(t)
	for i := range 3 * maxAsked {
		if _, err := s.heads.of(t.Context(), fmt.Sprintf("x%d", i)); !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if n := len(s.heads.asked); n > maxAsked {
		t.Errorf("%d names are remembered", n)
	}
	w.Clock.Move(-time.Hour)
	name := fmt.Sprintf("x%d", 3*maxAsked-1)
	before := store.Count("Stat " + channels.ManifestKey(name))
	if _, err := s.heads.of(t.Context(), name); !errors.Is(err, fs.ErrNotExist) || store.Count("Stat "+channels.ManifestKey(name)) == before {
		t.Errorf("remembered for an hour: %v", err)
	}
	store.Fail(apitest.Unavailable)
	if _, err := s.heads.of(t.Context(), "stable"); !errors.Is(err, object.ErrUnavailable) {
		t.Errorf("the error is %v", err)
	}
	store.Fail(nil)
	if shown, err := s.heads.of(t.Context(), "stable"); err != nil || shown.version != "1.0.0" {
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
	s := api.New(w.Options)
	s.heads.patience = 100 * time.Millisecond
	if _, err := s.heads.of(t.Context(), "stable"); err != nil {
		t.Fatal(err)
	}
	store.Fail(apitest.Hang)
	var asking sync.WaitGroup
	for i := range 40 {
		asking.Go(func() {
			if _, err := s.heads.of(t.Context(), fmt.Sprintf("x%d", i)); !errors.Is(err, object.ErrUnavailable) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	for range 10 {
		before := store.Count("Stat stable/latest.json")
		apitest.Eventually(t, "another look", func() bool { return store.Count("Stat stable/latest.json") > before })
		if shown, err := s.heads.of(t.Context(), "stable"); err != nil || shown.version != "1.0.0" {
			t.Errorf("%+v, %v", shown, err)
		}
	}
	asking.Wait()
	if store.Most > 2*maxLooks+1 { // of each kind, and the other records
		t.Errorf("the store was asked %d times at once", store.Most)
	}
	s.heads.patience = time.Hour
	s.Close() // ends a look that hangs
	s.Close()
	late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s.Watch(late)
	if store.Running > 0 {
		t.Error("the store is asked after Close")
	}
}

// TestHeadsPatience: who asked first for a name may go, and the others get what
// the store says.
func TestHeadsPatience(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	store := w.WatchObjects()
	s := w.still(t)
	free := make(chan struct{})
	store.Fail(func(ctx context.Context) error {
		<-free
		return ctx.Err()
	})
	first, leave := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() { _, _ = s.heads.of(first, "stable") })
	apitest.Eventually(t, "the question", func() bool { return store.Count("Stat stable/latest.json") == 1 })
	asking.Go(func() {
		if shown, err := s.heads.of(t.Context(), "stable"); err != nil || shown.version != "1.0.0" {
			t.Errorf("%+v, %v", shown, err)
		}
	})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.heads.of(gone, "stable"); !errors.Is(err, context.Canceled) {
		t.Errorf("who is gone still waits: %v", err)
	}
	leave()
	close(free)
	asking.Wait()
	if n := store.Count("Stat stable/latest.json"); n != 1 {
		t.Errorf("the store was asked %d times", n)
	}
}

// TestHeadsAfterAPanic: who waits for a question that broke is not left waiting.
func TestHeadsAfterAPanic(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	store := w.WatchObjects()
	s := w.still(t)
	store.Fail(func(context.Context) error { panic("broken") })
	func() {
		defer func() { _ = recover() }()
		_, _ = s.heads.of(t.Context(), "stable")
		t.Error("there was no panic")
	}()
	store.Fail(nil)
	if shown, err := s.heads.of(t.Context(), "stable"); err != nil || shown.version != "1.0.0" {
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

// testHeadsOutlive takes the store away and gives it back while clients ask and
// somebody publishes: every answer is a manifest that the channel had, none goes
// back, and in the end all see the last.
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
		if got := nobody.Get("/readyz"); got.Status != 503 || !strings.Contains(string(got.Body), `"objects":"failing"`) || !strings.Contains(string(got.Body), `"updates":"ok"`) {
			t.Errorf("without the store: %d %s", got.Status, got.Body)
		}
		store.Fail(nil)
		publish(fmt.Sprintf("1.%d.0", i+1))
		want, _ := w.Stored(t, "stable/latest.json")
		apitest.Eventually(t, "what was published meanwhile", func() bool {
			return bytes.Equal(nobody.Get("/updates/stable/latest.json").Body, want)
		})
		w.Clock.Move(2 * time.Second)
		apitest.Eventually(t, "ready", func() bool { return nobody.Get("/readyz").Status == 200 })
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
