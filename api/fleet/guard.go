package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tsmon/store/record"
)

// ErrGuard means that a guard breaks the rules of Guard.Check.
var ErrGuard = errors.New("not a guard")

// Guard decides when a rollout is halted.
type Guard struct {
	// Failures is the percentage of the clients that tried the release above which
	// the rollout is halted; 100 means never.
	Failures float64
	// Clients is how many must have tried the release before it is judged.
	Clients int
	// Within is how far back tries count.
	Within time.Duration
}

// DefaultGuard halts a rollout when it failed for more than 2 % of at least 50
// clients within an hour.
var DefaultGuard = Guard{Failures: 2, Clients: 50, Within: time.Hour}

// Check returns an error unless Failures is from 0 to 100, Clients at least 1 and
// Within from a minute to a week. Errors wrap ErrGuard.
func (g Guard) Check() error {
	switch {
	case !(g.Failures >= 0 && g.Failures <= 100):
		return fmt.Errorf("%w: failures %v is not a percentage from 0 to 100", ErrGuard, g.Failures)
	case g.Clients < 1:
		return fmt.Errorf("%w: clients %d is not at least 1", ErrGuard, g.Clients)
	case g.Within < time.Minute || g.Within > 7*24*time.Hour:
		return fmt.Errorf("%w: within %s is not from 1m to 168h", ErrGuard, g.Within)
	}
	return nil
}

// Halts reports whether so many failures among so many clients halt a rollout.
func (g Guard) Halts(failed, tried int) bool {
	return tried >= g.Clients && float64(failed)*100 > g.Failures*float64(tried)
}

// Trip is a rollout that a guard wants halted.
type Trip struct {
	Channel  string
	Version  string
	Sequence uint64 // entry of the log that was judged
	Failed   int    // of the clients that tried the release
	Tried    int
	Guard    Guard
}

// Reason is the text for the channel's log.
func (t Trip) Reason() string {
	return fmt.Sprintf("%s failed for %d of %d clients within %s, more than %g %%", t.Version, t.Failed, t.Tried, t.Guard.Within, t.Guard.Failures)
}

// Guards judges rollouts by what clients report.
type Guards struct {
	Guards   map[string]Guard // by channel; DefaultGuard for the others
	Channels func() map[string]Channel
	Records  record.Installs
	Recorded func() uint64 // Sightings.Recorded of this server
	Now      func() time.Time
}

// Tripped returns the rollouts whose release failed for too many clients since the
// channel last moved: what somebody has seen and resumed does not count again. A
// client counts as failed if it reports so, or downloads the release and is offered
// it again. Clients of which nothing is known yet don't count. Errors are those of
// the records.
func (g *Guards) Tripped(ctx context.Context) ([]Trip, error) {
	var trips []Trip
	for name, c := range g.Channels() {
		if c.Rolling() == "" {
			continue
		}
		guard, ok := g.Guards[name]
		if !ok {
			guard = DefaultGuard
		}
		since := g.Now().Add(-guard.Within)
		if c.Since.After(since) {
			since = c.Since
		}
		p, err := g.Records.Progress(ctx, name, c.Rolling(), since, c.Since)
		if err != nil {
			return trips, err
		}
		failed := p.Crashed + p.Failed + p.Kept
		if tried := failed + p.Running; guard.Halts(failed, tried) {
			trips = append(trips, Trip{name, c.Rolling(), c.Sequence, failed, tried, guard})
		}
	}
	return trips, nil
}
