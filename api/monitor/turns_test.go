package monitor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
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
		err := q.take(ctx, tenant, points, left)
		if err == nil {
			q.called <- name
			q.give(tenant)
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
	for range seriesTurns {
		if err := q.take(t.Context(), "first", 1, 1); err != nil {
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
	q.give("first") // one turn, so that the order is certain
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
	q.give("first")
	if q.free != seriesTurns || len(q.shares) != 0 || len(q.waiting) != 0 {
		t.Errorf("%d turns are free, %d tenants and %d questions are left", q.free, len(q.shares), len(q.waiting))
	}
}

func TestTurnsAreBounded(t *testing.T) {
	q := &queue{newTurns(), make(chan string, 100), make(chan error, maxWaiting)}
	ctx, cancel := context.WithCancel(t.Context())
	for range seriesTurns {
		if err := q.take(ctx, "first", 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	for range maxWaiting {
		q.ask(ctx, "a", 1, 1)
	}
	if err := q.take(ctx, "b", 1, 1); !errors.Is(err, errBusy) {
		t.Errorf("one more got %v", err)
	}
	cancel()
	for range maxWaiting {
		if err := <-q.ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}
