package monitor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// queue takes turns one after another, in the order in which they are called.
type queue struct {
	*turns
	called chan string
	ended  chan error
}

// ask asks for a turn and returns once it waits.
func (q *queue) ask(ctx context.Context, name string, points, left int64) {
	tenant, _, _ := strings.Cut(name, " ")
	q.mu.Lock()
	before := len(q.waiting)
	q.mu.Unlock()
	go func() {
		w := newTurn(tenant, points, left)
		err := q.take(ctx, w)
		if err == nil {
			q.called <- name
			q.give(w, nil)
		}
		q.ended <- err
	}()
	for now := before; now == before; {
		q.mu.Lock()
		now = len(q.waiting)
		q.mu.Unlock()
	}
}

func TestTurns(t *testing.T) {
	q := &queue{newTurns(), make(chan string, 100), make(chan error, 100)}
	first := newTurn("first", 1, 1)
	for range seriesTurns {
		if err := q.take(t.Context(), newTurn("first", 1, 1)); err != nil {
			t.Fatal(err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	q.ask(t.Context(), "a heavy 1", 100, 1000)
	q.ask(t.Context(), "a heavy 2", 100, 1000)
	q.ask(t.Context(), "a begun", 100, 200)
	q.ask(t.Context(), "a light", 1, 1)
	q.ask(gone, "a gone", 1, 1)
	q.ask(t.Context(), "b heavy", 100, 1000)
	q.ask(t.Context(), "b light", 1, 1)
	cancel()
	if err := <-q.ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("the one that gave up got %v", err)
	}
	q.give(first, nil) // one turn, so that the order is certain
	var order []string
	for range 6 {
		order = append(order, <-q.called)
	}
	want := "[a light b light a begun b heavy a heavy 1 a heavy 2]"
	if fmt.Sprint(order) != want {
		t.Errorf("the order is %v, want %s", order, want)
	}
	for range 6 {
		if err := <-q.ended; err != nil {
			t.Error(err)
		}
	}
	q.give(first, nil)
	if q.free != seriesTurns || len(q.shares) != 0 || len(q.waiting) != 0 {
		t.Errorf("%d turns are free, %d tenants and %d questions are left", q.free, len(q.shares), len(q.waiting))
	}
}

func TestTurnsAreBounded(t *testing.T) {
	q := &queue{newTurns(), make(chan string, 100), make(chan error, maxWaiting)}
	ctx, cancel := context.WithCancel(t.Context())
	for range seriesTurns {
		if err := q.take(ctx, newTurn("first", 1, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for range maxWaiting {
		q.ask(ctx, "a", 1, 1)
	}
	if err := q.take(ctx, newTurn("b", 1, 1)); !errors.Is(err, errBusy) {
		t.Errorf("one more got %v", err)
	}
	cancel()
	for range maxWaiting {
		if err := <-q.ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}

// between returns turns of which one is taken for good and one was given back by a
// question of tenant a that has begun, with its next turn. Of those that waited
// meanwhile, all but "a heavy" have ended.
func between(t *testing.T) (*queue, *turn) {
	q := &queue{newTurns(), make(chan string, 10), make(chan error, 10)}
	begun := newTurn("a", 100, 1000)
	for _, w := range []*turn{newTurn("z", 1, 1), begun} {
		if err := q.take(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	q.ask(t.Context(), "a heavy", 100, 1000)
	q.ask(t.Context(), "a light", 1, 1)
	q.ask(t.Context(), "b heavy", 100, 1000)
	next := newTurn("a", 100, 900)
	q.give(begun, next)
	synctest.Wait()
	if order := fmt.Sprint([]string{<-q.called, <-q.called}); order != "[b heavy a light]" || len(q.called) > 0 {
		t.Fatalf("while a part is written %v begin, and %d more", order, len(q.called))
	}
	return q, next
}

// TestBegunGoesOn: while a question that has begun writes a part, none of its tenant
// begins that has more left to read.
func TestBegunGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, next := between(t)
		if err := q.take(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		q.give(next, nil)
		if name := <-q.called; name != "a heavy" {
			t.Errorf("%s goes on", name)
		}
	})
}

// TestForgottenTurn: a question that does not go on holds nobody back.
func TestForgottenTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, next := between(t)
		q.forget(next)
		q.forget(next)
		synctest.Wait()
		if len(q.called) != 1 {
			t.Errorf("%d questions go on", len(q.called))
		}
		q.give(newTurn("z", 1, 1), nil)
		if q.free != seriesTurns || len(q.shares) != 0 {
			t.Errorf("%d turns are free, %d tenants are left", q.free, len(q.shares))
		}
	})
}

// TestSlowClient: a client that takes a part slowly holds others back for writeTime, and
// its question goes on after them.
func TestSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, next := between(t)
		began := time.Now()
		<-q.called
		if took := time.Since(began); took != writeTime {
			t.Errorf("they were held back for %s", took)
		}
		if err := q.take(t.Context(), next); err != nil {
			t.Error(err)
		}
	})
}
