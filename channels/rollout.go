package channels

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tsmon/channels/ring"
	"tsmon/manifest"
)

// ErrRollout means that a rollout breaks the rules of Rollout.Check, or that the
// channel has none to change.
var ErrRollout = errors.New("the rollout is not possible")

// Rollout is a release that some clients are offered, while the others get what the channel's
// manifest shows. A server, or the client's ring, decides who is included.
type Rollout struct {
	// ID seeds the choice of clients. It is unique to a rollout and stays the same through
	// its steps.
	ID      string `json:"id"`
	Version string `json:"version"`
	// Steps are rising percentages of clients, each for Every; the last one stays. Each step is
	// a log entry.
	Steps   []int     `json:"steps"`
	Every   Duration  `json:"every,omitempty"`
	Percent int       `json:"percent"` // the current step
	Since   time.Time `json:"since"`   // when it was taken
	// Cohorts are included from the beginning.
	Cohorts []string `json:"cohorts,omitempty"`
	// AllowMissing are platform keys, sorted, that the release may lack; every step of the
	// rollout honours them.
	AllowMissing []string `json:"allow_missing,omitempty"`
	// Paused is when it was paused, or zero. A paused rollout includes nobody, and no step ends.
	Paused time.Time `json:"paused,omitzero"`
	// Release is what the included clients get.
	Release Release `json:"release"`
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
	maxMissing = 100
	minEvery   = time.Minute
)

