package channels

import (
	"errors"
	"fmt"
	"time"
)

// ErrGuard says that a guard breaks the rules of Guard.Check.
var ErrGuard = errors.New("not a guard")

// Guard says when a rollout is halted.
type Guard struct {
	// Failures is the percentage of the clients that tried the release, above
	// which it is halted: 100 for never.
	Failures float64
	// Clients is how many must have tried it before it is judged.
	Clients int
	// Within is how long ago that may be.
	Within time.Duration
}

// DefaultGuard halts a rollout when it failed for more than 2 % of at least 50
// clients within an hour.
var DefaultGuard = Guard{Failures: 2, Clients: 50, Within: time.Hour}

// Check reports why a guard can't be: Failures is from 0 to 100, Clients at least
// 1, Within from a minute to a week. Errors wrap ErrGuard.
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
