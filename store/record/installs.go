package record

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Installs keeps which version of the desktop application each client has, and
// how far it came with the releases that it was offered. Clients belong to
// channels, not to tenants. Times are kept to the microsecond.
type Installs interface {
	// Sight merges what was seen of clients, in any order and however often: all
	// of it or nothing. ErrInvalid if s.Validate is.
	Sight(ctx context.Context, s Sightings) error

	// Clients counts the clients of a channel that were seen since a time, in
	// order of version, target and cohort (as bytes).
	Clients(ctx context.Context, channel string, since time.Time) ([]ClientCount, error)

	// Progress counts clients of a channel by what they came to with a release, those
	// of which that was seen since a time. What a client fetched before the release
	// was last decided on does not make it Kept: it has yet to try again.
	Progress(ctx context.Context, channel, version string, since, decided time.Time) (Progress, error)

	// ForgetClients deletes clients and tries of which nothing was seen since a time,
	// and returns how many rows that were.
	ForgetClients(ctx context.Context, before time.Time) (int64, error)
}

// ClientID is a digest of what a client calls itself.
type ClientID [16]byte

// Sightings are what was seen of clients.
type Sightings struct {
	Installed []Installed
	Tries     []Try
	Downloads []Download
}

// Installed is what a client has. The latest of a channel and client stands; of
// two of one time either.
type Installed struct {
	Channel string
	Client  ClientID
	Version string
	Target  string // a platform, such as linux-x86_64
	Cohort  string // empty: none
	Seen    time.Time
}

// Try is how far a client came with a release of a channel; a time is zero where
// it did not, or nothing was seen of it. Merged, the latest of each time stands. A
// try whose Asked is zero is only merged into one that is there, or in the same
// Sightings, and dropped otherwise: nobody can tell of a release that it was not
// offered.
//
// Besides, a store keeps for each try the latest Download, and the latest Asked that
// was later than a Download which was merged before or comes with it or after it,
// together with that Download: the client was offered again what it had fetched.
type Try struct {
	Channel string
	Client  ClientID
	Version string

	Asked     time.Time // it was offered the release
	Installed time.Time // it waits for its next start
	Running   time.Time // it has the release
	Failed    time.Time // it could not install it
	Crashed   time.Time // the release does not run
}

// Download says that a client fetched a bundle. It is merged into the tries of
// that client and version that are there or in the same Sightings, of whatever
// channel.
type Download struct {
	Client  ClientID
	Version string
	Time    time.Time
}

// ClientCount is how many clients have a version.
type ClientCount struct {
	Version, Target, Cohort string
	Clients                 int
}

// Progress counts clients by what they came to with a release. A client is in the
// first of these that fits and that was seen since the time in question, so that
// one that crashes does so even if it was started again:
//
//   - Crashed: it reported so;
//   - whichever was last of Running, Failed and Kept, the latter two where they are
//     of one time. A client is kept that was offered again what it had fetched, and
//     did not say since it fetched it that it waits for its next start;
//   - Waiting: it has fetched the release, or waits for its next start;
//   - Offered: nothing but that was seen.
type Progress struct {
	Crashed int
	Running int
	Failed  int
	Kept    int
	Waiting int
	Offered int
}

// Validate reports why sightings can't be stored. Errors wrap ErrInvalid.
func (s Sightings) Validate() error {
	for _, i := range s.Installed {
		if err := installText("channel", i.Channel, "version", i.Version, "target", i.Target, "cohort", i.Cohort); err != nil {
			return err
		}
		if i.Seen.IsZero() {
			return fmt.Errorf("%w: an installed version without a time", ErrInvalid)
		}
	}
	for _, t := range s.Tries {
		if err := installText("channel", t.Channel, "version", t.Version); err != nil {
			return err
		}
	}
	for _, d := range s.Downloads {
		if err := installText("version", d.Version); err != nil {
			return err
		}
		if d.Time.IsZero() {
			return fmt.Errorf("%w: a download without a time", ErrInvalid)
		}
	}
	return nil
}

func installText(pairs ...string) error { return cmp.Or(short(pairs...), text(pairs...)) }
