// Package fleet keeps what is known about installed clients: which version each has
// (sightings), how often they ask and what they report (counts), which clients are recorded at
// all (admission), and how a release spreads (adoption). It acts on that: it halts a rollout
// that fails, and takes the next step of one that does well. It serves no HTTP.
//
// Moves and alarms become notices: notices.go words them, notifier.go decides when each is due,
// and webhook.go sends them.
//
// A text that a client sends becomes a name in the records, the time series or the metrics only
// if the channel's log contains it; everything else is Other. A client's ID is kept as a salted
// digest; the salt is in the records.
package fleet

import "tsmon/channels"

// Channel is what a server knows of a channel.
type Channel struct {
	*channels.Offers
	*Names
	Shown  bool // a manifest has verified and is shown
	Behind bool // that manifest is older than the log
}

// ChannelOf returns the channel that a log describes, for Guards. The addresses of its offers
// are not valid.
func ChannelOf(log *channels.Log) (Channel, error) {
	offers, err := channels.Compile(log, "https://bundles.invalid", nil)
	return Channel{Offers: offers, Names: NamesOf(log), Shown: true}, err
}

// roundOf returns the round that observations of a release belong to: the present one for the
// newest release. Observations of other releases stay in the round in which they began.
func (c Channel) roundOf(version string) uint64 {
	if version == c.Newest() {
		return c.Round
	}
	return 0
}

// Events are the events that are counted: fields of the time series and values of the metric's
// label.
var Events = [events]string{"checks", "anonymous", "held", "offers", "downloads", "started", "installed", "failed", "crashed"}

type event int

const (
	eventCheck     event = iota // a client with the version asked
	eventAnonymous              // checks without an ID
	eventHeld                   // checks of clients outside a running rollout
	eventOffer                  // of the version
	eventDownload
	eventStarted
	eventInstalled
	eventFailed
	eventCrashed
	events
)
