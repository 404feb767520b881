// Package release publishes the releases of a desktop application to an object
// store and moves the channels that installed applications follow.
//
// # Objects
//
//	releases/1.4.0/<bundle>        an update archive, immutable
//	releases/1.4.0/<bundle>.sig    its signature as clients read it, immutable
//	releases/1.4.0/release.json    the Record, written last: the release is whole
//
// and those of package channels.
//
// # A publish
//
//  1. Every bundle is streamed to the store once. The bytes that are sent are
//     the bytes that are hashed, and the last of them is held back until the
//     signature over them has been verified: a bundle that fails never gets its
//     key. The store confirms size and checksum.
//  2. The record is created, which fixes the bytes of the version for good.
//  3. The new manifest is tried: the updater is replayed for every version ×
//     target × bundle type that the channel knows.
//  4. The channel's log gets an entry, only where none stands; then the manifest
//     is brought up to date with the log; then the channels that follow.
//
// A crash between any two of these leaves the manifest that was there, or the
// new one. The same command again finds what is done and does the rest.
//
// Promote and Rollback take a release that is whole through steps 3 and 4, after
// its stored bundles were compared with the record and its signatures with the
// trusted keys.
//
// # What is refused
//
// Every refusal is a *Refusal, says what to do, and leaves the store as it was,
// but for bundles that were already uploaded and that nothing points at.
package release

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/signing"
	"tsmon/store/object"
)

// Causes of refusals.
var (
	ErrBundles    = errors.New("the bundles can't be published")
	ErrUnsigned   = errors.New("no signature and no key")
	ErrOtherBytes = errors.New("the version is published with other bytes")
	ErrBelowHead  = errors.New("the channel is ahead")
	ErrRolledBack = errors.New("the version was rolled back")
	ErrPrerelease = errors.New("the channel takes no pre-releases")
	ErrCoverage   = errors.New("platforms would be lost")
	ErrGate       = errors.New("clients could not follow the manifest")
	ErrNoRelease  = errors.New("no such release")
	ErrStored     = errors.New("the store does not hold what was published")
	ErrFile       = errors.New("the file changed while it was read")
	ErrNoTarget   = errors.New("there is nothing to go back to")
	ErrNotes      = errors.New("the notes can't be published")
	ErrConfig     = errors.New("not configured")
	ErrProbe      = errors.New("clients don't get what was published")
)

// Refusal is why nothing was moved.
type Refusal struct {
	Cause error  // one of this package, of signing, or of manifest
	Text  string // what is wrong
	Mend  string // what to do about it
}

func (r *Refusal) Error() string {
	if r.Text == "" {
		return r.Cause.Error()
	}
	return r.Cause.Error() + ": " + r.Text
}

func (r *Refusal) Unwrap() error { return r.Cause }

func refuse(cause error, mend, format string, args ...any) error {
	return &Refusal{Cause: cause, Text: fmt.Sprintf(format, args...), Mend: mend}
}

// Policy is what the configuration says of one channel.
type Policy struct {
	Targets    []string // platform keys that every manifest must have
	Prerelease bool     // takes versions such as 1.5.0-beta.1
	Follows    string   // moves along when this channel overtakes it
}

// Publisher moves releases and channels of one store.
type Publisher struct {
	Store     object.Store
	PublicURL string // where clients find the root of the store, without a slash at the end
	Keys      signing.Keyring
	Policies  map[string]Policy // by channel name
	Who       string            // written to the log
	Now       func() time.Time
	// Probe fetches what clients get, after the pointer has moved. Nil: not done.
	Probe func(ctx context.Context, manifestURL string, want manifest.Manifest) error
	// Transferred is called with each piece of a bundle that was read; total is
	// the bundle's size. It may be called concurrently.
	Transferred func(bundle string, n int, total int64)
	// Step is called when a part of the work begins or ends.
	Step func(text string)
}

func (p *Publisher) channels() channels.Repository {
	return channels.Repository{Store: p.Store}
}

// policy returns the rules of a channel; one that the configuration does not
// name can't be moved, so that a mistyped name makes no new channel.
func (p *Publisher) policy(channel string) (Policy, error) {
	if err := channels.CheckName(channel); err != nil {
		return Policy{}, &Refusal{Cause: err, Mend: "channels are named in tsmon.yaml"}
	}
	policy, ok := p.Policies[channel]
	if !ok {
		return Policy{}, refuse(ErrConfig, "add it under channels in tsmon.yaml; known are "+strings.Join(p.channelNames(), ", "), "there is no channel %s", channel)
	}
	return policy, nil
}

func (p *Publisher) channelNames() []string {
	var names []string
	for name := range p.Policies {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ready reports what of the configuration is missing for moving a channel.
func (p *Publisher) ready() error {
	if p.PublicURL == "" {
		return refuse(ErrConfig, "set public_url in tsmon.yaml or TSMON_PUBLIC_URL to the address where clients find the store", "public_url is missing")
	}
	if len(p.Keys) == 0 {
		return p.noKeys()
	}
	return nil
}

func (p *Publisher) noKeys() error {
	return refuse(ErrConfig, "set trusted_keys in tsmon.yaml or TSMON_TRUSTED_KEYS to the pubkey of tauri.conf.json", "trusted_keys is empty")
}

func (p *Publisher) manifestURL(channel string) string {
	return p.PublicURL + "/" + channels.ManifestKey(channel)
}

func (p *Publisher) step(format string, args ...any) {
	p.Step(fmt.Sprintf(format, args...))
}
