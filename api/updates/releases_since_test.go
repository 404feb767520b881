package updates_test

import (
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/updates"
	"tsmon/channels"
	"tsmon/release"
)

// TestSince: a channel shows a version since it came to it for the last time. The steps of
// a rollout and a pause don't count, a rollback to what it showed before does.
func TestSince(t *testing.T) {
	w := apitest.Embedded(t)
	w.Refresh = 50 * time.Millisecond
	d := w.Desk(t)
	c := apitest.Client{TB: t, Base: w.Serve(t).URL}
	shows := func(newest string, since time.Time) {
		t.Helper()
		var last updates.ChannelState
		for deadline := time.Now().Add(30 * time.Second); ; {
			for _, last = range read[updates.Overview](t, c.Get("/releases/overview")).Channels {
				if last.Channel == "stable" && last.Newest == newest && last.Since.Equal(since) {
					return
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("stable shows %s since %s, want %s since %s", last.Newest, last.Since, newest, since)
			}
		}
	}
	move := func(make func() error) time.Time {
		t.Helper()
		w.Clock.Move(time.Hour)
		if err := make(); err != nil {
			t.Fatal(err)
		}
		log, err := channels.Repository{Store: d.Store}.Load(t.Context(), "stable")
		if err != nil {
			t.Fatal(err)
		}
		return log.Head().When
	}
	publish := func(version string, steps ...int) func() error {
		return func() error {
			d.PublishWith(t, version, func(o *release.PublishOptions) {
				if len(steps) > 0 {
					o.Rollout = &channels.Rollout{Steps: steps, Every: channels.Duration(time.Hour)}
				}
			})
			return nil
		}
	}
	o := release.Options{Channel: "stable", Why: "crashes"}
	shows("1.0.0", move(publish("1.0.0")))
	second := move(publish("1.1.0"))
	shows("1.1.0", second)
	third := move(publish("1.2.0", 25, 100))
	move(func() error { _, err := d.Advance(t.Context(), o); return err })
	shows("1.2.0", third)
	shows("1.1.0", move(func() error {
		_, err := d.Rollback(t.Context(), release.RollbackOptions{Options: o})
		return err
	}))
}
