package record

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Installs keeps the version of the desktop application that each client has, and its
// progress with offered releases. Clients belong to channels, not to tenants. Times are
// stored in microseconds.
type Installs interface {
	// Sight merges sightings, each kind of them atomically. It is idempotent, and the order
	// of calls does not matter. ErrInvalid if s is not valid.
	Sight(ctx context.Context, s Sightings) error

	// Clients counts the clients of a channel that were seen since a time, in byte order of
	// version, target and cohort. If the channel has a sample, it counts only that.
	Clients(ctx context.Context, channel string, since time.Time) ([]ClientCount, error)

	// Progress counts the clients of a channel by their outcome with a release. If the
	// release has a sample, it counts only that.
	Progress(ctx context.Context, channel, version string) (Progress, error)

	// ForgetClients deletes clients and tries last seen before a time, and returns the
	// number of rows. It blocks other writers only briefly.
	ForgetClients(ctx context.Context, before time.Time) (int64, error)
}

// ClientID is a digest of the name that a client reports.
type ClientID [16]byte

// Network is one of 65,536 groups of client networks, too few to identify an address.
type Network uint16

// Sightings are observations of clients.
type Sightings struct {
	Installed []Installed
	Tries     []Try
	Downloads []Download
}

// Installed is the version that a client has. The store keeps the latest sighting of each
// client in a channel. Its target is the one that the client last asked with; before the
// client has asked, it is that of the latest sighting.
type Installed struct {
	Channel string
	Client  ClientID
	Version string
	Target  string // platform key, such as linux-x86_64 or linux-x86_64-deb
	Cohort  string // empty: none
	Seen    time.Time
	Asked   time.Time // when it asked with Target; zero for a report, which has no installer type
}

// Try is the progress of a client with a release of a channel. The time of a step that was
// not seen is zero. Merging keeps the latest of each time. A try whose Asked is zero is
// merged only into an existing try or one in the same Sightings, and dropped otherwise: a
// client can't report on a release that it was not offered.
//
// A store also keeps the latest Download of each try, and the latest Asked after a Download
// together with that Download, in whatever order they arrive: the client was offered again
// what it had fetched.
type Try struct {
	Channel string
	Client  ClientID
	Version string

	Asked     time.Time // it was offered the release
	Installed time.Time // it is waiting for a restart
	Running   time.Time // it runs the release
	Failed    time.Time // it could not install it
	Crashed   time.Time // the release does not run

	// Network is where the client was offered the release, the greatest of several. It
	// counts only with Asked.
	Network Network

	// Round is the log entry that published or resumed the release. The first times that a
	// store keeps for Outcomes are those of the highest round.
	Round uint64

	firsts *Firsts // of merged tries
}

// Firsts are the first times of a try in its round. A step that was not seen has the zero time.
type Firsts struct {
	Installed time.Time
	Decided   time.Time // running, failed or crashed
	Fell      time.Time // failed or crashed
}

// Firsts returns the first times of a try; for adapters.
func (t Try) Firsts() Firsts {
	if t.firsts != nil {
		return *t.firsts
	}
	fell := earliest(t.Failed, t.Crashed)
	return Firsts{t.Installed, earliest(t.Running, fell), fell}
}

// Download says that a client fetched a bundle. It is merged into the tries of that client and
// version in all channels, whether stored or in the same Sightings.
type Download struct {
	Client  ClientID
	Version string
	Time    time.Time
}

// ClientCount is how many clients have a version.
type ClientCount struct {
	Version, Target, Cohort string
	Clients                 int
	Level                   Level // of the sample
}

// Estimate returns the estimated number of all clients, not just those in the sample.
func (c ClientCount) Estimate() int { return c.Level.Estimate(c.Clients) }

// Progress counts clients by their outcome with a release. Each client counts once, as the
// first of these that applies:
//
//   - Crashed: it reported a crash, even if it was started again;
//   - the latest of Running, Failed and Kept. At equal times Failed comes before Kept, and
//     Kept before Running. Kept means that the client was offered again what it had fetched,
//     and has not reported since that it is waiting for a restart;
//   - Waiting: it has fetched the release, or is waiting for a restart;
//   - Offered: it has only asked.
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
			return fmt.Errorf("%w: an installed version has no time", ErrInvalid)
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
			return fmt.Errorf("%w: a download has no time", ErrInvalid)
		}
	}
	return nil
}

func installText(pairs ...string) error { return cmp.Or(short(pairs...), text(pairs...)) }
