package fleet

import "context"

// MaxBefore is for tests outside of the package.
const MaxBefore = maxBefore

// Still keeps the goroutine from starting: the test calls WriteSightings.
func (s *Sightings) Still() { s.begin.Do(func() {}) }

func (s *Sightings) WriteSightings(ctx context.Context) { s.writeSightings(ctx) }

func (s *Sightings) CountClients(ctx context.Context) { s.countClients(ctx) }
