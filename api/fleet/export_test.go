package fleet

import (
	"context"
	"time"
)

// MaxBefore is for tests outside of the package.
const MaxBefore = maxBefore

// Still keeps the goroutine from starting: the test calls WriteSightings.
func (s *Sightings) Still(ctx context.Context) error {
	s.begin.Do(func() {})
	return s.salt.learn(ctx, sightTime)
}

func (s *Sightings) WriteSightings(ctx context.Context) {
	s.writeSightings(ctx)
	s.sweep(ctx)
}

func (s *Sightings) CountClients(ctx context.Context) { s.countClients(ctx) }

// Pass takes the steps that are due and allowed, and judges all releases.
func (s *Steward) Pass(ctx context.Context) error {
	s.takeSteps(ctx, said{})
	return s.judge(ctx, said{}, map[string]time.Time{})
}
