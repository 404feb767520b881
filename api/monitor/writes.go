package monitor

import (
	"context"
	"sync"
	"time"

	"tsmon/store/record"
)

// writesInterval is how often other processes' writes are looked for.
const writesInterval = time.Second

// writes watches for time series that other processes have written.
type writes struct {
	records record.Store
	forget  []func(database string) // called with each database that was written to
	once    sync.Once
	stop    context.CancelFunc // nil until watch
	running sync.WaitGroup
}

// watch looks for writes until close.
func (w *writes) watch(ctx context.Context) {
	w.once.Do(func() {
		ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
		w.running.Go(func() { w.run(ctx) })
	})
}

func (w *writes) run(ctx context.Context) {
	tick := time.NewTicker(writesInterval)
	defer tick.Stop()
	known, _ := w.records.Writes(ctx) // none: everything is forgotten when there are some
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		found, err := w.records.Writes(ctx)
		if err != nil {
			continue // /readyz says so
		}
		for database, count := range found {
			if count == known[database] {
				continue
			}
			for _, forget := range w.forget {
				forget(database)
			}
		}
		known = found
	}
}

func (w *writes) close() {
	w.once.Do(func() {})
	if w.stop != nil {
		w.stop()
	}
	w.running.Wait()
}
