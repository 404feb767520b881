package api

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/release"
)

func init() { interfaceTests["a rollout halts itself"] = testHaltsItself }

// computer has the application. It asks once an hour, downloads what it is
// offered, and can't install it.
type computer struct {
	id     string
	minute int // of the hour
	failed string
}

// testHaltsItself: a release that nobody can install is rolled out by steps from 5
// to 100 % within a day. Two servers that share their stores answer the clients in
// turn and judge. The rollout ends before 10 % have the release, by one entry of
// the log, and nobody is offered it any more.
func testHaltsItself(t *testing.T, w *world) {
	w.Refresh = 20 * time.Millisecond
	var servers []*Server
	var clients []client
	d := w.publisher(t)
	channel := fmt.Sprint("c", number.Add(1))
	d.Policies[channel] = release.Policy{}
	own := httptest.NewUnstartedServer(nil)
	d.PublicURL = "http://" + own.Listener.Addr().String() + "/updates"
	for i := range 2 {
		s := New(w.Options)
		s.installs.begin.Do(func() {}) // the test writes what it sees, minute by minute
		web := own
		if i > 0 {
			web = httptest.NewUnstartedServer(nil)
		}
		web.Config.Handler = s.Handler()
		web.Start()
		t.Cleanup(func() {
			web.Close()
			s.Close()
		})
		servers, clients = append(servers, s), append(clients, client{tb: t, base: web.URL})
	}
	d.part(t, "1.0.0", func(o *release.PublishOptions) { o.Channel = channel })
	d.part(t, "1.1.0", func(o *release.PublishOptions) {
		o.Channel, o.Rollout = channel, &channels.Rollout{Steps: []int{5, 25, 50, 100}, Every: channels.Duration(6 * time.Hour)}
	})
	ask := func(server int, id string) string {
		return clients[server].send("GET", "/updates/"+channel+"/linux/x86_64/1.0.0", nil, header(id)).version(t)
	}
	for i := range servers {
		seen(t, "the rollout", func() bool {
			o, err := servers[i].heads.offers(t.Context(), channel)
			return err == nil && o.Rolling() == "1.1.0"
		})
	}

	const all = 1200
	fleet := make([]*computer, all)
	for i := range fleet {
		fleet[i] = &computer{id: fmt.Sprint("computer ", i), minute: i % 60}
	}
	has := func() (n int) {
		for _, c := range fleet {
			if c.failed != "" {
				n++
			}
		}
		return n
	}
	halted := 0
	for minute := 0; halted == 0 && minute < 24*60; minute++ {
		for i, c := range fleet {
			if c.minute != minute%60 {
				continue
			}
			if version := ask(i%2, c.id); version != "none" {
				c.failed = version
				clients[i%2].send("GET", "/updates/releases/"+version+"/App_"+version+"_amd64.AppImage.tar.gz", nil, header(c.id))
			}
		}
		w.now.move(time.Minute)
		for i, s := range servers {
			s.installs.writeSightings(t.Context())
			for _, trip := range must[[]Trip](t)(s.Tripped(t.Context())) {
				desk := *d.Publisher
				desk.Who = fmt.Sprint("server ", i)
				if report := must[*release.Report](t)(desk.Halt(t.Context(), release.Options{Channel: channel, Why: trip.Reason()}, trip.Sequence)); report.Changed {
					halted++
				}
			}
		}
	}
	log := must[*channels.Log](t)(channels.Repository{Store: w.Objects}.Load(t.Context(), channel))
	head := log.Head()
	if halted != 1 || head.Action != channels.Pause || head.Sequence != 3 || head.Why == "" {
		t.Fatalf("%d servers halted it; the log ends with entry %d, %s: %s", halted, head.Sequence, head.Action, head.Why)
	}
	if n := has(); n < 50 || n >= all/10 {
		t.Errorf("%d of %d clients have the release", n, all)
	}
	t.Logf("halted with %d of %d clients: %s", has(), all, head.Why)
	// Steps pass no more, and those who were in are offered the release before.
	w.now.move(20 * time.Hour)
	for i := range servers {
		seen(t, "the pause", func() bool {
			return !slices.ContainsFunc(fleet[:200], func(c *computer) bool { return ask(i, c.id) != "none" })
		})
	}
	for i, c := range fleet {
		if version := ask(i%2, c.id); version != "none" {
			t.Fatalf("%s is told %s", c.id, version)
		}
	}
}
