// Package release publishes the releases of a desktop application to an object
// store and moves the channels that installed applications follow.
//
// Package library describes the objects of a release, package channels those of a channel.
//
// # Plan and apply
//
// Every move of a channel is a Plan, which Apply carries out.
//
//  1. The store is read: the logs and manifests of the channels, the record of the
//     release, the checksums of its bundles. Bundles on disk are hashed and signed.
//  2. The plan is a pure function of that, the policies, the trusted keys, the time
//     and the request: the next log entry, what every kind of client gets from then
//     on, warnings, and the plans of the channels that follow. Or it is a *Refusal
//     that says what to do, made before anything is written.
//  3. Apply uploads what is missing, creates the record, and appends the entry,
//     only if the log still ends where it did when the plan was made. Then it
//     updates the manifest, moves the followers, and fetches what clients get.
//
// A bundle is streamed. Its last bytes are withheld until all match the digest that was
// signed, so that a file that changed never gets a key. The store confirms size and checksum.
//
// After a crash the channel shows the old manifest or the new one. The same command
// again finds what is done and does the rest.
package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/approval"
	"tsmon/release/bundle"
	"tsmon/release/gate"
	"tsmon/release/library"
	"tsmon/release/upkeep"
	"tsmon/signing"
	"tsmon/store/object"
)

// Causes of refusals.
var (
	ErrUnsigned   = errors.New("no signature and no key")
	ErrBelowHead  = errors.New("the channel is ahead")
	ErrRolledBack = errors.New("the version was rolled back")
	ErrPrerelease = errors.New("the channel takes no pre-releases")
	ErrOtherwise  = errors.New("the version is in the store with other notes or requirements")
	ErrStaged     = errors.New("the version is staged with other bundles")
	ErrShown      = errors.New("a channel has shown the version")
	ErrPruning    = errors.New("its bundles are being removed")
	ErrNoTarget   = errors.New("there is nothing to go back to")
	ErrNotes      = errors.New("the notes can't be published")
	ErrConfig     = library.ErrConfig
	ErrHidden     = errors.New("clients may not read what would be published")
	ErrProbe      = errors.New("clients don't get what was published")
)

// Refusal is an error that says what to do; nothing was moved.
type Refusal = bundle.Refusal

func refuse(cause error, mend, format string, args ...any) error {
	return bundle.Refuse(cause, mend, format, args...)
}

// Policy is the configuration of one channel.
type Policy struct {
	Targets         []string // platform keys that every manifest must have
	Prerelease      bool     // accepts versions such as 1.5.0-beta.1
	Follows         string   // moves along when this channel overtakes it
	AllowUnbound    bool     // accepts signatures that are bound to no version
	AllowDowngrades bool     // some clients have allowDowngrades: a rollback takes them back
	// ReadsManifest says that applications are known to read latest.json, where a
	// watershed does not hold and, without Rings, no rollout shows.
	ReadsManifest bool
	Rings         bool                // keeps a manifest for each ring, which clients read instead of latest.json
	Operators     *channels.Operators // in force once an entry holds them; nil: none are proposed
	PlanLife      time.Duration       // how long a plan may wait for their signatures, 0: a week
}

// Publisher moves the channels of one store.
type Publisher struct {
	Store     object.Store
	PublicURL string // address of the root of the store, without a slash at the end
	Keys      signing.Keyring
	Policies  map[string]Policy // by channel name
	Who       string            // recorded in the log
	Origin    *channels.Origin  // likewise; nil: no CI job
	Now       func() time.Time
	Root      []string // keys each of which may put other operators in force

	// The functions below may be nil.

	// Sign signs entries. Entries that still lack signatures wait for them as plans.
	Sign approval.Sign
	// Seen is channels.Repository.Seen: nothing is moved that does not go on from there.
	Seen func(ctx context.Context, channel string) (channels.Position, error)
	// Clients counts the clients that a change of keys could strand, by version, and Types
	// counts clients by the platform key of what they were installed from, such as
	// linux-x86_64-deb.
	Clients, Types Clients
	// Probe fetches what clients get once a channel has moved, the bundles only if they
	// are wanted. An error that wraps ErrUnseen becomes a warning.
	Probe func(ctx context.Context, manifestURL string, want manifest.Manifest, bundles bool) error
	// Readable fetches a small file below PublicURL before a channel moves. It returns an
	// error if clients may not read the file, and nil if they may, if the file is missing, or
	// if that can't be determined.
	Readable func(ctx context.Context, address string) error
	// Transferred and Uploaded are called with each piece of a bundle that was read or sent,
	// concurrently; total is the size of the bundle.
	Transferred, Uploaded func(bundle string, n int, total int64)
	// Step is called when a part of the work begins.
	Step func(text string)
}

