package fleet

import (
	"strings"
	"testing"
	"time"

	"tsmon/channels"
)

// TestNotices: each kind of move has a notice, which is the same from every server.
func TestNotices(t *testing.T) {
	when := time.Date(2026, 3, 5, 15, 0, 0, 0, time.UTC)
	rollout := &channels.Rollout{Version: "1.1.0", Steps: []int{5, 100}, Percent: 5, Since: when}
	for _, c := range []struct {
		entry                channels.Entry
		event, version, text string
	}{
		{channels.Entry{Action: channels.Publish, Version: "1.0.0"}, "publish", "1.0.0", "1.0.0 was published on stable for everybody."},
		{channels.Entry{Action: channels.Publish, Version: "1.0.0", Rollout: rollout}, "publish", "1.1.0", "1.1.0 was published on stable for 5 % of the clients."},
		{channels.Entry{Action: channels.Promote, Version: "1.1.0", From: "beta"}, "promote", "1.1.0", "1.1.0 was promoted from beta to stable for everybody."},
		{channels.Entry{Action: channels.Follow, Version: "1.1.0", From: "beta"}, "follow", "1.1.0", "stable shows 1.1.0 now, as beta does for everybody."},
		{channels.Entry{Action: channels.Rollback, Version: "1.0.0", From: "1.1.0", Why: "it is slow"}, "rollback", "1.0.0", "stable went back from 1.1.0 to 1.0.0: it is slow"},
		{channels.Entry{Action: channels.Rollback, Version: "1.1.0", From: "1.0.0", Why: "it was the driver"}, "rollback", "1.1.0", "stable shows 1.1.0 again, after 1.0.0: it was the driver"},
		{channels.Entry{Action: channels.Advance, Version: "1.0.0", Rollout: rollout}, "step", "1.1.0", "1.1.0 is on stable for 5 % of the clients."},
		{channels.Entry{Action: channels.Advance, Version: "1.1.0"}, "step", "1.1.0", "1.1.0 is on stable for everybody."},
		{channels.Entry{Action: channels.Pause, Version: "1.0.0", From: "1.1.0", Why: "crashes"}, "pause", "1.1.0", "1.1.0 is paused on stable: crashes"},
		{channels.Entry{Action: channels.Pause, Version: "1.0.0", From: "1.1.0", Why: "crashes", Halted: true, Rollout: rollout.Pause(when)}, "halt", "1.1.0",
			"1.1.0 was halted on stable: crashes. Clients that have it keep it; `tsmon channel resume stable` lets it go on, `tsmon release rollback` is a person's decision."},
		{channels.Entry{Action: channels.Resume, Version: "1.0.0", Rollout: rollout}, "resume", "1.1.0", "1.1.0 goes on on stable for 5 % of the clients."},
	} {
		c.entry.Sequence, c.entry.When, c.entry.Who = 7, when, "ci"
		n := noticeOf("stable", c.entry)
		if n.Event != c.event || n.Version != c.version || n.Text != c.text || n.Sequence != 7 || n.Time != when || n.From != c.entry.From || n.Why != c.entry.Why {
			t.Errorf("%+v", n)
		}
		if (n.Rollout != nil) != (c.entry.Rollout != nil) || !strings.HasPrefix(n.ID, "stable.7.") || n.ID != noticeOf("stable", c.entry).ID {
			t.Errorf("%+v", n)
		}
		other := c.entry
		other.Who = "somebody else"
		if noticeOf("stable", other).ID == n.ID || noticeOf("beta", c.entry).ID == n.ID {
			t.Errorf("%s stands for two events", n.ID)
		}
	}
	a, again := alarmOf("stable/latest.json", "1", "it is torn", when), alarmOf("stable/latest.json", "1", "it is torn", when.Add(1))
	if a.ID != again.ID || a.ID == alarmOf("stable/latest.json", "2", "", when).ID || a.Event != "alarm" || a.Object != "stable/latest.json" || a.Problem != "it is torn" {
		t.Errorf("%+v", a)
	}
}
