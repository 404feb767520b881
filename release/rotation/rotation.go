// Package rotation plans the change of the key that signs an application's updates.
//
// A build of the application verifies updates with the one public key that it
// carries. So the way from an old key to a new one leads through a bridge: a release
// that the old key signs and that is built with the new key. Clients below the bridge
// have the old key, the others the new one.
//
// Where clients ask the server, the bridge is a watershed: every older client is led
// through it, and the new key may sign from then on. latest.json shows one release to
// all clients. There the old key goes on signing: the bridge stays what the channel
// shows until nobody is left below it, and what the new key signs goes to another
// channel, which the bridge reads.
//
// A plan changes nothing. It follows from the channels' logs, the trusted keys and
// what is known of the clients, so that the same request in the middle of a rotation
// says what is left to do. Whom a release would strand is worked out by the rule that
// refuses such a release, see gate.Strands.
package rotation

import (
	"context"
	"errors"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"tsmon/channels"
	"tsmon/release"
	"tsmon/release/gate"
	"tsmon/release/library"
	"tsmon/signing"
)

// Causes of refusals.
var (
	ErrNothing = errors.New("there is no key to rotate from")
	ErrBridge  = errors.New("this version can't be the bridge")
	ErrKey     = errors.New("this key can't be the new one")
)

// Plan says how the channels get to a new key.
type Plan struct {
	From   []string `json:"from"`   // ids of the keys that have signed so far
	To     string   `json:"to"`     // id of the new key
	Pubkey string   `json:"pubkey"` // value of plugins.updater.pubkey from the bridge on
	Bridge string   `json:"bridge"` // version
	// TrustedKeys is what trusted_keys has to say; Configured is true if it does.
	TrustedKeys []Key     `json:"trusted_keys"`
	Configured  bool      `json:"configured"`
	Channels    []Channel `json:"channels"`
	Next        []Step    `json:"next"` // what is left to do, in order
}

// Key is a trusted key and the versions of the application that have it.
type Key struct {
	KeyID     string `json:"key_id"`
	PublicKey string `json:"public_key"`      // RW… line
	From      string `json:"from,omitempty"`  // first version that has it
	Until     string `json:"until,omitempty"` // first that no longer has it
}

// State is how far a channel is.
type State string

// States of a Channel, in their order.
const (
	Empty   State = "empty"   // it shows nothing
	Bridge  State = "bridge"  // the bridge is still to be published
	Rolling State = "rolling" // only some clients get the bridge so far, or it is held back
	Waiting State = "waiting" // the bridge is there, and the new key would strand clients
	Ready   State = "ready"   // the new key may sign
	Done    State = "done"    // the new key has signed what the channel shows
)

// Channel is a channel on its way to the new key.
type Channel struct {
	Channel  string   `json:"channel"`
	Version  string   `json:"version,omitempty"` // that everybody gets
	SignedBy []string `json:"signed_by"`         // key ids
	State    State    `json:"state"`
	// ReadsManifest is true if the application is known to read latest.json.
	ReadsManifest bool `json:"reads_latest_json"`
	Clients       *int `json:"clients,omitempty"` // known ones; absent if nothing is known of them
	// Stranded are those who could not verify the next release if the new key signed
	// it; AfterBridge are those once the bridge is there, absent if it is.
	Stranded    Lost  `json:"stranded"`
	AfterBridge *Lost `json:"after_bridge,omitempty"`

	log       *channels.Log
	policy    release.Policy
	known     map[string]int
	successor string // channel for what the new key signs, if applications read latest.json
}

// Lost are the versions that a release strands. Clients counts the known clients that
// have one of Server.
type Lost struct {
	gate.Stranded
	Clients *int `json:"clients,omitempty"`
}

// Step is something to do.
type Step struct {
	Channel string `json:"channel,omitempty"`
	Text    string `json:"text"`
	Write   string `json:"write,omitempty"`   // lines to write into a file
	Command string `json:"command,omitempty"` // command line; DIR is a folder of bundles
}

// Configure returns the lines of tsmon.yaml that give a new channel the settings of
// another. If follows is not empty, that is what the new one follows instead.
type Configure func(channel, like, follows string) string

// Make reads the channels of a publisher and plans the rotation to a key. bridge is
// the first version with that key; empty: the one that trusted_keys names, else the
// next minor version. Errors are a *release.Refusal or the store's.
func Make(ctx context.Context, p *release.Publisher, to signing.PublicKey, bridge string, configure Configure) (*Plan, error) {
	if err := library.CheckKeys(p.Keys); err != nil {
		return nil, err
	}
	all := make([]Channel, 0, len(p.Policies))
	for _, name := range slices.Sorted(maps.Keys(p.Policies)) {
		policy := p.Policies[name]
		all = append(all, Channel{Channel: name, SignedBy: []string{}, ReadsManifest: policy.ReadsManifest, policy: policy})
	}
	group, ctx := errgroup.WithContext(ctx)
	repository := p.Repository()
	for i := range all {
		c := &all[i]
		group.Go(func() (err error) { c.log, err = repository.Load(ctx, c.Channel); return err })
		if p.Clients != nil {
			group.Go(func() (err error) { c.known, err = p.Clients(ctx, c.Channel); return err })
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return plan(all, p.Keys, to, bridge, configure)
}
