package web_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/api/web"
)

func TestLoopRunsUntilClosed(t *testing.T) {
	var loop web.Loop
	ctx, cancel := context.WithCancel(t.Context())
	calls := make(chan context.Context)
	loop.Start(ctx, time.Millisecond, func(ctx context.Context) {
		select {
		case calls <- ctx:
		case <-ctx.Done():
		}
	})
	loop.Start(ctx, time.Millisecond, func(context.Context) { t.Error("it was started twice") })
	cancel()
	for range 3 {
		if running := <-calls; running.Err() != nil {
			t.Error("the loop ended with the context that started it")
		}
	}
	loop.Close()
	loop.Close()
	select {
	case <-calls:
		t.Error("it was called after Close")
	default:
	}
}

func TestLoopClosedBeforeStart(t *testing.T) {
	var loop web.Loop
	loop.Close()
	loop.Start(t.Context(), time.Millisecond, func(context.Context) { t.Error("it was called") })
	if _, ok := loop.Join(); ok {
		t.Error("a closed loop was joined")
	}
	loop.Close()
}

func TestLoopWaitsForThoseThatJoined(t *testing.T) {
	var loop web.Loop
	done, ok := loop.Join()
	if !ok {
		t.Fatal("an open loop was not joined")
	}
	var over atomic.Bool
	go func() {
		over.Store(true)
		done()
	}()
	loop.Close()
	if !over.Load() {
		t.Error("Close did not wait")
	}
}
