package record

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Outcomes sums up what became of releases.
type Outcomes interface {
	// Crowds counts what a release came to for the clients that are recorded, by network.
	// ages are how long after fetching it clients are looked at. The cost is that of all
	// recorded tries of the release.
	Crowds(ctx context.Context, r Round, now time.Time, ages []time.Duration) (Crowds, error)

	// Groups counts the same clients by what is known of them otherwise, without Ages, in
	// byte order of target and cohort.
	Groups(ctx context.Context, r Round) ([]Group, error)

	// Refuse notes that a client of a release was not recorded for lack of room. The latest
	// time stays.
	Refuse(ctx context.Context, channel, version string, at time.Time) error

	// KeepSummary stores what a release came to on a channel, for good. Of several
	// summaries the one of more clients stays, and the later one of as many; that nothing
	// but the time is new is not written.
	// ErrInvalid if s is not valid.
	KeepSummary(ctx context.Context, s Summary) error

	// Summary returns what a release came to. ErrNotFound if that is not kept.
	Summary(ctx context.Context, channel, version string) (Summary, error)
}

// Round is a release of a channel since somebody last let it out: published it or
// resumed it. Tries with a lower Round don't count. 0 counts all, each by its last
// round.
type Round struct {
	Channel string
	Version string
	Round   uint64
}

// Crowds are the clients that are recorded of a round.
type Crowds struct {
	Sample  // Rows is not set
	List    []Crowd
	Refused time.Time // when a client last found no room; zero: never
}

// Crowd sums up the networks that each have the same number of clients which fetched
// the release.
type Crowd struct {
	Networks int
	Failed   int // networks, of these, with clients that it failed for
	Counts
}

// Group are the clients of one target and cohort; both are empty for those of which only
// the try is recorded.
type Group struct {
	Target, Cohort string
	Counts
}

// Counts are clients by what a release came to for them, each in one of the first
// five. What is known of a client begins with the round.
type Counts struct {
	Offered int64 // has not fetched it
	Waiting int64 // fetched it, or is waiting for the next start; nothing more is known
	Kept    int64 // the same, but it was offered again what it had fetched
	Healthy int64 // runs it, and has not failed since
	Failing int64 // crashed, or failed and did not run it since

	Ages []AgeCounts // one for each of the ages that were asked for
}

// AgeCounts are the clients that fetched a release at least so long ago, by what was
// known of them at that age.
type AgeCounts struct {
	Reached int64
	Waiting int64 // nothing
	Failing int64 // had failed, and still counts as failing
}

// Summary is what a release came to on a channel.
type Summary struct {
	Channel string
	Version string
	Clients int64           // that fetched it
	Counted time.Time       // when
	Sums    json.RawMessage // whatever the caller needs, at most MaxSums bytes
}

// MaxSums bounds the sums of a summary, in bytes.
const MaxSums = 8 << 10

// Validate reports why a summary can't be stored. Errors wrap ErrInvalid.
func (s Summary) Validate() error {
	switch {
	case s.Counted.IsZero() || s.Clients < 0:
		return fmt.Errorf("%w: a summary of %d clients at %s", ErrInvalid, s.Clients, s.Counted)
	case len(s.Sums) > MaxSums || !json.Valid(s.Sums):
		return fmt.Errorf("%w: sums of %d bytes", ErrInvalid, len(s.Sums))
	}
	return installText("channel", s.Channel, "version", s.Version)
}
