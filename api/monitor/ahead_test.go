package monitor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"tsmon/store/series"
	"tsmon/store/series/sqlite"
)

// asked counts the questions to a store, and panics at one of them.
type asked struct {
	series.Store
	count  atomic.Int64
	read   chan struct{} // gets one for each
	panics int64
}

func (a *asked) Series(ctx context.Context, database string, ranges []series.Range) ([]series.Result, error) {
	if a.count.Add(1) == a.panics {
		panic("at the disco")
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

// parts returns an answer of n parts, of which one was read, and its store.
func parts(t *testing.T, n int, panics int64) (*seriesAnswer, *asked) {
	t.Helper()
	now := time.Date(2026, 3, 5, 15, 0, 0, 0, time.UTC)
	file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "series.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if err := file.Create(t.Context(), "ts"); err != nil {
		t.Fatal(err)
	}
	store := &asked{Store: file, read: make(chan struct{}, n), panics: panics}
	v := &values{
		store: series.NewCached(store), now: func() time.Time { return now }, deadline: time.Minute,
		turns: newTurns(), room: semaphore.NewWeighted(maxHeld),
	}
	a := newSeriesAnswer(v, "ts", clock{zone: time.UTC})
	for i := range n {
		a.add(fmt.Sprint(i), series.Range{
			Key: series.Key{Measurement: "m", Field: fmt.Sprint("f", i)}, Start: now.Add(-partReads * density), Stop: now, Every: 24 * time.Hour,
		})
	}
	if err := a.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-store.read
	return a, store
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
