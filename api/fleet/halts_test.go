package fleet_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/channels"
	"tsmon/release"
)

// guarded is a channel that two servers, which share their stores, answer for and
// judge. The test makes them write what they have seen, minute by minute.
type guarded struct {
	*apitest.World
	apitest.Desk
	channel string
	servers []*apitest.Updates
	halted  int // entries of the log
}

func guard(t *testing.T, w *apitest.World) *guarded {
	t.Helper()
	w.Refresh = 20 * time.Millisecond
	g := &guarded{World: w, Desk: w.Desk(t), channel: fmt.Sprint("c", apitest.Number.Add(1))}
	g.Policies[g.channel] = release.Policy{}
	for range 2 {
		u := w.ServeUpdates(t)
		u.Fleet.Still()
		g.servers = append(g.servers, u)
	}
	g.Desk.PublicURL = g.servers[0].Base + "/updates"
	return g
}

func (g *guarded) publish(t *testing.T, version string, r *channels.Rollout) {
	t.Helper()
	g.PublishWith(t, version, func(o *release.PublishOptions) { o.Channel, o.Rollout = g.channel, r })
	for _, s := range g.servers {
		apitest.Eventually(t, version, func() bool {
			s.Get("/updates/" + g.channel + "/latest.json") // so that the channel is known
			c, ok := s.Heads.Channels()[g.channel]
			return ok && c.Newest() == version
		})
	}
}

// computer has the application, and can't install what it is offered.
type computer struct{ id, fetched string }

// ask lets a computer ask one of the servers, and download what it is offered.
func (g *guarded) ask(t *testing.T, server int, c *computer) string {
	t.Helper()
	from := g.servers[server]
	version := from.Send("GET", "/updates/"+g.channel+"/linux/x86_64/1.0.0", nil, apitest.Insider(c.id)).Version(t)
	if version != "none" {
		c.fetched = version
		from.Send("GET", "/updates/releases/"+version+"/App_"+version+"_amd64.AppImage.tar.gz", nil, apitest.Insider(c.id))
	}
	return version
}

// minute passes: each server writes what it saw, and judges.
func (g *guarded) minute(t *testing.T) {
	t.Helper()
	g.Clock.Move(time.Minute)
	for i, s := range g.servers {
		guards := &fleet.Guards{Channels: s.Heads.Channels, Records: g.Records, Now: g.Clock.Now}
		s.Fleet.WriteSightings(t.Context())
		for _, trip := range apitest.Must[[]fleet.Trip](t)(guards.Tripped(t.Context())) {
			own := *g.Publisher
			own.Who = fmt.Sprint("server ", i)
			report := apitest.Must[*release.Report](t)(own.Halt(t.Context(), release.Options{Channel: g.channel, Why: trip.Reason()}, trip.Sequence))
			if report.Changed {
				g.halted++
			}
		}
	}
}

// TestHaltsItself: a release that nobody can install is rolled out by steps from 5
// to 100 % within a day, to clients that ask once an hour. It ends before 10 %
// have the release, by one entry of the log, and nobody is offered it any more.
func TestHaltsItself(t *testing.T) { testHaltsItself(t, apitest.Embedded(t)) }

func testHaltsItself(t *testing.T, w *apitest.World) {
	g := guard(t, w)
	g.publish(t, "1.0.0", nil)
	g.publish(t, "1.1.0", &channels.Rollout{Steps: []int{5, 25, 50, 100}, Every: channels.Duration(6 * time.Hour)})
	computers := make([]computer, 1200)
	for i := range computers {
		computers[i].id = fmt.Sprint("computer ", i)
	}
	for minute := 0; g.halted == 0 && minute < 24*60; minute++ {
		for i := minute % 60; i < len(computers); i += 60 {
			g.ask(t, i/60%2, &computers[i])
		}
		g.minute(t)
	}
	head := apitest.Must[*channels.Log](t)(channels.Repository{Store: w.Objects}.Load(t.Context(), g.channel)).Head()
	if g.halted != 1 || head.Action != channels.Pause || head.Sequence != 3 || head.Why == "" {
		t.Fatalf("%d servers halted it; the log ends with entry %d, %s: %s", g.halted, head.Sequence, head.Action, head.Why)
	}
	have := 0
	for _, c := range computers {
		if c.fetched != "" {
			have++
		}
	}
	if have < 50 || have >= len(computers)/10 {
		t.Errorf("%d of %d clients have the release", have, len(computers))
	}
	// Steps pass no more, and those who were in are offered the release before.
	w.Clock.Move(20 * time.Hour)
	for i := range g.servers {
		apitest.Eventually(t, "the pause", func() bool {
			return !slices.ContainsFunc(computers[:200], func(c computer) bool { return g.ask(t, i, &c) != "none" })
		})
	}
	if testing.Short() {
		computers = computers[:200]
	}
	for i := range computers {
		if version := g.ask(t, i%2, &computers[i]); version != "none" {
			t.Fatalf("%s is told %s", computers[i].id, version)
		}
	}
}
