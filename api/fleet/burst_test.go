package fleet_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
)

// TestBurst: if all clients ask once before anything is recorded, they are counted as precisely
// as the sample allows, on one server, or on two of which one knows nothing yet.
func TestBurst(t *testing.T) { testBurst(t, apitest.Embedded(t)) }

func testBurst(t *testing.T, w *apitest.World) {
	desk := w.Desk(t)
	channel := fmt.Sprint("c", apitest.Number.Add(1))
	desk.Policies[channel] = release.Policy{}
	for _, version := range []string{"1.0.0", "1.1.0"} {
		desk.PublishWith(t, version, func(o *release.PublishOptions) { o.Channel = channel })
	}
	log := apitest.Must[*channels.Log](t)(channels.Repository{Store: w.Objects}.Load(t.Context(), channel))
	in := apitest.Must[fleet.Channel](t)(fleet.ChannelOf(log))
	known := func() map[string]fleet.Channel { return map[string]fleet.Channel{channel: in} }
	const most, have = 1000, 4 // one in four has the newest
	clients := 120_000         // more than wait for the records at a time
	if testing.Short() {
		clients /= 10
	}
	var servers []*fleet.Sightings
	for range 2 {
		s := fleet.NewSightings(fleet.Options{
			Records: w.Records, Clients: most, Series: w.Series, Channels: known, Asks: func() map[string]int64 { return nil },
			Registry: prometheus.NewRegistry(), Log: w.Log, Now: w.Now,
		})
		if err := s.Still(t.Context()); err != nil {
			t.Fatal(err)
		}
		servers = append(servers, s)
	}
	ask := func(s *fleet.Sightings, i int) {
		c := channels.Client{Client: manifest.Client{Target: "linux-x86_64", Version: "1.0.0"}, ID: fmt.Sprint(i)}
		if i%have == 0 {
			c.Version = "1.1.0"
		}
		answer := apitest.Must[channels.Answer](t)(in.For(c))
		s.Asked(t.Context(), channel, in, c, answer, fleet.Client{ID: c.ID, Network: fmt.Sprint(i)})
	}
	for i := range clients {
		ask(servers[i%50/49], i) // few of them by the second
	}
	for range 2 {
		for _, s := range servers {
			s.WriteSightings(t.Context())
			w.Clock.Move(2 * time.Minute)
			ask(s, 0)
		}
	}
	a := fleet.NewAdoption(log)
	if err := a.ReadRecords(t.Context(), w.Records, w.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want, margin float64) {
		t.Helper()
		if margin <= 0 || math.Abs(got-want) > 2*margin {
			t.Errorf("%s: %v ± %v, it is %v", what, got, margin, want)
		}
	}
	if a.Sample == nil || a.Newest.Sample == nil {
		t.Fatalf("of %d clients there is no sample of %d: %+v", clients, most, a)
	}
	near("clients", float64(a.Clients), float64(clients), float64(a.Sample.Margin))
	near("tries", float64(a.Newest.Offered), float64(clients)*(1-1./have), float64(a.Newest.Sample.Margin))
	for _, v := range a.Versions {
		near(v.Version, v.Percent, map[string]float64{"1.0.0": 100 - 100./have, "1.1.0": 100. / have}[v.Version], v.Margin)
	}
}
