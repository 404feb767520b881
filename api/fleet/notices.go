package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"tsmon/channels"
	"tsmon/release"
)

// Notice is the content of a webhook message. All servers make the same notice for the same
// event.
type Notice struct {
	ID    string    `json:"id"`    // identifies the event: the same if it is sent again
	Event string    `json:"event"` // publish, promote, follow, rollback, step, pause, resume, halt or alarm
	Text  string    `json:"text"`  // for people; chat servers show it
	Time  time.Time `json:"time"`  // of the event

	// Of a move of a channel:
	Channel  string         `json:"channel,omitempty"`
	Version  string         `json:"version,omitempty"`  // version that the event is about
	Sequence uint64         `json:"sequence,omitempty"` // of the entry in the channel's log
	From     string         `json:"from,omitempty"`     // promote, follow: the other channel; rollback, pause, halt: the version left
	Who      string         `json:"who,omitempty"`
	Why      string         `json:"why,omitempty"`
	Rollout  *release.Share `json:"rollout,omitempty"` // absent: everybody gets the version

	// Of an alarm:
	Object  string `json:"object,omitempty"`  // key of the object in the store
	Problem string `json:"problem,omitempty"` // why it is not shown
}

// telling has the event name and the text for each kind of move. The text is a format with
// channel, version, origin, reason and share, in that order.
var telling = map[channels.Action]struct{ event, text string }{
	channels.Publish:  {"publish", "%[2]s was published on %[1]s%[5]s."},
	channels.Promote:  {"promote", "%[2]s was promoted from %[3]s to %[1]s%[5]s."},
	channels.Follow:   {"follow", "%[1]s shows %[2]s now, as %[3]s does%[5]s."},
	channels.Rollback: {"rollback", "%[1]s went back from %[3]s to %[2]s: %[4]s"},
	channels.Advance:  {"step", "%[2]s is on %[1]s%[5]s."},
	channels.Pause:    {"pause", "%[2]s is paused on %[1]s: %[4]s"},
	channels.Resume:   {"resume", "%[2]s goes on on %[1]s%[5]s."},
	halting: {"halt", "%[2]s was halted on %[1]s: %[4]s. Clients that have it keep it; `tsmon channel resume %[1]s` lets it go on, " +
		"`tsmon release rollback` is a person's decision."},
}

// halting is a pause that a guard made.
const halting channels.Action = "halt"

func noticeOf(channel string, e channels.Entry) Notice {
	n := Notice{
		Time: e.When.UTC(), Channel: channel, Version: e.Newest(), Sequence: e.Sequence, From: e.From, Who: e.Who, Why: e.Why,
		ID: fmt.Sprintf("%s.%d.%s", channel, e.Sequence, digestOf(e)),
	}
	share := " for everybody"
	if e.Rollout != nil {
		n.Rollout = release.ShareOf(e.Rollout, false)
		share = fmt.Sprintf(" for %d %% of the clients", n.Rollout.Percent)
	}
	t := telling[e.Action]
	if e.Halted {
		t = telling[halting]
	}
	if e.Halted || e.Action == channels.Pause {
		n.Version = e.From
	}
	if e.Action == channels.Rollback && !e.WentBack() {
		t.text = "%[1]s shows %[2]s again, after %[3]s: %[4]s"
	}
	n.Event, n.Text = t.event, fmt.Sprintf(t.text, channel, n.Version, n.From, n.Why, share)
	return n
}

func alarmOf(object, etag, problem string, now time.Time) Notice {
	return Notice{
		ID: "alarm." + digestOf([]string{object, etag}), Event: "alarm", Time: now.UTC(), Object: object, Problem: problem,
		Text: fmt.Sprintf("%s does not verify and is not shown; what was shown before stays: %.300s", object, problem),
	}
}

func digestOf(v any) string {
	data, _ := json.Marshal(v) // of plain structs, which does not fail
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
