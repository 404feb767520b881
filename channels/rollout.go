package channels

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"tsmon/manifest"
)

// ErrRollout means that a rollout breaks the rules of Rollout.Check, or that the
// channel has none to change.
var ErrRollout = errors.New("the rollout is not possible")

// Rollout is a release that some clients are offered while all others get what the
// channel shows. Only a server that answers each client can tell them apart; the
// manifest of the channel is for the others.
type Rollout struct {
	// ID seeds the choice of clients, anew for each rollout and constant through
	// its steps.
	ID      string `json:"id"`
	Version string `json:"version"`
	// Steps are rising percentages of clients, each for Every; a single one stays
	// until somebody changes it.
	Steps []int     `json:"steps"`
	Every Duration  `json:"every,omitempty"`
	Since time.Time `json:"since"` // when the first step began
	// Cohorts are included from the beginning.
	Cohorts []string `json:"cohorts,omitempty"`
	// Paused is when it was paused: it includes nobody meanwhile, and no step ends.
	Paused time.Time `json:"paused,omitzero"`
	// Manifest is what the included clients get.
	Manifest manifest.Manifest `json:"manifest"`
}

// Duration is a time.Duration with a text form, such as 6h0m0s.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

const (
	maxSteps   = 100
	maxCohorts = 20
	minEvery   = time.Minute
)

// Check reports why a rollout is invalid: it must have 1 to 100 rising steps from 0
// to 100, a duration if there are several, and at most 20 cohorts that pass
// CheckCohort. Errors wrap ErrRollout.
func (r *Rollout) Check() error {
	switch {
	case len(r.Steps) == 0 || len(r.Steps) > maxSteps:
		return fmt.Errorf("%w: it has %d steps, 1 to %d are allowed", ErrRollout, len(r.Steps), maxSteps)
	case len(r.Steps) > 1 && time.Duration(r.Every) < minEvery:
		return fmt.Errorf("%w: steps need a duration of at least %s each", ErrRollout, minEvery)
	case len(r.Cohorts) > maxCohorts:
		return fmt.Errorf("%w: it has %d cohorts, at most %d are allowed", ErrRollout, len(r.Cohorts), maxCohorts)
	}
	before := -1
	for _, percent := range r.Steps {
		if percent <= before || percent > 100 {
			return fmt.Errorf("%w: steps %v do not rise from 0 to 100", ErrRollout, r.Steps)
		}
		before = percent
	}
	for _, cohort := range r.Cohorts {
		if err := CheckCohort(cohort); err != nil {
			return err
		}
	}
	return nil
}

// verify checks a rollout that was read against its own manifest.
func (r *Rollout) verify(sequence uint64) error {
	if err := r.Check(); err != nil {
		return err
	}
	if _, err := response(r.Manifest); err != nil {
		return fmt.Errorf("the rollout's manifest: %w", err)
	}
	if r.Manifest.Sequence != sequence || r.Manifest.Version != r.Version {
		return fmt.Errorf("%w: its manifest shows version %s as entry %d", ErrRollout, r.Manifest.Version, r.Manifest.Sequence)
	}
	return nil
}

// CheckCohort reports why a text can't be the name of a cohort; the rules are those
// of channel names. Errors wrap ErrRollout.
func CheckCohort(cohort string) error {
	if !name.MatchString(cohort) {
		return fmt.Errorf("%w: cohort %.40q; use lower-case letters, digits and hyphens", ErrRollout, cohort)
	}
	return nil
}

// Percent returns the share of clients that the rollout includes, beside cohorts.
func (r *Rollout) Percent(now time.Time) int {
	if !r.Paused.IsZero() {
		return 0
	}
	return r.Steps[r.step(now)]
}

func (r *Rollout) step(now time.Time) int {
	passed := now.Sub(r.Since)
	if len(r.Steps) == 1 || passed < 0 {
		return 0
	}
	return int(min(int64(passed/time.Duration(r.Every)), int64(len(r.Steps)-1)))
}

// Complete reports whether the rollout includes everybody.
func (r *Rollout) Complete(now time.Time) bool { return r.Percent(now) == 100 }

// Admits reports whether the rollout includes a client: by its cohort, or by a hash
// of its ID. A client without an ID is included at 100 %. A client that is included
// stays included while the share rises.
func (r *Rollout) Admits(id, cohort string, now time.Time) bool {
	percent := r.Percent(now)
	switch {
	case !r.Paused.IsZero():
		return false
	case percent == 100, cohort != "" && slices.Contains(r.Cohorts, cohort):
		return true
	case id == "":
		return false
	}
	return place(r.ID, id) < uint64(percent)*perPercent
}

// places is the number of values that the hash of a client can have.
const (
	perPercent = 1 << 32
	places     = 100 * perPercent
)

// place returns the hash of a client's ID, anew for each rollout.
func place(rollout, id string) uint64 {
	sum := sha256.Sum256([]byte(rollout + "\x00" + id))
	return binary.BigEndian.Uint64(sum[:]) % places // whose bias is below 1e-7
}

// Pause returns the paused rollout.
func (r Rollout) Pause(now time.Time) *Rollout {
	r.Paused = now
	return &r
}

// Resume returns the rollout as it goes on from where it was paused.
func (r Rollout) Resume(now time.Time) *Rollout {
	r.Since, r.Paused = r.Since.Add(now.Sub(r.Paused)), time.Time{}
	return &r
}
