package fleet

import (
	"context"
	"sync"
	"time"
)

// sweeping is the set of samples whose rows in the records may include clients that no longer
// belong to them.
type sweeping struct {
	mu      sync.Mutex
	due     map[sampleKey]bool
	failing map[string]bool // what the log says
}

func (w *sweeping) add(k sampleKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due[k] = true
}

// take returns the samples and empties the set.
func (w *sweeping) take() map[sampleKey]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := w.due
	w.due = map[sampleKey]bool{}
	return due
}

// tend counts and deletes clients in the records, which may take long, concurrently with the
// writes.
func (s *Sightings) tend(ctx context.Context) {
	sweep, count := time.NewTicker(sightEvery), time.NewTicker(countEvery)
	defer sweep.Stop()
	defer count.Stop()
	var forgot time.Time
	counted := false
	for {
		select {
		case <-sweep.C:
			s.sweep(ctx)
			if !counted && len(s.Channels()) > 0 { // so that graphs have no gap when a server is restarted
				s.countClients(ctx)
				counted = true
			}
		case <-count.C:
			s.countClients(ctx)
			forgot = s.forget(ctx, forgot)
		case <-ctx.Done():
			return
		}
	}
}

// sweep deletes the clients that are not in the samples.
func (s *Sightings) sweep(ctx context.Context) {
	for k := range s.sweeping.take() {
		err := s.Records.Sweep(ctx, k.channel, k.version)
		once(s.sweeping.failing, "", err, func() {
			s.Log.Warn("clients that are not in the sample are still recorded", "channel", k.channel, "version", k.version, "error", err)
		})
		if err != nil {
			s.sweeping.add(k)
		}
	}
}
