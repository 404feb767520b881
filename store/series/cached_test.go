package series_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/store/series"
	"tsmon/store/series/seriestest"
	"tsmon/store/series/sqlite"
)

// watched is a real store whose queries are counted and, while gate is set, wait
// for it.
type watched struct {
	series.Store
	queries atomic.Int64
	wants   atomic.Int64
	gate    chan struct{}
	began   chan struct{} // gets one for each query
	fail    atomic.Bool
}

var errDown = fmt.Errorf("pulled the plug: %w", series.ErrUnavailable)

func (w *watched) Current(ctx context.Context, database string, wants []series.Want) ([]series.Value, error) {
	w.queries.Add(1)
	w.wants.Add(int64(len(wants)))
	if w.gate != nil {
		w.began <- struct{}{}
		select {
		case <-w.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if w.fail.Load() {
		return nil, errDown
	}
	return w.Store.Current(ctx, database, wants)
}

// fixture is a cache over a watched store with the database "db".
type fixture struct {
	*series.Cached
	below *watched
	clock atomic.Int64
}

func (f *fixture) now() time.Time { return time.Unix(0, f.clock.Load()) }

func (f *fixture) pass(d time.Duration) { f.clock.Add(int64(d)) }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{}
	f.clock.Store(seriestest.Clock.UnixNano())
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "series.db"), sqlite.Options{Now: f.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	f.below = &watched{Store: store, began: make(chan struct{}, 1000)}
	f.Cached = series.NewCached(f.below)
	f.Now = f.now
	t.Cleanup(f.Close)
	if err := f.Create(t.Context(), "db"); err != nil {
		t.Fatal(err)
	}
	return f
}

// write writes the value of m.f as of now.
func (f *fixture) write(t *testing.T, value float64) {
	t.Helper()
	s := series.Sample{Measurement: "m", Fields: map[string]any{"f": value}, Time: f.now()}
	if err := f.Write(t.Context(), "db", []series.Sample{s}); err != nil {
		t.Fatal(err)
	}
}

func want(field string) series.Want {
	return series.Want{Key: series.Key{Measurement: "m", Field: field}}
}

// wantNumber checks one value and how many queries there have been so far.
func (f *fixture) wantNumber(t *testing.T, w series.Want, number float64, queries int64) {
	t.Helper()
	values, err := f.Current(t.Context(), "db", []series.Want{w})
	if err != nil {
		t.Fatal(err)
	}
	if !values[0].Found || values[0].Number != number {
		t.Errorf("%s of %s is %+v, not %v", w.Aggregate, w.Key, values[0], number)
	}
	if n := f.below.queries.Load(); n != queries {
		t.Errorf("%d queries, not %d", n, queries)
	}
}

// TestCachedContract has the cache pass the suite with a clock that leaves
// nothing fresh.
func TestCachedContract(t *testing.T) {
	seriestest.Suite(t, func(t *testing.T, now func() time.Time) series.Store {
		store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "series.db"), sqlite.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		c := series.NewCached(store)
		var ticks atomic.Int64
		c.Now = func() time.Time { return time.Unix(ticks.Add(60), 0) }
		t.Cleanup(c.Close)
		return c
	})
}

func TestCachedLifetimes(t *testing.T) {
	for _, c := range []struct {
		want series.Want
		life time.Duration
	}{
		{series.Want{}, 2 * time.Second},
		{series.Want{Window: 10 * time.Hour}, 2 * time.Second},
		{series.Want{Aggregate: series.Max, Window: time.Minute}, 2 * time.Second},
		{series.Want{Aggregate: series.Max, Window: 5000 * time.Second}, 5 * time.Second},
		{series.Want{Aggregate: series.Max}, 30 * time.Second},
		{series.Want{Aggregate: series.Max, Window: 240 * time.Hour}, 30 * time.Second},
	} {
		f := newFixture(t)
		f.write(t, 1)
		c.want.Key = want("f").Key
		f.wantNumber(t, c.want, 1, 1)
		f.write(t, 5)
		f.pass(c.life - 1)
		f.wantNumber(t, c.want, 1, 1)
		f.pass(1)
		f.wantNumber(t, c.want, 5, 2)
		f.pass(-time.Hour) // a clock that was set back
		f.write(t, 7)
		f.pass(time.Second)
		f.wantNumber(t, c.want, 7, 3)
	}
}

func TestCachedNormal(t *testing.T) {
	f := newFixture(t)
	f.write(t, 1)
	mean := series.Want{Key: want("f").Key, Aggregate: series.Mean}
	f.wantNumber(t, mean, 1, 1)
	mean.Window = series.DefaultWindow
	f.wantNumber(t, mean, 1, 1)
	mean.Window = time.Hour
	f.wantNumber(t, mean, 1, 2)
	values, err := f.Current(t.Context(), "db", []series.Want{want("none"), want("f"), want("none"), want("f")})
	if err != nil || values[0].Found || !values[1].Found || values[2].Found || !values[3].Found {
		t.Errorf("%+v, %v", values, err)
	}
	f.wantNumber(t, want("f"), 1, 3) // missing ones are remembered too
	if n := f.below.wants.Load(); n != 4 {
		t.Errorf("%d wants reached the store", n)
	}
	if _, err := f.Current(t.Context(), "db", []series.Want{want("none")}); err != nil || f.below.queries.Load() != 3 {
		t.Errorf("%d queries, error %v", f.below.queries.Load(), err)
	}
}

