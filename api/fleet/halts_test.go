package fleet_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/channels"
	"tsmon/release"
	"tsmon/store/object"
	"tsmon/store/servertest"
)

// guarded is a channel with two servers that share their stores. Both answer clients and judge
// the rollout. The test tells them when to write their sightings and when to judge.
type guarded struct {
	*apitest.World
	apitest.Desk
	t        *testing.T
	channel  string
	servers  []*apitest.Updates
	stewards []*fleet.Steward
}

func guard(t *testing.T, w *apitest.World) *guarded {
	t.Helper()
	w.Refresh, w.BehindProxy = 20*time.Millisecond, true
	g := &guarded{World: w, Desk: w.Desk(t), t: t, channel: fmt.Sprint("c", apitest.Number.Add(1))}
	g.Policies[g.channel] = release.Policy{}
	for range 2 {
		u := w.ServeUpdates(t)
		if err := u.Fleet.Still(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.servers = append(g.servers, u)
	}
	g.Desk.PublicURL = g.servers[0].Base + "/updates"
	began := g.Clock.Now()
	for i, s := range g.servers {
		own := *g.Publisher
		own.Who = fmt.Sprint("server ", i)
		g.stewards = append(g.stewards, &fleet.Steward{Publisher: &own, Log: w.Log, Elapsed: func() time.Duration { return g.Clock.Now().Sub(began) }, Guards: &fleet.Guards{
			Default: fleet.Guard{Failures: 2, Networks: 3}, Channels: s.Heads.Channels, Records: g.Records, Recorded: s.Fleet.Recorded, Now: g.Clock.Now,
		}})
	}
	return g
}

func (g *guarded) publish(version string, r *channels.Rollout) {
	g.t.Helper()
	g.PublishWith(g.t, version, func(o *release.PublishOptions) { o.Channel, o.Rollout = g.channel, r })
	g.settle()
}

// log returns the channel's log.
func (g *guarded) log() *channels.Log {
	g.t.Helper()
	return apitest.Must[*channels.Log](g.t)(channels.Repository{Store: g.Objects}.Load(g.t.Context(), g.channel))
}

// settle waits until both servers know the end of the log.
func (g *guarded) settle() {
	g.t.Helper()
	sequence := g.log().Head().Sequence
	for _, s := range g.servers {
		apitest.Eventually(g.t, "the newest entry", func() bool {
			s.Get("/updates/" + g.channel + "/latest.json") // so that the channel is known
			c, ok := s.Heads.Channels()[g.channel]
			return ok && c.Sequence == sequence && !c.Behind
		})
	}
}

// computer is an installed application.
type computer struct {
	id, address string
	version     string
	fetched     string        // waiting to be installed
	at          time.Duration // when it was fetched
}

func computersOf(n int) []computer {
	all := make([]computer, n)
	for i := range all {
		all[i] = computer{id: fmt.Sprint("computer ", i), address: fmt.Sprintf("10.%d.%d.7", i/250, i%250), version: "1.0.0"}
	}
	return all
}

// behavior returns the effect of a release that a computer fetched some time ago: the version
// that it runs, an event that it reports, or "" for nothing yet.
type behavior func(i int, waited time.Duration) string

func header(c *computer) http.Header {
	return http.Header{apitest.ClientHeader: {c.id}, "X-Forwarded-For": {c.address}}
}

// ask has a computer ask one of the servers, and download the release that it is offered.
func (g *guarded) ask(server int, c *computer, now time.Duration) string {
	g.t.Helper()
	from := g.servers[server]
	version := from.Send("GET", "/updates/"+g.channel+"/linux/x86_64/"+c.version, nil, header(c)).Version(g.t)
	if version != "none" && c.fetched != version {
		c.fetched, c.at = version, now
		from.Send("GET", "/updates/releases/"+version+"/App_"+version+"_amd64.AppImage.tar.gz", nil, header(c))
	}
	return version
}

// turn is the time between two looks. An hour has turns looks.
const (
	turns = 6
	turn  = time.Hour / turns
)

// live simulates all computers for some hours, or until done. Each asks hourly.
func (g *guarded) live(computers []computer, hours int, becomes behavior, done func() bool) {
	g.t.Helper()
	entries := len(g.log().Entries)
	for n := range turns * hours {
		now := time.Duration(n) * turn
		for i := n % turns; i < len(computers); i += turns {
			c, server := &computers[i], i/turns%2
			if c.fetched != "" {
				switch event := becomes(i, now-c.at); event {
				case "":
				case "failed", "crashed":
					g.servers[server].Send("POST", "/updates/report", apitest.Report{Channel: g.channel, Version: c.fetched, Target: "linux-x86_64", Event: event}, header(c))
				default:
					c.version, c.fetched = event, ""
				}
			}
			g.ask(server, c, now)
		}
		g.look()
		if n := len(g.log().Entries); n != entries {
			entries = n
			g.settle()
		}
		if done() {
			return
		}
	}
}

// look has each server write its sightings, take steps and judge.
func (g *guarded) look() {
	g.t.Helper()
	g.Clock.Move(turn)
	for i, s := range g.servers {
		s.Fleet.WriteSightings(g.t.Context())
		if err := g.stewards[i].Pass(g.t.Context()); err != nil {
			g.t.Fatal(err)
		}
	}
}

// daily is a rollout from 5 to 100 % within a day.
func daily() *channels.Rollout {
	return &channels.Rollout{Steps: []int{5, 25, 50, 100}, Every: channels.Duration(6 * time.Hour)}
}

func have(computers []computer) (n int) {
	for _, c := range computers {
		if c.fetched != "" || c.version != "1.0.0" {
			n++
		}
	}
	return n
}

// TestHaltsItself: a release that nobody can install is halted before 5 % have it, by one entry
// of the log. Nobody is offered it any more.
func TestHaltsItself(t *testing.T) { testHaltsItself(t, apitest.Embedded(t)) }

func testHaltsItself(t *testing.T, w *apitest.World) {
	g := guard(t, w)
	g.publish("1.0.0", nil)
	g.publish("1.1.0", daily())
	computers := computersOf(1200)
	g.live(computers, 24, func(int, time.Duration) string { return "failed" }, func() bool { return g.log().Head().Action == channels.Pause })
	head := g.log().Head()
	if head.Action != channels.Pause || head.Sequence != 3 || head.Why == "" {
		t.Fatalf("the log ends with entry %d, %s: %s", head.Sequence, head.Action, head.Why)
	}
	if n := have(computers); n < 3 || n > len(computers)/20+20 {
		t.Errorf("%d of %d clients have the release", n, len(computers))
	}
	// Steps pass no more, and those who were in are offered the release before.
	w.Clock.Move(20 * time.Hour)
	for i := range g.servers {
		apitest.Eventually(t, "the pause", func() bool {
			return !slices.ContainsFunc(computers[:200], func(c computer) bool { return g.ask(i, &c, 0) != "none" })
		})
	}
	if testing.Short() {
		computers = computers[:200]
	}
	for i := range computers {
		if version := g.ask(i%2, &computers[i], 0); version != "none" {
			t.Fatalf("%s is told %s", computers[i].id, version)
		}
	}
}

// TestNeverStarts: a release that does not start, and so reports nothing, stays at its first
// step, even if there is no previous release to compare it with.
func TestNeverStarts(t *testing.T) { testNeverStarts(t, apitest.Embedded(t)) }

func testNeverStarts(t *testing.T, w *apitest.World) {
	g := guard(t, w)
	g.publish("1.0.0", nil)
	g.publish("1.1.0", daily())
	computers := computersOf(1200)
	g.live(computers, 12, func(int, time.Duration) string { return "" }, func() bool { return false })
	if head := g.log().Head(); head.Sequence != 2 || have(computers) > len(computers)/10 {
		t.Errorf("the log ends with entry %d, %s: %s; %d have it", head.Sequence, head.Action, head.Why, have(computers))
	}
}

// TestInstallsLate: an application installs updates when it is quit, within a day. Its healthy
// release reaches everybody. Each step is an entry of the log.
func TestInstallsLate(t *testing.T) { testInstallsLate(t, apitest.Embedded(t)) }

func testInstallsLate(t *testing.T, w *apitest.World) {
	g := guard(t, w)
	g.publish("1.0.0", nil)
	g.publish("1.1.0", daily())
	computers := computersOf(240)
	late := func(i int, waited time.Duration) string {
		if waited < time.Duration(i*7919%24)*time.Hour {
			return ""
		}
		return "1.1.0"
	}
	g.live(computers, 8*24, late, func() bool { return g.log().Head().Rollout == nil })
	log := g.log()
	var shares []int
	for _, e := range log.Entries {
		if e.Rollout != nil {
			shares = append(shares, e.Rollout.Percent)
		}
	}
	if head := log.Head(); head.Version != "1.1.0" || head.Rollout != nil || !slices.Equal(shares, []int{5, 25, 50}) {
		t.Fatalf("the log ends with entry %d, %s: %s; steps %v", head.Sequence, head.Action, head.Why, shares)
	}
	if took := log.Head().When.Sub(log.Entries[1].When); took < 18*time.Hour {
		t.Errorf("the rollout took %s", took)
	}
}

// TestStepsHeldToTypes: a server takes no step of a healthy rollout if known clients could then
// not install the release from latest.json. It says what to do, and goes on once that is done.
func TestStepsHeldToTypes(t *testing.T) {
	var logged servertest.Log
	w := apitest.Embedded(t)
	w.Log = slog.New(slog.NewTextHandler(&logged, nil))
	g := guard(t, w)
	g.publish("1.0.0", nil)
	g.publish("1.1.0", &channels.Rollout{Steps: []int{40, 70, 100}, Every: channels.Duration(6 * time.Hour)})
	for _, s := range g.stewards {
		s.Publisher.Types = func(context.Context, string) (map[string]int, error) {
			return map[string]int{"linux-x86_64-deb": 4}, nil
		}
	}
	computers := computersOf(120)
	atOnce := func(int, time.Duration) string { return "1.1.0" }
	refused := func() bool { return strings.Contains(logged.String(), "a channel could not be brought up to date") }
	if g.live(computers, 48, atOnce, refused); !refused() || g.log().Head().Sequence != 2 {
		t.Fatalf("the log ends with entry %d: %s", g.log().Head().Sequence, &logged)
	}
	if want := "tsmon channel advance " + g.channel + " --allow-missing linux-x86_64-deb"; !strings.Contains(logged.String(), want) {
		t.Errorf("%s\nwant the hint %s", &logged, want)
	}
	if plan, err := g.stewards[0].Publisher.Advance(t.Context(), release.Options{Channel: g.channel, AllowMissing: []string{"linux-x86_64-deb"}}); err != nil || !plan.Changed {
		t.Fatalf("%+v, %v", plan, err)
	}
	g.settle()
	if g.live(computers, 96, atOnce, func() bool { return g.log().Head().Rollout == nil }); g.log().Head().Version != "1.1.0" {
		t.Errorf("the log ends with entry %d, %s: %s", g.log().Head().Sequence, g.log().Head().Version, &logged)
	}
}

// TestFedChannelIsNotHalted: the guard of a site can't pause a channel whose log comes from
// another store. It logs that, and what to do.
func TestFedChannelIsNotHalted(t *testing.T) {
	var logged servertest.Log
	w := apitest.Embedded(t)
	w.Log = slog.New(slog.NewTextHandler(&logged, nil))
	g := guard(t, w)
	g.publish("1.0.0", nil)
	g.publish("1.1.0", daily())
	mark := "log/" + g.channel + "/0000000001-0000000002.part"
	apitest.Must[object.Info](t)(g.Objects.Create(t.Context(), mark, strings.NewReader(""), 0, object.Attributes{}))
	said := func() bool { return strings.Contains(logged.String(), "a rollout that fails is not halted as a whole") }
	computers := computersOf(1200)
	g.live(computers, 12, func(int, time.Duration) string { return "failed" }, said)
	if want := "promote it from " + g.channel + " to a channel of this site"; !said() || !strings.Contains(logged.String(), want) {
		t.Errorf("want %s in %s", want, &logged)
	}
	if end := g.log().End(); end.Sequence != 2 {
		t.Errorf("the log ends with entry %d", end.Sequence)
	}
}
