// Package fleet is what the project knows of installed clients: which version each
// has (sightings), how often they ask and what they report (counts), who is recorded
// at all (admission), how a release spreads (adoption), and what follows from it: a
// guard halts a rollout that fails, and the end of a rollout's steps is written to
// the channel. It serves no HTTP.
//
// No text of a client becomes a name in the records, the time series or the metrics
// unless the channel's log contains it; everything else is Other. A client's ID is
// kept as a digest.
package fleet

import "tsmon/channels"

// Channel is what a server knows of a channel.
type Channel struct {
	*channels.Offers
	*Names
	Shown  bool // a manifest has verified and is shown
	Behind bool // that manifest is older than the log
}

// Events are what is counted of clients: fields of the time series and values of
// the metric's label.
var Events = [events]string{"checks", "anonymous", "held", "offers", "downloads", "started", "installed", "failed", "crashed"}

type event int

const (
	eventCheck     event = iota // a client with the version asked
	eventAnonymous              // of the checks: without an ID
	eventHeld                   // of the checks: a rollout goes on without the client
	eventOffer                  // of the version
	eventDownload
	eventStarted
	eventInstalled
	eventFailed
	eventCrashed
	events
)
