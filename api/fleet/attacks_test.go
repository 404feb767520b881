package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/api/fleet/verdict"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
)

// attacked is a rollout to a quarter of 1,200 computers while strangers make up clients.
type attacked struct {
	*guarded
	computers []computer
	made      int // ids
}

func attack(t *testing.T, w *apitest.World) *attacked {
	t.Helper()
	a := &attacked{guarded: guard(t, w), computers: computersOf(1200)}
	a.publish("1.0.0", nil)
	a.publish("1.1.0", &channels.Rollout{Steps: []int{25, 50}, Every: channels.Duration(24 * time.Hour)})
	return a
}

// stranger makes clients up: each is offered the release, fetches it and says what became
// of it. They get by the routes of HTTP, which nothing of this depends on.
func (a *attacked) stranger(network string, ids int, event string) {
	a.t.Helper()
	for i := range ids {
		a.made++
		s := a.servers[i%2]
		in := s.Heads.Channels()[a.channel]
		from := fleet.Client{ID: fmt.Sprint("nobody ", a.made), Network: network}
		asks := channels.Client{Client: manifest.Client{Target: "linux-x86_64", Version: "1.0.0"}, ID: from.ID}
		answer, err := in.For(asks)
		if err != nil {
			a.t.Fatal(err)
		}
		if s.Fleet.Asked(a.t.Context(), a.channel, in, asks, answer, from); event != "" {
			s.Fleet.Reported(a.t.Context(), in, fleet.Report{Channel: a.channel, Version: "1.1.0", Target: "linux-x86_64", Event: event, At: a.Clock.Now()}, from)
		}
	}
}

// hour lets the computers live while strangers do something every ten minutes, and
// returns why the rollout was halted, empty if it was not.
func (a *attacked) hour(hours int, becomes behavior, strangers func()) string {
	a.t.Helper()
	paused := func() bool { return a.log().Head().Action == channels.Pause }
	a.live(a.computers, hours, becomes, func() bool {
		strangers()
		for _, s := range a.servers { // which happens every second
			s.Fleet.WriteSightings(a.t.Context())
		}
		return paused()
	})
	if !paused() {
		return ""
	}
	return a.log().Head().Why
}

// runs: what they fetched runs at their next question.
func runs(int, time.Duration) string { return "1.1.0" }

// crashes: what they fetched crashes for one in eight.
func crashes(i int, _ time.Duration) string {
	if i%8 == 0 {
		return "crashed"
	}
	return "1.1.0"
}

// TestOneAddress: 833 made-up clients of one address that crash, every ten minutes for an
// hour, halt nothing, nor do they after somebody has let a release out again. The release
// that really fails is halted meanwhile.
func TestOneAddress(t *testing.T) {
	flood := func(a *attacked) func() {
		return func() { a.stranger("198.51.100.0/24", 833, "crashed") }
	}
	a := attack(t, apitest.Embedded(t))
	if why := a.hour(1, runs, flood(a)); why != "" {
		t.Errorf("a healthy rollout is halted: %s", why)
	}
	for _, steer := range []func() error{
		func() error {
			_, err := a.Pause(t.Context(), release.Options{Channel: a.channel, Why: "support asks"})
			return err
		},
		func() error { _, err := a.Resume(t.Context(), release.Options{Channel: a.channel}); return err },
	} {
		if err := steer(); err != nil {
			t.Fatal(err)
		}
		a.settle()
	}
	if why := a.hour(1, runs, flood(a)); why != "" {
		t.Errorf("it is halted after it was resumed: %s", why)
	}
	b := attack(t, apitest.Embedded(t))
	if why := b.hour(3, crashes, flood(b)); !strings.Contains(why, "Halt: ") {
		t.Errorf("a release that fails for one in eight goes on: %q", why)
	}
}

// TestFortyAddresses: forty addresses make up as many clients as the tables have room for,
// and more. A healthy rollout is not halted, its steps wait while there is no room, and
// one that fails is halted, whether the strangers say nothing or praise it.
func TestFortyAddresses(t *testing.T) {
	events := []string{"", "started"}
	if testing.Short() {
		events = events[1:]
	}
	for _, event := range events {
		flood := func(a *attacked) func() {
			return func() {
				for i := range 40 {
					a.stranger(fmt.Sprintf("203.0.%d.0/24", i), 5000/turns/10*4, event) // a quarter of them is offered it
				}
			}
		}
		small := func() *apitest.World {
			w := apitest.Embedded(t)
			w.Clients /= 10 // and the strangers as well
			return w
		}
		a := attack(t, small())
		if why := a.hour(1, runs, flood(a)); why != "" {
			t.Errorf("strangers that say %q: a healthy rollout is halted: %s", event, why)
		}
		if metric := a.servers[0].Metric(fmt.Sprintf(`tsmon_updates_rollout_full{channel="%s"}`, a.channel)); metric != "1" {
			t.Errorf("strangers that say %q: that there is no room is shown as %q", event, metric)
		}
		for i, s := range a.stewards { // each knows it, and so does who looks at the records
			o := apitest.Must[*fleet.Opinion](t)(s.Guards.Judge(t.Context(), a.channel, a.servers[i].Heads.Channels()[a.channel]))
			if o.Decision != verdict.Wait || o.Verdict.Decision == verdict.Continue && !strings.Contains(o.Why, "no room") {
				t.Errorf("strangers that say %q: %s, %s", event, o.Decision, o.Why)
			}
		}
		if log := a.Logged.String(); !strings.Contains(log, "its steps wait") {
			t.Errorf("strangers that say %q: the log does not say that steps wait", event)
		}
		b := attack(t, small())
		if why := b.hour(4, crashes, flood(b)); !strings.Contains(why, "Halt: ") {
			o := apitest.Must[*fleet.Opinion](t)(b.stewards[0].Guards.Judge(t.Context(), b.channel, b.servers[0].Heads.Channels()[b.channel]))
			t.Errorf("strangers that say %q: a release that fails for one in eight goes on: %+v", event, o)
		}
	}
}
