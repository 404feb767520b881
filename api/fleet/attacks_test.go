package fleet_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/api/fleet/verdict"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/store/longtest"
)

// attacked is a rollout to a quarter of 1,200 computers, while strangers make up clients.
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

// stranger makes up clients with one address, which ask one of the servers one after another.
// Each is offered the release and reports an outcome: whoever makes up IDs can keep those that
// are offered something.
func (a *attacked) stranger(address string, ids int, event string) {
	a.t.Helper()
	in := a.servers[0].Heads.Channels()[a.channel]
	report := apitest.Must[[]byte](a.t)(json.Marshal(apitest.Report{Channel: a.channel, Version: "1.1.0", Target: "linux-x86_64", Event: event}))
	for ids > 0 {
		a.made++
		id := fmt.Sprint("nobody ", a.made)
		answer, err := in.For(channels.Client{Client: manifest.Client{Target: "linux-x86_64", Version: "1.0.0"}, ID: id})
		if err != nil {
			a.t.Fatal(err)
		}
		if answer.Offer == nil && in.Rolling() != "" {
			continue
		}
		ids--
		a.send(http.MethodGet, "/updates/"+a.channel+"/linux/x86_64/1.0.0", nil, id, address)
		if event != "" {
			a.send(http.MethodPost, "/updates/report", report, id, address)
		}
	}
}

// send sends a request of a client to one of the servers. It takes no connection: there are tens of
// thousands of these requests.
func (a *attacked) send(method, path string, body []byte, id, address string) {
	a.t.Helper()
	r := httptest.NewRequestWithContext(a.t.Context(), method, path, bytes.NewReader(body))
	r.Header = http.Header{apitest.ClientHeader: {id}, "X-Forwarded-For": {address}, "Content-Type": {"application/json"}}
	answer := httptest.NewRecorder()
	a.servers[a.made%2].Handler.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK && answer.Code != http.StatusNoContent {
		a.t.Fatalf("%s %s: %d %s", method, path, answer.Code, answer.Body)
	}
}

// hour simulates an hour in which strangers do something every ten minutes. It returns why the
// rollout was halted, or "".
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

// runs: the clients run the release at their next request.
func runs(int, time.Duration) string { return "1.1.0" }

// crashes: the release crashes for one client in eight.
func crashes(i int, _ time.Duration) string {
	if i%8 == 0 {
		return "crashed"
	}
	return "1.1.0"
}

// TestOneAddress: every ten minutes for an hour, 833 made-up clients with one address report
// crashes. They halt no rollout, not even after it was resumed. A release that really fails is
// still halted.
func TestOneAddress(t *testing.T) {
	flood := func(a *attacked) func() {
		return func() { a.stranger("198.51.100.9", 833, "crashed") }
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

// TestFortyAddresses: forty addresses make up more clients than the tables have room for, 5,000
// each within an hour, or a part of that unless this is a long run. A healthy rollout is not
// halted, but its steps wait while there is no room. A failing one is halted, whether the
// strangers report nothing or success.
func TestFortyAddresses(t *testing.T) {
	events, part := []string{"", "started"}, 10
	share, long := longtest.Chosen(t)
	switch {
	case long:
		part = 1
	case testing.Short():
		events, part = events[1:], 20
	}
	for i, event := range events {
		f := forty{event, part}
		for n, play := range []func(*testing.T){f.healthy, f.failing} {
			if share.Has(8*i + 4*n) {
				play(t)
			}
		}
	}
}

// forty is forty addresses whose made-up clients all report the same, or nothing.
type forty struct {
	event string
	part  int // how many times fewer than 5,000 each, and than the tables have room for
}

func (f forty) attack(t *testing.T) (*attacked, func()) {
	w := apitest.Embedded(t)
	w.Clients /= f.part // as the strangers
	a := attack(t, w)
	return a, func() {
		for i := range 40 {
			a.stranger(fmt.Sprintf("203.0.%d.9", i), 5000/turns/f.part, f.event)
		}
	}
}

func (f forty) healthy(t *testing.T) {
	a, flood := f.attack(t)
	if why := a.hour(1, runs, flood); why != "" {
		t.Errorf("strangers that say %q: a healthy rollout is halted: %s", f.event, why)
	}
	if metric := a.servers[0].Metric(fmt.Sprintf(`tsmon_updates_rollout_full{channel="%s"}`, a.channel)); metric != "1" {
		t.Errorf("strangers that say %q: that there is no room is shown as %q", f.event, metric)
	}
	for i, s := range a.stewards { // each knows it, and so does who looks at the records
		o := apitest.Must[*fleet.Opinion](t)(s.Guards.Judge(t.Context(), a.channel, a.servers[i].Heads.Channels()[a.channel]))
		if o.Decision != verdict.Wait || o.Verdict.Decision == verdict.Continue && !strings.Contains(o.Why, "no room") {
			t.Errorf("strangers that say %q: %s, %s", f.event, o.Decision, o.Why)
		}
	}
	if log := a.Logged.String(); !strings.Contains(log, "its steps wait") {
		t.Errorf("strangers that say %q: the log does not say that steps wait", f.event)
	}
}

func (f forty) failing(t *testing.T) {
	a, flood := f.attack(t)
	if why := a.hour(4, crashes, flood); !strings.Contains(why, "Halt: ") {
		o := apitest.Must[*fleet.Opinion](t)(a.stewards[0].Guards.Judge(t.Context(), a.channel, a.servers[0].Heads.Channels()[a.channel]))
		t.Errorf("strangers that say %q: a release that fails for one in eight goes on: %+v", f.event, o)
	}
}
