// Package fleet is what the project knows of installed clients: which version each
// has (sightings), how often they ask and what they report (counts), who is recorded
// at all (admission), how a release spreads (adoption), and what follows from it: a
// guard halts a rollout that fails, and takes the next step of one that does well. It
// serves no HTTP.
//
// Moves and alarms become notices: notices.go has their words, notifier.go says when
// each is due, and webhook.go sends them.
//
// No text of a client becomes a name in the records, the time series or the metrics
// unless the channel's log contains it; everything else is Other. A client's ID is
// kept as a digest with a salt, which the records hold.
package fleet

import "tsmon/channels"

// Channel is what a server knows of a channel.
type Channel struct {
	*channels.Offers
	*Names
	Shown  bool // a manifest has verified and is shown
	Behind bool // that manifest is older than the log
}

// ChannelOf returns what the log of a channel says of it, for Guards: the addresses of
// its offers lead nowhere.
func ChannelOf(log *channels.Log) (Channel, error) {
	offers, err := channels.Compile(log, "https://bundles.invalid", nil)
	return Channel{Offers: offers, Names: NamesOf(log), Shown: true}, err
}

// roundOf returns the round that what is seen of a client with a release belongs to.
// Other releases than the newest are let out by nobody: what is seen of them stays in
// the round that it began in.
func (c Channel) roundOf(version string) uint64 {
	if version == c.Newest() {
		return c.Round
	}
	return 0
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
