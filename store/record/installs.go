package record

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Installs keeps the version of the desktop application that each client has, and
// its progress with the releases that it was offered. Clients belong to channels, not
// to tenants. Times are stored in microseconds.
type Installs interface {
	// Sight merges sightings, each kind of them atomically. Their order does not matter,
	// nor does repetition. ErrInvalid if s is not valid.
	Sight(ctx context.Context, s Sightings) error

	// Clients counts the clients of a channel that were seen since a time, in byte
	// order of version, target and cohort. Of a channel with a sample it counts those.
	Clients(ctx context.Context, channel string, since time.Time) ([]ClientCount, error)

	// Progress counts the clients of a channel by their outcome with a release. Of a
	// release with a sample it counts those clients.
	Progress(ctx context.Context, channel, version string) (Progress, error)

	// ForgetClients deletes clients and tries that were last seen before a time, and
	// returns the number of rows. It blocks other writers for short times only.
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

// Installed is the version that a client has. Of each channel and client the latest sighting
// is kept. Its target is the one that the client last asked with, whatever it reported since;
// until the client has asked, it is that of the latest sighting.
type Installed struct {
	Channel string
	Client  ClientID
	Version string
	Target  string // platform key, such as linux-x86_64 or linux-x86_64-deb
	Cohort  string // empty: none
	Seen    time.Time
	Asked   time.Time // when it asked with Target; zero for a report, which has no installer type
}

// Try is the progress of a client with a release of a channel; the time of a step that
// was not seen is zero. Merging keeps the latest of each time. A try whose Asked is
// zero is merged only into an existing one or one of the same Sightings, and dropped
// otherwise: a client can't report on a release that it was not offered.
//
// A store also keeps the latest Download of each try, and the latest Asked that was
// later than a Download, whichever was merged first, together with that Download: the
// client was offered again what it had fetched.
type Try struct {
	Channel string
	Client  ClientID
	Version string

	Asked     time.Time // it was offered the release
	Installed time.Time // it is waiting for the next start
	Running   time.Time // it has the release
	Failed    time.Time // it could not install it
	Crashed   time.Time // the release does not run

	// Network is the one that the client was offered the release in, the greatest if
	// there are several. It counts only with Asked.
	Network Network

	// Round is the entry of the channel's log that published or resumed the release. Of the
	// first times that a store keeps for Outcomes, those of a lower round are forgotten.
	Round uint64

	firsts *Firsts // of merged tries
}

// Firsts are the first times of a try in its round; zero for what was not seen.
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

// Download says that a client fetched a bundle. It is merged into the tries of that
// client and version in all channels, existing ones or those of the same Sightings.
type Download struct {
	Client  ClientID
	Version string
	Time    time.Time
}

// ClientCount is how many clients have a version.
type ClientCount struct {
	Version, Target, Cohort string
	Clients                 int
	Level                   Level // of the sample that they are from
}

// Estimate returns how many clients there are, in and out of the sample.
func (c ClientCount) Estimate() int { return c.Level.Estimate(c.Clients) }

// Progress counts clients by their outcome with a release. Each client counts once,
// as the first of these that was seen:
//
//   - Crashed: it reported a crash, even if it was started again;
//   - the latest of Running, Failed and Kept, where Failed precedes Kept and Kept
//     precedes Running at equal times. Kept means that the client was offered again
//     what it had fetched, and has not reported since that it is waiting for the
//     next start;
//   - Waiting: it has fetched the release, or is waiting for the next start;
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
