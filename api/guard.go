package api

import (
	"context"
	"fmt"

	"tsmon/channels"
)

// Trip is a rollout that is to be halted.
type Trip struct {
	Channel  string         `json:"channel"`
	Version  string         `json:"version"`
	Sequence uint64         `json:"-"`      // entry of the log that it was judged at
	Failed   int            `json:"failed"` // of the clients that tried the release
	Tried    int            `json:"tried"`
	Guard    channels.Guard `json:"-"`
}

// Reason is what the channel's log keeps.
func (t Trip) Reason() string {
	return fmt.Sprintf("%s failed for %d of %d clients within %s, more than %g %%", t.Version, t.Failed, t.Tried, t.Guard.Within, t.Guard.Failures)
}

// Tripped returns the rollouts whose release failed for too many clients since
// the channel was last moved, so that what somebody has seen and resumed is not
// held against it again. A client fails that reports so, or that fetches the
// release and is then offered it again. Clients of which nothing is known yet are
// not counted. The error is that of the records.
func (s *Server) Tripped(ctx context.Context) ([]Trip, error) {
	var trips []Trip
	for name, o := range s.heads.allOffers() {
		if o.Rolling() == "" {
			continue
		}
		guard, ok := s.Guards[name]
		if !ok {
			guard = channels.DefaultGuard
		}
		since := s.Now().Add(-guard.Within)
		if o.Since.After(since) {
			since = o.Since
		}
		p, err := s.Records.Progress(ctx, name, o.Rolling(), since, o.Since)
		if err != nil {
			return trips, err
		}
		failed := p.Crashed + p.Failed + p.Kept
		if tried := failed + p.Running; guard.Halts(failed, tried) {
			trips = append(trips, Trip{name, o.Rolling(), o.Sequence, failed, tried, guard})
		}
	}
	return trips, nil
}
