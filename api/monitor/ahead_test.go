package monitor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"tsmon/api/monitor/times"
	"tsmon/store/series"
	"tsmon/store/series/sqlite"
)

// asked counts the questions to a store, and panics at one of them.
type asked struct {
	series.Store
	count  atomic.Int64
	read   chan struct{} // gets one for each
	fields chan string   // gets the first of each, unless it is nil
	panics int64
}

func (a *asked) Series(ctx context.Context, database string, ranges []series.Range) ([]series.Result, error) {
	if a.count.Add(1) == a.panics {
		panic("at the disco")
	}
	if a.fields != nil {
		a.fields <- ranges[0].Field
	}
	results, err := a.Store.Series(ctx, database, ranges)
	a.read <- struct{}{}
	return results, err
}

// stuck is a client that takes nothing until it goes away.
type stuck struct{ writes, gone chan struct{} }

var errGone = errors.New("gone")

func (s stuck) Write([]byte) (int, error) {
	close(s.writes) // a second write panics
	<-s.gone
	return 0, errGone
}

var lately = time.Date(2026, 3, 5, 15, 0, 0, 0, time.UTC)

// asking returns values on an empty store that counts, or panics at a question.
func asking(t *testing.T, panics int64) (*values, *asked) {
	t.Helper()
	file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "series.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if err := file.Create(t.Context(), "ts"); err != nil {
		t.Fatal(err)
	}
	store := &asked{Store: file, read: make(chan struct{}, 100), panics: panics}
	return &values{
		Options: Options{Now: func() time.Time { return lately }, Deadline: 20 * time.Second},
		store:   series.NewCached(store), turns: newTurns(), room: semaphore.NewWeighted(maxHeld),
	}, store
}

// heavy returns an answer of n parts of one series each, whose fields begin with a name.
func heavy(v *values, name string, n int) *seriesAnswer {
	a := newSeriesAnswer(v, "ts", times.Clock{Zone: time.UTC})
	for i := range n {
		a.add(fmt.Sprint(i), series.Range{
			Key: series.Key{Measurement: "m", Field: fmt.Sprint(name, " ", i)}, Start: lately.Add(-partReads * density), Stop: lately, Every: 24 * time.Hour,
		})
	}
	return a
}

// parts returns an answer of n parts, of which one was read, and its store.
func parts(t *testing.T, n int, panics int64) (*seriesAnswer, *asked) {
	t.Helper()
	v, store := asking(t, panics)
	a := heavy(v, "f", n)
	if err := a.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-store.read
	return a, store
}

// TestBegunEndFirst: of many questions of one tenant as many are read at a time as there
// are turns, each to its end, however long their parts take to be written.
func TestBegunEndFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const questions, size = 8, 4
		v, store := asking(t, 0)
		store.fields = make(chan string, questions*size)
		var all sync.WaitGroup
		for i := range questions {
			all.Go(func() {
				a := heavy(v, fmt.Sprint(i), size)
				if err := a.begin(t.Context()); err != nil {
					t.Error(err)
					return
				}
				if err := a.Stream(t.Context(), lazy{}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		close(store.fields)
		begun, most := map[string]int{}, 0
		for field := range store.fields {
			question, _, _ := strings.Cut(field, " ")
			if begun[question]++; begun[question] == size {
				delete(begun, question)
			}
			most = max(most, len(begun))
		}
		if most > seriesTurns || len(begun) > 0 {
			t.Errorf("%d questions had begun at a time, and %d did not end", most, len(begun))
		}
		if v.turns.free != seriesTurns || len(v.turns.shares) != 0 || !v.room.TryAcquire(maxHeld) {
			t.Errorf("%d turns are free, %d tenants are left", v.turns.free, len(v.turns.shares))
		}
	})
}

// lazy is a client that needs a while for each piece.
type lazy struct{}

func (lazy) Write(p []byte) (int, error) {
	<-time.After(writeTime / 2) // on the test's clock
	return len(p), nil
}

// TestBeginsInTime: a question that can't begin within half of an answer's time is
// refused as busy at that moment, whether it waits for a turn or for room.
func TestBeginsInTime(t *testing.T) {
	for name, occupy := range map[string]func(t *testing.T, v *values) error{
		"turns": func(t *testing.T, v *values) (err error) {
			for range seriesTurns {
				err = errors.Join(err, v.turns.take(t.Context(), newTurn("other", 1, 1)))
			}
			return err
		},
		"room": func(t *testing.T, v *values) error { return v.room.Acquire(t.Context(), maxHeld) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, store := asking(t, 0)
				if err := occupy(t, v); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), v.Deadline)
				defer cancel()
				err := heavy(v, "f", 2).begin(ctx)
				if took := time.Since(began); !errors.Is(err, errBusy) || took != 10*time.Second {
					t.Errorf("after %s: %v", took, err)
				}
				if store.count.Load() != 0 || len(v.turns.waiting) != 0 || v.turns.shares["ts"] != nil {
					t.Error("something of it is left")
				}
			})
		})
	}
}

// TestGoesOnInTime: so is one that has begun and whose next part can't be read in its time.
func TestGoesOnInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, _ := asking(t, 0)
		a := heavy(v, "f", 2)
		ctx, cancel := context.WithTimeout(t.Context(), v.Deadline)
		defer cancel()
		if _, err := a.read(ctx, ctx); err != nil {
			t.Fatal(err)
		}
		v.turns.forget(a.next)
		for range seriesTurns {
			if err := v.turns.take(t.Context(), newTurn("other", 1, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.read(ctx, ctx); !errors.Is(err, errBusy) {
			t.Error(err)
		}
	})
}

// TestReadsAhead: while a client takes the first part slowly, the second is read, so that
// the question need not wait behind others for it, and no third.
func TestReadsAhead(t *testing.T) {
	a, store := parts(t, 4, 0)
	w := stuck{make(chan struct{}), make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- a.Stream(t.Context(), w) }()
	<-w.writes
	<-store.read
	close(w.gone)
	if err := <-ended; !errors.Is(err, errGone) {
		t.Errorf("it ended with %v", err)
	}
	if n := store.count.Load(); n != 2 {
		t.Errorf("%d parts were read", n)
	}
	if free := a.values.turns.free; free != seriesTurns {
		t.Errorf("%d turns are free", free)
	}
	if !a.values.room.TryAcquire(maxHeld) {
		t.Error("room was not given back")
	}
}

// TestPanicAhead: a panic while a part is read cuts the answer, not the server.
func TestPanicAhead(t *testing.T) {
	a, _ := parts(t, 3, 3)
	var out discard
	if err := a.Stream(t.Context(), &out); err == nil || out == 0 {
		t.Errorf("%d bytes, %v", out, err)
	}
}

type discard int

func (d *discard) Write(p []byte) (int, error) {
	*d += discard(len(p))
	return len(p), nil
}
