package fleet

import (
	"context"
	"time"

	"tsmon/store/record"
)

// Start reads the salt, for which it waits at most saltTime, and begins to write observations;
// only the first call has an effect. Close stops it; the end of the context does not.
func (s *Sightings) Start(ctx context.Context) {
	s.start(ctx, func(ctx context.Context) {
		s.note(s.salt.learn(ctx, saltTime))
		s.running.Go(func() { s.run(ctx) })
		s.running.Go(func() { s.tend(ctx) })
	})
}

// Close writes the remaining observations and waits until that is done.
func (s *Sightings) Close() { s.close() }

func (s *Sightings) run(ctx context.Context) {
	sight, count := time.NewTicker(sightEvery), time.NewTicker(countEvery)
	defer sight.Stop()
	defer count.Stop()
	for {
		select {
		case <-sight.C:
			s.writeSightings(ctx)
		case <-count.C:
			s.writeCounts(ctx)
		case <-ctx.Done():
			last := context.WithoutCancel(ctx)
			s.writeSightings(last)
			s.writeCounts(last)
			return
		}
	}
}

// writeSightings writes the observations since the last call to the records. Those that the
// records don't accept are kept for the next call.
func (s *Sightings) writeSightings(ctx context.Context) {
	s.mu.Lock()
	p := s.seen
	s.seen = newPending(s.Clients)
	s.mu.Unlock()
	for name, n := range s.Asks() { // requests that name neither client nor version
		p.count(countKey{name, Other, Other, ""}, n, eventCheck, eventAnonymous)
	}
	for key, c := range p.counts {
		s.metrics.count(key, c)
		sum := s.counted[key]
		for e, n := range c {
			sum[e] += n
		}
		s.counted[key] = sum
	}
	s.metrics.lostSightings.Add(float64(p.lost))
	defer s.noteFull(ctx)
	if err := s.salt.learn(ctx, sightTime); err != nil {
		s.note(err)
		return
	}
	if len(p.installed)+len(p.tries)+len(p.downloads) == 0 {
		return
	}
	s.note(s.writeBatches(ctx, p.batches()))
	s.bound(ctx, s.admission.due(s.Now()))
}

// writeBatches writes batches to the records. If one fails, it and the rest are kept. A sample
// that has become smaller is bounded first, since rows that it leaves out are no longer
// written.
func (s *Sightings) writeBatches(ctx context.Context, batches []record.Sightings) error {
	for i, batch := range batches {
		s.bound(ctx, s.admission.unsettled())
		s.admission.prune(&batch)
		if err := s.writeBatch(ctx, batch); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.seen.keep(batches[i:])
			return err
		}
		s.recorded.Add(1)
	}
	return nil
}

func (s *Sightings) writeBatch(ctx context.Context, batch record.Sightings) error {
	ctx, cancel := context.WithTimeout(ctx, sightTime)
	defer cancel()
	return s.Records.Sight(ctx, batch)
}

// bound keeps samples below their size.
func (s *Sightings) bound(ctx context.Context, keys []sampleKey) {
	for _, k := range keys {
		before := s.admission.sample(k)
		found, err := s.Records.Bound(ctx, k.channel, k.version, s.Clients, before)
		if s.said.fails("samples", err) {
			s.Log.Warn("the number of recorded clients is not bounded", "channel", k.channel, "version", k.version, "error", err)
		}
		if err != nil {
			return
		}
		if s.admission.bound(k, found, s.Now()) {
			s.Log.Info("a smaller share of the clients is recorded", "channel", k.channel, "version", k.version, "share", found.Rate(), "clients", found.Rows)
		}
		s.unswept.Store(k, true)
		if k.version == "" {
			s.metrics.rate.WithLabelValues(k.channel).Set(found.Rate())
		}
	}
}

// noteFull logs when a rollout becomes full and when that ends, and updates the metrics. It
// also writes that to the records, for the servers that judge the release.
func (s *Sightings) noteFull(ctx context.Context) {
	for name, c := range s.Channels() {
		why, full, at := "", 0.0, time.Time{}
		if c.Rolling() != "" {
			why, at = s.Full(name, c.Rolling())
		}
		if why != "" {
			full = 1
		}
		s.metrics.full.WithLabelValues(name).Set(full)
		if at.Sub(s.told[name]) >= tellFull {
			if err := s.Records.Refuse(ctx, name, c.Rolling(), at); err != nil {
				s.Log.Warn("that clients of a rollout are not all recorded is not known to other servers", "channel", name, "error", err)
			} else {
				s.told[name] = at
			}
		}
		switch began, ended := s.said.turns("full "+name, why != ""); {
		case began:
			s.Log.Warn("clients of a rollout are not all recorded: its steps wait", "channel", name, "version", c.Rolling(), "reason", why)
		case ended:
			s.Log.Info("clients of a rollout are all recorded again", "channel", name)
		}
	}
}

// Recorded returns a number that grows whenever something new is in the records.
func (s *Sightings) Recorded() uint64 { return s.recorded.Load() }

// note logs when writing to the records begins to fail, and when it works again.
func (s *Sightings) note(err error) {
	switch began, ended := s.said.turns("records", err != nil); {
	case began:
		s.Log.Warn("sightings of clients can't be recorded", "error", err)
	case ended:
		s.Log.Info("sightings of clients are recorded again")
	}
}
