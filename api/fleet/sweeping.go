package fleet

import (
	"context"
	"time"
)

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
			if !counted && len(s.Channels()) > 0 { // at once, so that graphs have no gap after a restart
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
	s.unswept.Range(func(key, _ any) bool {
		s.unswept.Delete(key)
		k := key.(sampleKey)
		err := s.Records.Sweep(ctx, k.channel, k.version)
		if s.saidSweeping.fails("", err) {
			s.Log.Warn("clients that are not in the sample are still recorded", "channel", k.channel, "version", k.version, "error", err)
		}
		if err != nil {
			s.unswept.Store(k, true)
		}
		return true
	})
}