// Clients counts the clients of a channel. A nil map means that nothing is known of them.
type Clients func(ctx context.Context, channel string) (map[string]int, error)

// ErrWithheld means that a server answers that it shows nothing of the channel.
var ErrWithheld = errors.New("the server shows nothing of the channel")

// ErrUnseen means that a probe could not see whether clients get the new state.
var ErrUnseen = errors.New("it is not known yet whether clients get it")

// Options say how a channel is moved.
type Options struct {
	Channel      string
	Why          string            // recorded in the log
	AllowMissing []string          // platform keys that the channel may lose
	AllowUnbound bool              // accept signatures that are bound to no version
	Strand       gate.VersionRange // installed versions that may get what they can't verify
	DryRun       bool              // return the plan without applying it
	// Rollout has the Steps, Every and Cohorts that decide who gets the release
	// first; nil: everybody gets it.
	Rollout *channels.Rollout
	Hold    bool // keeps Advance from taking a step that is due
}

// PublishOptions say what is published.
type PublishOptions struct {
	Options
	Version      string
	Notes        string          // empty: those that were staged
	DefaultNotes string          // if there are no others
	Extra        manifest.Extra  // kept in the record
	Bundles      []bundle.Bundle // none: what is staged
	// Unlock opens the key that signs bundles without a signature; nil: there is no key.
	Unlock func() (signing.PrivateKey, error)
	Rules  *bundle.Rules // give bundles that were staged apart their platform keys; nil: no rules

	staged bool // the bundles are those that are staged
}

// PromoteOptions say which release goes from one channel to another.
type PromoteOptions struct {
	Options        // Channel is the one that is moved
	From    string // channel that shows the release
	Version string // empty: the one that From shows
}

// RollbackOptions say where a channel goes back to; Why is required.
type RollbackOptions struct {
	Options
	To string // version; empty: the release before the one that is shown
}

// Library returns the releases of the publisher's store.
func (p *Publisher) Library() library.Library {
	return library.Library{Store: p.Store, Keys: p.Keys, Transferred: p.Transferred, Trust: p.Repository().Trust}
}

// Repository returns the channels as the publisher reads them.
func (p *Publisher) Repository() channels.Repository {
	r := channels.Repository{Store: p.Store, PublicURL: p.PublicURL, Trust: map[string]channels.Trust{}, Seen: p.Seen}
	for name, policy := range p.Policies {
		r.Trust[name] = channels.Trust{Operators: policy.Operators, Root: p.Root}
		if policy.Rings {
			r.Rings = append(r.Rings, name)
		}
	}
	return r
}

// Plans returns the plans of the publisher's store that wait for signatures.
func (p *Publisher) Plans() approval.Plans {
	return approval.Plans{Store: p.Store, Channels: p.Repository(), Root: p.Root, Sign: p.Sign, Now: p.Now}
}

// Keeper returns what keeps the publisher's store in order.
func (p *Publisher) Keeper() upkeep.Keeper {
	return upkeep.Keeper{Library: p.Library(), Channels: p.Repository(), Ready: p.Configured, Sign: p.Plans().AddSignature, Enter: p.enterForKeeper, Who: p.Who, Origin: p.Origin, Now: p.Now, Step: p.step,
		Unbound: func(channel string) bool { return showsUnbound(p.Policies, channel) }}
}

func (p *Publisher) step(format string, args ...any) {
	if p.Step != nil {
		p.Step(fmt.Sprintf(format, args...))
	}
}
