package influx

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/store/series"
	"tsmon/store/series/seriestest"
	"tsmon/store/servertest"
)

// patience is a server's on a busy machine, where it takes a minute for what is a second's
// work elsewhere.
const patience = 4 * time.Minute

func TestContractGemini(t *testing.T) {
	server := servertest.StartOpenGemini(t)
	limits := seriestest.Limits{
		Since: time.Unix(0, 0), Column: isColumn, Integer: 1<<63 - 513, TagsApart: true,
		Measurement: func(name string) bool { return len(name) <= 250 && !strings.ContainsAny(name, ",;/\\\u00a0") },
	}
	seriestest.SuiteWithin(t, limits, func(t *testing.T, now func() time.Time) series.Store {
		return open(t, Options{URL: server.URL, Now: now, Timeout: patience})
	})
	t.Run("Rollups", func(t *testing.T) { testRollups(t, Options{URL: server.URL, Timeout: patience}) })
	t.Run("OwnRetention", func(t *testing.T) { testOwnRetention(t, Options{URL: server.URL, Timeout: patience}) })
}

// TestGeminiStoreKilled kills each of two stores in turn while several write and ask all
// the time. A call is unavailable or does all of its work: no answer lacks what had been
// acknowledged before the question, and all of that is there at the end.
func TestGeminiStoreKilled(t *testing.T) {
	server := servertest.StartOpenGemini(t)
	s := open(t, Options{URL: server.URL, Timeout: patience})
	if err := s.Create(t.Context(), "killed"); err != nil {
		t.Fatal(err)
	}
	l := startLoad(t, s, "killed")
	l.await(t, "before")
	for i := range server.Stores {
		server.Stores[i].Stop()
		l.kills.Add(1)
		l.await(t, fmt.Sprint("without store ", i))
		server.Stores[i].Start()
		l.await(t, fmt.Sprintf("with store %d again", i))
	}
	l.end()
	other := open(t, Options{URL: server.URL, Timeout: patience}) // which remembers nothing
	for _, w := range l.writers {
		for i, v := range get(t, other, "killed", w.wants...) {
			if n := w.stored.Load(); v.Number != float64(n) {
				t.Errorf("%s is %+v after %d writes", w.wants[i].Key, v, n)
			}
		}
	}
}

// load is what some write to a database and ask of it, all the time.
type load struct {
	store    *Store
	database string
	start    time.Time
	writers  []*loadWriter
	calls    []*loadCalls
	kills    atomic.Int64
	ending   atomic.Bool
	all      sync.WaitGroup
}

// loadWriter writes a value of 1 to each of its series, at one time after another.
type loadWriter struct {
	wants  []series.Want
	stored atomic.Int64 // writes that were acknowledged
}

// loadCalls counts the calls of one caller.
type loadCalls struct {
	done, failed atomic.Int64
	survived     atomic.Int64 // kills during a call
}

func startLoad(t *testing.T, s *Store, database string) *load {
	l := &load{store: s, database: database, start: time.Now().Add(-time.Hour)}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		l.end()
	})
	for i := range 4 {
		w := &loadWriter{}
		for j := range 20 {
			key := series.Key{Measurement: fmt.Sprintf("w%dm%d", i, j), Field: "f"}
			w.wants = append(w.wants, series.Want{Key: key, Aggregate: series.Sum})
		}
		l.writers = append(l.writers, w)
		l.repeat(ctx, t, func() error { return l.write(ctx, w) })
		l.repeat(ctx, t, func() error { return l.ask(ctx, t, w) })
	}
	return l
}

// repeat calls until the load ends, and then until a call has succeeded.
func (l *load) repeat(ctx context.Context, t *testing.T, call func() error) {
	c := &loadCalls{}
	l.calls = append(l.calls, c)
	l.all.Go(func() {
		for ctx.Err() == nil {
			kills := l.kills.Load()
			err := call()
			if l.kills.Load() > kills {
				c.survived.Add(1)
			}
			if err == nil {
				c.done.Add(1)
				if l.ending.Load() {
					return
				}
				continue
			}
			c.failed.Add(1)
			if !errors.Is(err, series.ErrUnavailable) && ctx.Err() == nil {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(lookAgain):
			}
		}
	})
}

// write writes the next value of each series. Where it fails they may be stored: the next
// write replaces them.
func (l *load) write(ctx context.Context, w *loadWriter) error {
	at := l.start.Add(time.Duration(w.stored.Load()) * time.Millisecond)
	var samples []series.Sample
	for _, want := range w.wants {
		samples = append(samples, series.Sample{Measurement: want.Measurement, Fields: map[string]any{"f": 1.0}, Time: at})
	}
	err := l.store.Write(ctx, l.database, samples)
	if err == nil {
		w.stored.Add(1)
	}
	return err
}

// ask asks for what was written.
func (l *load) ask(ctx context.Context, t *testing.T, w *loadWriter) error {
	before := w.stored.Load()
	values, err := l.store.Current(ctx, l.database, w.wants)
	begun := w.stored.Load() + 1
	for i, v := range values {
		if v.Number < float64(before) || v.Number > float64(begun) {
			t.Errorf("%s is %+v, of %d to %d writes", w.wants[i].Key, v, before, begun)
		}
	}
	return err
}

// await waits until each caller has had an answer to a call that it began meanwhile.
func (l *load) await(t *testing.T, when string) {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	var failed, survived int64
	for _, c := range l.calls {
		// The first of two answers may be to a call that was begun before.
		for until := c.done.Load() + 2; c.done.Load() < until; <-tick.C {
			if t.Failed() || time.Since(begin) > 2*patience {
				t.Fatalf("%s: not well after %s", when, time.Since(begin))
			}
		}
		failed, survived = failed+c.failed.Load(), survived+c.survived.Load()
	}
	if want := l.kills.Load(); survived < want {
		t.Errorf("%s: %d calls were under way at %d kills", when, survived, want)
	}
	t.Logf("%s: well after %s; %d calls have failed, %d were under way at a kill", when, time.Since(begin).Round(time.Millisecond), failed, survived)
}

// end ends the load once each caller has had an answer.
func (l *load) end() {
	l.ending.Store(true)
	l.all.Wait()
}

// TestLatest: of two values of one series and time the later is sent.
func TestLatest(t *testing.T) {
	at := func(second int, fields map[string]any) series.Sample {
		return series.Sample{Measurement: "m", Tags: map[string]string{"a": "b"}, Time: time.Unix(int64(second), 0), Fields: fields}
	}
	other := at(1, map[string]any{"f": 9.0})
	other.Tags = nil
	samples := []series.Sample{at(1, map[string]any{"f": 1.0, "g": 1.0}), at(1, map[string]any{"h": 1.0}), other, at(1, map[string]any{"f": 2.0, "h": 2.0}), at(2, map[string]any{"f": 3.0})}
	want := []series.Sample{at(1, map[string]any{"g": 1.0}), other, samples[3], samples[4]}
	if got := latest(samples); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := latest(want); got != nil {
		t.Errorf("nothing is replaced in %v, got %v", want, got)
	}
}
