// Package upkeep keeps the store of a publisher in order: it verifies channels, puts back
// what is lost, and removes the bundles that no client is offered any more.
//
// Where a channel's log has to say so, it gets an entry, as with every move. What the log
// offers clients stays as it is; manifests that are behind the log are rendered anew.
package upkeep

import (
	"context"
	"fmt"
	"time"

	"tsmon/channels"
	"tsmon/release/approval"
	"tsmon/release/bundle"
	"tsmon/release/library"
)

// Keeper verifies, repairs and prunes one store. All fields are required.
type Keeper struct {
	Library  library.Library
	Channels channels.Repository
	// Ready returns an error unless all channels are configured, and what every change
	// needs is.
	Ready func(channels ...string) error
	// Unbound reports whether a channel may show signatures that name no version.
	Unbound func(channel string) bool
	// Sign adds the signature of the operator who works here to an entry that follows a
	// log and needs one.
	Sign func(ctx context.Context, log *channels.Log, e *channels.Entry) error
	// Enter appends an entry that Next completed to a log, signed by that operator, unless it has
	// to wait for other signatures. A dry run writes nothing.
	Enter  func(ctx context.Context, log *channels.Log, e channels.Entry, dry bool) (Entered, error)
	Who    string           // recorded in the log
	Origin *channels.Origin // likewise; nil: no CI job
	Now    func() time.Time
	Step   func(format string, args ...any) // is called when a part of the work begins
}

// Entered is the outcome of Keeper.Enter.
type Entered struct {
	Log      *channels.Log     // with the entry; as it was if this is a dry run
	Waiting  *approval.Waiting // the plan of the entry, if it lacks signatures of operators
	Needs    *approval.Need    // the signatures that it takes, if this is a dry run and it takes any
	Warnings []string
}

// NoEvidence says what became of views that are ahead of a log which operators sign.
func NoEvidence(channel string, ahead error) string {
	return fmt.Sprintf("%v: it is rendered anew from the log, whose entries are signed. If a server raises an alarm, the entry was there and is lost: `tsmon channel repair %s --bundle FILE` restores it before anything else moves, `tsmon channel verify %s --accept` gives it up",
		ahead, channel, channel)
}

// Fed refuses to move a channel that has the log of another store.
func Fed(channel string) error {
	return bundle.Refuse(channels.ErrFed, "move it where its log comes from, then bring it here with `tsmon release import` or `tsmon release mirror`; to hold a release back here, promote it from "+channel+" to a channel of this site; if nothing feeds this store, `tsmon channel repair "+channel+" --own` has the channel moved here, and `tsmon channel verify "+channel+"` names what somebody wrote to have it pass for fed", "%s can't be moved here", channel)
}