// Check returns what is wrong with a rollout: it must have 1 to 100 rising steps from 0 to 100,
// a duration if there are several, at most 20 cohorts, and at most 100 platform keys. Errors
// wrap ErrRollout.
func (r *Rollout) Check() error {
	switch {
	case len(r.Steps) == 0 || len(r.Steps) > maxSteps:
		return fmt.Errorf("%w: it has %d steps, 1 to %d are allowed", ErrRollout, len(r.Steps), maxSteps)
	case len(r.Steps) > 1 && time.Duration(r.Every) < minEvery:
		return fmt.Errorf("%w: steps need a duration of at least %s each", ErrRollout, minEvery)
	case len(r.Cohorts) > maxCohorts:
		return fmt.Errorf("%w: it has %d cohorts, at most %d are allowed", ErrRollout, len(r.Cohorts), maxCohorts)
	case len(r.AllowMissing) > maxMissing:
		return fmt.Errorf("%w: %d platform keys may be missing, at most %d are allowed", ErrRollout, len(r.AllowMissing), maxMissing)
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
	for _, key := range r.AllowMissing {
		if _, err := manifest.ParseKey(key); err != nil {
			return fmt.Errorf("%w: %w", ErrRollout, err)
		}
	}
	return nil
}

// verify checks a rollout that was read, and its release unless that is known to pass.
func (r *Rollout) verify(sequence uint64, known bool) error {
	if err := r.Check(); err != nil {
		return err
	}
	if !known {
		if err := r.Release.check(sequence); err != nil {
			return fmt.Errorf("the rollout's release: %w", err)
		}
	}
	if !slices.Contains(r.Steps, r.Percent) {
		return fmt.Errorf("%w: %d %% is none of its steps %v", ErrRollout, r.Percent, r.Steps)
	}
	if r.Release.Version != r.Version {
		return fmt.Errorf("%w: its release is %s, not %s", ErrRollout, r.Release.Version, r.Version)
	}
	return nil
}

// CheckCohort returns why a text can't be the name of a cohort, by the rules of channel names.
// Errors wrap ErrRollout.
func CheckCohort(cohort string) error {
	if !name.MatchString(cohort) {
		return fmt.Errorf("%w: cohort %.40q; use lower-case letters, digits and hyphens", ErrRollout, cohort)
	}
	return nil
}

// Allow returns the rollout with further platform keys in AllowMissing.
func (r Rollout) Allow(keys []string) *Rollout {
	if len(keys) > 0 {
		all := slices.Concat(r.AllowMissing, keys)
		slices.Sort(all)
		r.AllowMissing = slices.Compact(all)
	}
	return &r
}

// Begin returns the rollout at its first step.
func (r Rollout) Begin(now time.Time) *Rollout {
	r.Percent, r.Since = r.Steps[0], now
	return &r
}

// Share returns the percentage of clients that the rollout includes, beside cohorts.
func (r *Rollout) Share() int {
	if !r.Paused.IsZero() {
		return 0
	}
	return r.Percent
}

// Complete reports whether the rollout includes everybody.
func (r *Rollout) Complete() bool { return r.Share() == 100 }

// Next returns the next step and when it is due; false if the rollout is paused or at its last
// step.
func (r *Rollout) Next() (percent int, due time.Time, ok bool) {
	i := slices.Index(r.Steps, r.Percent) + 1
	if !r.Paused.IsZero() || i == len(r.Steps) {
		return 0, time.Time{}, false
	}
	return r.Steps[i], r.Since.Add(time.Duration(r.Every)), true
}

// Due reports whether it is time for the next step.
func (r *Rollout) Due(now time.Time) bool {
	_, due, ok := r.Next()
	return ok && !now.Before(due)
}

// Step returns the rollout at its next step, which lasts its whole time from now on even if the
// steps before it were late.
func (r Rollout) Step(now time.Time) *Rollout {
	if percent, _, ok := r.Next(); ok {
		r.Percent, r.Since = percent, now
	}
	return &r
}

// Title names the current step, as in "step 2 of 5".
func (r *Rollout) Title() string {
	return fmt.Sprintf("step %d of %d", slices.Index(r.Steps, r.Percent)+1, len(r.Steps))
}

// Stepper is the Who of steps that need no signature of the operators in force: nothing would
// prove who took one.
const Stepper = "schedule"

// Unanswered returns a due step of the rollout in the form that needs no signatures: all its
// members follow from the rollout and the time. The entry is one that Next completed. ok is
// false if it is no such step, or if no operators are in force.
func Unanswered(log *Log, e Entry) (step Entry, ok bool) {
	if log.operators == nil || e.Action != Advance || log.Head().Rollout == nil {
		return e, false
	}
	step = e.unanswered(log.Head().Rollout.Step(e.When))
	return step, extension{Log: log}.isStep(&step)
}

// unanswered returns the entry of a step, with only what follows from the rollout and the time.
func (e Entry) unanswered(to *Rollout) Entry {
	return Entry{Channel: e.Channel, Sequence: e.Sequence, Previous: e.Previous, Action: Advance, Version: e.Version, Who: Stepper, When: e.When, Why: to.Title(),
		Targets: slices.Sorted(maps.Keys(e.Release.Platforms)), Release: e.Release, Rollout: e.Rollout, Nonce: e.Nonce}
}

// Admits reports whether the rollout includes a client, by its cohort or by the ring of its ID.
// A client without an ID is included at 100 %. Whoever is included stays included as the share
// rises.
func (r *Rollout) Admits(id, cohort string) bool { return r.admits(r.Rings(), id, cohort) }

// admits is Admits, with the rings that Rings returns.
func (r *Rollout) admits(in ring.Set, id, cohort string) bool {
	switch {
	case !r.Paused.IsZero():
		return false
	case r.Percent == 100, cohort != "" && slices.Contains(r.Cohorts, cohort):
		return true
	}
	return id != "" && in[ring.Of(id)]
}

// Alike compares what was decided of two rollouts, not when. Either may be nil.
func (r *Rollout) Alike(other *Rollout) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.ID == other.ID && slices.Equal(r.Steps, other.Steps) && r.Every == other.Every && r.Percent == other.Percent && slices.Equal(r.Cohorts, other.Cohorts) && slices.Equal(r.AllowMissing, other.AllowMissing) &&
		r.Paused.IsZero() == other.Paused.IsZero() && r.Release.Equal(&other.Release)
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
