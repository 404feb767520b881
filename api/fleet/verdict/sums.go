package verdict

import (
	"fmt"
	"time"
)

// Marks is the number of ages at which waiting clients are counted.
const Marks = 6

// MarkAges are those ages, counted from when a client fetched the release. Each is three times
// the one before. Those that matter most, 27 h and 81 h, are longer than a night and longer than
// a weekend.
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

// Age counts the clients that fetched a release at least so long ago, by what was known of them at
// that age. What becomes of a client later does not change it.
type Age struct {
	Reached int64 `json:"reached"`
	Waiting int64 `json:"waiting"` // had neither run it nor failed
	Failing int64 `json:"failing"` // had failed
}

// Counts returns all counts, in the order of the fields.
func (s *Sums) Counts() [5 + 3*Marks]*int64 {
	all := [5 + 3*Marks]*int64{&s.Healthy, &s.Failing, &s.Waiting, &s.Kept, &s.Offered}
	for k := range s.Ages {
		age := &s.Ages[k]
		copy(all[5+3*k:], []*int64{&age.Reached, &age.Waiting, &age.Failing})
	}
	return all
}

// Merge returns the sums of two disjoint sets of clients. Counts stop at MaxCount.
func (s Sums) Merge(o Sums) Sums {
	added := o.Counts()
	for i, count := range s.Counts() {
		before := min(*count, MaxCount)
		*count = before + min(*added[i], MaxCount-before)
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
