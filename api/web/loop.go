package web

import (
	"context"
	"sync"
	"time"
)

// Loop calls a function at intervals, in a goroutine of its own. The zero value is
// ready to start.
type Loop struct {
	mu      sync.Mutex
	stop    context.CancelFunc // nil until it runs
	closed  bool
	running sync.WaitGroup
}

// Start calls f at once and then at intervals until Close. A call that takes longer
// than the interval delays the next. The loop keeps the values of ctx, not its end.
// Once started or closed, it does nothing.
func (l *Loop) Start(ctx context.Context, interval time.Duration, f func(context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil || l.closed {
		return
	}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.running.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			f(ctx)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// Join makes Close wait until done is called. After Close, ok is false and done is nil.
func (l *Loop) Join() (done func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, false
	}
	l.running.Add(1)
	return l.running.Done, true
}

// Close ends the loop, and waits for the present call and for those that joined. It may be called
// several times, and before Start.
func (l *Loop) Close() {
	l.mu.Lock()
	l.closed = true
	if l.stop != nil {
		l.stop()
	}
	l.mu.Unlock()
	l.running.Wait()
}
