package verdict

import (
	"fmt"
	"time"
)

// Marks is the number of ages at which waiting clients are counted.
const Marks = 6

// MarkAges are those ages, counted from when a client fetched the release. Each is
// three times the one before, and those that matter most, 27 h and 81 h, are past
// a night and past a weekend.
var MarkAges = [Marks]time.Duration{time.Hour, 3 * time.Hour, 9 * time.Hour, 27 * time.Hour, 81 * time.Hour, 243 * time.Hour}

// MaxCount bounds each count of Sums.
const MaxCount = int64(1) << 50

// Sums are the outcomes of a release on a channel. They are kept for good, so that the next
// release can be compared with them.
type Sums struct {
	Healthy int64 `json:"healthy"` // clients that run the release
	Failing int64 `json:"failing"` // clients that reported it failed or crashed
	Waiting int64 `json:"waiting"` // clients that fetched it, nothing more is known
	Kept    int64 `json:"kept"`    // of the waiting: asked again, still with the old version
	Offered int64 `json:"offered"` // clients that were offered it and did not fetch it
	// Ages count clients by how long they waited.
	Ages [Marks]Age `json:"ages"`
}

// Age counts the clients that fetched a release at least so long ago by what was
// known of them at that age. It does not change afterwards.
type Age struct {
	Reached int64 `json:"reached"`
	Waiting int64 `json:"waiting"` // had neither run it nor failed
	Failing int64 `json:"failing"` // had failed
}

// Outcome is the outcome of a release on a client.
type Outcome int

const (
	Offered Outcome = iota
	Waiting
	Kept
	Healthy
	Failing
)

// Client is the history of one client with a release.
type Client struct {
	Outcome Outcome
	// Since is how long ago it fetched the release, or, for a release that has been
	// superseded, how long before that.
	Since time.Duration
	// After is how long after fetching it was first seen to run the release or to
	// fail. It matters for Healthy and Failing only.
	After time.Duration
}

// Add counts a client.
func (s *Sums) Add(c Client) {
	var one Sums
	decided, failed := false, int64(0)
	switch c.Outcome {
	case Healthy:
		one.Healthy, decided = 1, true
	case Failing:
		one.Failing, decided, failed = 1, true, 1
	case Kept:
		one.Waiting, one.Kept = 1, 1
	case Waiting:
		one.Waiting = 1
	default:
		one.Offered = 1
		*s = s.Merge(one)
		return
	}
	for k, mark := range MarkAges {
		if c.Since >= mark {
			one.Ages[k].Reached = 1
			if decided && c.After <= mark {
				one.Ages[k].Failing = failed
			} else {
				one.Ages[k].Waiting = 1
			}
		}
	}
	*s = s.Merge(one)
}

// Merge returns the sums of two disjoint sets of clients. Counts stop at MaxCount.
func (s Sums) Merge(o Sums) Sums {
	add := func(a *int64, b int64) { *a = min(*a, MaxCount) + min(b, MaxCount-min(*a, MaxCount)) }
	add(&s.Healthy, o.Healthy)
	add(&s.Failing, o.Failing)
	add(&s.Waiting, o.Waiting)
	add(&s.Kept, o.Kept)
	add(&s.Offered, o.Offered)
	for k := range s.Ages {
		add(&s.Ages[k].Reached, o.Ages[k].Reached)
		add(&s.Ages[k].Waiting, o.Ages[k].Waiting)
		add(&s.Ages[k].Failing, o.Ages[k].Failing)
	}
	return s
}

// Decided is the number of clients with an outcome.
func (s *Sums) Decided() int64 { return s.Healthy + s.Failing }

// Handed is the number of clients that have, or had, the release.
func (s *Sums) Handed() int64 { return s.Healthy + s.Failing + s.Waiting }

// Check reports impossible counts. Errors wrap ErrInput.
func (s *Sums) Check() error {
	for _, c := range []struct {
		name  string
		count int64
	}{{"healthy", s.Healthy}, {"failing", s.Failing}, {"waiting", s.Waiting}, {"kept", s.Kept}, {"offered", s.Offered}} {
		if c.count < 0 || c.count > MaxCount {
			return fmt.Errorf("%w: %s is %d", ErrInput, c.name, c.count)
		}
	}
	if s.Kept > s.Waiting {
		return fmt.Errorf("%w: %d kept of %d waiting", ErrInput, s.Kept, s.Waiting)
	}
	for k, age := range s.Ages {
		if min(age.Reached, age.Waiting, age.Failing) < 0 || age.Reached > s.Handed() || age.Failing > s.Failing || age.Waiting > age.Reached-age.Failing {
			return fmt.Errorf("%w: after %s %d waiting and %d failing of %d, %d handed out", ErrInput, MarkAges[k], age.Waiting, age.Failing, age.Reached, s.Handed())
		}
	}
	return nil
}
