package fleet

import (
	"context"
	"sync"
	"time"
)

// background owns goroutines from start to close.
type background struct {
	begin   sync.Once
	stop    context.CancelFunc // nil until start; begin orders its use
	running sync.WaitGroup
}

// start calls f, which starts goroutines by running.Go. Their context ends with close, not with
// ctx. Only the first call has an effect, and none after close.
func (b *background) start(ctx context.Context, f func(context.Context)) {
	b.begin.Do(func() {
		ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx))
		f(ctx)
	})
}

// close ends the goroutines and waits for them.
func (b *background) close() {
	b.begin.Do(func() {})
	if b.stop != nil {
		b.stop()
	}
	b.running.Wait()
}

// every calls f at once and then at intervals, until the context ends.
func every(ctx context.Context, interval time.Duration, f func(context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		f(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