// TestCachedErrors checks that an error is not remembered, and that an old value
// does not stand in for it.
func TestCachedErrors(t *testing.T) {
	f := newFixture(t)
	f.write(t, 1)
	f.wantNumber(t, want("f"), 1, 1)
	f.below.fail.Store(true)
	f.wantNumber(t, want("f"), 1, 1)
	f.pass(2 * time.Second)
	if _, err := f.Current(t.Context(), "db", []series.Want{want("f")}); !errors.Is(err, errDown) {
		t.Errorf("the error is %v", err)
	}
	f.below.fail.Store(false)
	f.wantNumber(t, want("f"), 1, 3)
	for _, bad := range []series.Want{want("_f"), {Key: want("f").Key, Aggregate: 9}} {
		if _, err := f.Current(t.Context(), "db", []series.Want{bad}); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	if _, err := f.Current(t.Context(), "none", []series.Want{want("f")}); !errors.Is(err, series.ErrNoDatabase) {
		t.Errorf("the error is %v", err)
	}
	f.wantNumber(t, want("f"), 1, 4)
}

// asking is a call of Current in the background.
type asking struct {
	cancel context.CancelFunc
	done   chan error
}

func (f *fixture) ask(t *testing.T, fields ...string) asking {
	ctx, cancel := context.WithCancel(t.Context())
	a := asking{cancel, make(chan error, 1)}
	var wants []series.Want
	for _, field := range fields {
		wants = append(wants, want(field))
	}
	go func() {
		_, err := f.Current(ctx, "db", wants)
		a.done <- err
	}()
	return a
}

// await returns when so many callers wait.
func (f *fixture) await(n int) {
	for f.Waiters("db") < n {
		runtime.Gosched()
	}
}

// TestCachedJoins lets callers come while a query runs: those that want the same
// share it, all others share the next one.
func TestCachedJoins(t *testing.T) {
	f := newFixture(t)
	f.write(t, 1)
	f.below.gate = make(chan struct{})
	first := f.ask(t, "f")
	<-f.below.began
	var others sync.WaitGroup
	joined := f.Waiters("db")
	for i := range 50 {
		a := f.ask(t, "f", fmt.Sprint("g", i%10))
		others.Go(func() {
			if err := <-a.done; err != nil {
				t.Error(err)
			}
		})
	}
	f.await(joined + 100) // 50 callers that wait for two queries each
	close(f.below.gate)
	if err := <-first.done; err != nil {
		t.Error(err)
	}
	others.Wait()
	if q, w := f.below.queries.Load(), f.below.wants.Load(); q != 2 || w != 11 {
		t.Errorf("%d queries for %d wants", q, w)
	}
}

// TestCachedCallerLeaves checks that a query goes on without the caller that
// began it, and ends with the last.
func TestCachedCallerLeaves(t *testing.T) {
	f := newFixture(t)
	f.write(t, 1)
	f.below.gate = make(chan struct{})
	first, second := f.ask(t, "f"), f.ask(t, "f")
	<-f.below.began
	f.await(2)
	first.cancel()
	if err := <-first.done; !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	f.below.gate <- struct{}{}
	if err := <-second.done; err != nil {
		t.Error(err)
	}
	f.pass(time.Minute)
	third := f.ask(t, "f")
	<-f.below.began
	third.cancel()
	<-third.done
	fourth := f.ask(t, "f") // is not handed the end of the third
	<-f.below.began
	f.below.gate <- struct{}{}
	if err := <-fourth.done; err != nil {
		t.Error(err)
	}
}

func TestCachedTimeout(t *testing.T) {
	f := newFixture(t)
	f.Timeout = time.Millisecond
	f.below.gate = make(chan struct{})
	if err := <-f.ask(t, "f").done; !errors.Is(err, series.ErrSlow) {
		t.Errorf("the error is %v", err)
	}
}

func TestCachedClose(t *testing.T) {
	f := newFixture(t)
	f.below.gate = make(chan struct{})
	a := f.ask(t, "f")
	<-f.below.began
	f.Close()
	if err := <-a.done; !errors.Is(err, series.ErrUnavailable) {
		t.Errorf("the error is %v", err)
	}
	if _, err := f.Current(t.Context(), "db", []series.Want{want("f")}); !errors.Is(err, series.ErrUnavailable) {
		t.Errorf("the error is %v", err)
	}
}

// TestCachedBounds fills the cache with keys that will never be asked for again.
func TestCachedBounds(t *testing.T) {
	f := newFixture(t)
	f.Size, f.Batch = 100, 7
	f.write(t, 1)
	for i := range 50 {
		var wants []series.Want
		for j := range 20 {
			wants = append(wants, want(fmt.Sprint("x", i*20+j)))
		}
		if _, err := f.Current(t.Context(), "db", append(wants, want("f"))); err != nil {
			t.Fatal(err)
		}
		if n := f.Remembered(); n > f.Size {
			t.Fatalf("%d values are remembered", n)
		}
	}
	if q, w := f.below.queries.Load(), f.below.wants.Load(); w/q > 7 {
		t.Errorf("%d queries for %d wants", q, w)
	}
}

// TestCachedForget has another process write after a value was cached, and while a
// query runs.
func TestCachedForget(t *testing.T) {
	f := newFixture(t)
	most := series.Want{Key: want("f").Key, Aggregate: series.Max}
	f.write(t, 1)
	f.wantNumber(t, most, 1, 1)
	f.write(t, 5)
	f.wantNumber(t, most, 1, 1)
	f.Forget("other")
	f.wantNumber(t, most, 1, 1)
	f.Forget("db")
	f.pass(1)
	f.wantNumber(t, most, 5, 2)
	f.Forget("db")
	f.pass(1)
	f.below.gate = make(chan struct{})
	ended := make(chan error)
	go func() {
		_, err := f.Current(t.Context(), "db", []series.Want{most})
		ended <- err
	}()
	<-f.below.began
	f.pass(1)
	f.Forget("db")
	close(f.below.gate)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	f.below.gate = nil
	f.write(t, 9)
	f.wantNumber(t, most, 9, 4)
}
