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

	// Progress counts how far clients of a channel came with a release, each by
	// what it came to last, if that was since a time.
	Progress(ctx context.Context, channel, version string, since time.Time) (Progress, error)

	// ForgetClients deletes clients that were not seen since a time, and tries
	// that were last offered before it, and returns how many rows that were.
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
// it did not, or nothing was seen of it. Merged, the earliest of each time
// stands, but the latest of Asked. A try whose Asked is zero is only merged into
// one that is there, or in the same Sightings, and dropped otherwise: nobody can
// tell of a release that it was not offered.
type Try struct {
	Channel string
	Client  ClientID
	Version string

	Asked      time.Time // it was offered the release
	Downloaded time.Time
	Installed  time.Time // it waits for its next start
	Running    time.Time // it has the release
	Failed     time.Time // it could not install it
	Crashed    time.Time // the release does not run
}

// Download says that a client fetched a bundle. It is merged into the tries of
// that client and version, of whatever channel, as Try.Downloaded.
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

// Progress counts clients by what they came to with a release: each is in one of
// the counts, the first of Crashed, Running, Failed, Kept, Waiting and Offered
// that fits.
type Progress struct {
	Crashed int // Crashed is set
	Running int // Running is set
	Failed  int // Failed is set
	Kept    int // Asked is later than Downloaded, and Installed is not set: it was offered again what it has fetched. Its time is Asked
	Waiting int // Downloaded or Installed is set. Its time is the later of them
	Offered int // nothing but Asked is
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
