package record

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Outcomes counts the outcomes of releases.
type Outcomes interface {
	// Crowds counts the outcomes of a release on the recorded clients, by network. ages are the
	// times after the download at which clients are counted. It reads all recorded tries of
	// the release.
	Crowds(ctx context.Context, r Round, now time.Time, ages []time.Duration) (Crowds, error)

	// Groups counts the same clients by target and cohort, without Ages, in byte order of both.
	Groups(ctx context.Context, r Round) ([]Group, error)

	// Refuse stores when a client of a release was last not recorded for lack of room.
	Refuse(ctx context.Context, channel, version string, at time.Time) error

	// KeepSummary stores the outcomes of a release on a channel permanently. The summary of
	// more clients replaces another, and among equals the later one, unless only its time
	// differs. ErrInvalid if s is not valid.
	KeepSummary(ctx context.Context, s Summary) error

	// Summary returns the outcomes of a release. ErrNotFound if none are stored.
	Summary(ctx context.Context, channel, version string) (Summary, error)
}

// Round is a release of a channel since it was last published or resumed. Tries with a lower
// Round don't count. Round 0 counts all tries, each by its last round.
type Round struct {
	Channel string
	Version string
	Round   uint64
}

// Crowds are the recorded clients of a round.
type Crowds struct {
	Sample  // Rows is not set
	List    []Crowd
	Refused time.Time // when a client was last not recorded for lack of room; zero if never
}

// Crowd sums up the networks in which the same number of clients fetched the release.
type Crowd struct {
	Networks int
	Failed   int // networks with a failing client
	Counts
}

// Group counts the clients of one target and cohort. Both are empty for clients of which only
// the try is recorded.
type Group struct {
	Target, Cohort string
	Counts
}

// Counts counts clients by the outcome of a release, each in one of the first five fields.
// Only observations since the round began count.
type Counts struct {
	Offered int64 // has not fetched it
	Waiting int64 // fetched it, or is waiting for a restart; nothing more is known
	Kept    int64 // the same, but it was offered again what it had fetched
	Healthy int64 // runs it, and has not failed since
	Failing int64 // crashed, or failed and did not run it since

	Ages []AgeCounts // one for each requested age
}

// AgeCounts counts the clients that fetched a release at least that long ago, by what was
// known at that age.
type AgeCounts struct {
	Reached int64 // all of them
	Waiting int64 // no outcome was known
	Failing int64 // had failed, and still counts as failing
}

// Summary are the outcomes of a release on a channel.
type Summary struct {
	Channel string
	Version string
	Clients int64 // that fetched it
	Counted time.Time
	Sums    json.RawMessage // chosen by the caller, at most MaxSums bytes
}

// MaxSums bounds the sums of a summary, in bytes.
const MaxSums = 8 << 10

// Validate reports why a summary can't be stored. Errors wrap ErrInvalid.
func (s Summary) Validate() error {
	switch {
	case s.Counted.IsZero() || s.Clients < 0:
		return fmt.Errorf("%w: a summary counts %d clients at %s", ErrInvalid, s.Clients, s.Counted)
	case len(s.Sums) > MaxSums || !json.Valid(s.Sums):
		return fmt.Errorf("%w: the sums, of %d bytes, are not JSON of at most %d bytes", ErrInvalid, len(s.Sums), MaxSums)
	}
	return installText("channel", s.Channel, "version", s.Version)
}
