package simulate

import "tsmon/api/fleet/verdict"

// guarded is the rule of package verdict.
type guarded struct{ *verdict.Guard }

func (g guarded) halts(s *seen) bool { return g.Halts(&s.Sums) != verdict.CauseNone }

func (g guarded) mayStep(s *seen, reach int64) bool {
	return g.Holds(&s.Sums, reach) == verdict.CauseNone
}

// threshold is a plain threshold on the share of the clients that fail. Those that ask again with
// their old version count as failing. It never holds a step.
type threshold struct {
	limit float64
	least int64
}

func (r threshold) halts(s *seen) bool {
	failing := s.Failing + s.kept
	tried := failing + s.Healthy
	return tried >= r.least && float64(failing) > r.limit*float64(tried)
}

func (threshold) mayStep(*seen, int64) bool { return true }
