package fleet_test

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/channels"
	"tsmon/store/record"
)

// TestSampledAdoption: if a sample of the fleet is recorded, the figures are estimates for all
// clients, and as precise as their margin says.
func TestSampledAdoption(t *testing.T) { testSampledAdoption(t, apitest.Embedded(t)) }

func testSampledAdoption(t *testing.T, w *apitest.World) {
	const clients, have, crashed = 4000, 1000, 400
	r := apitest.RollOut(t, w)
	now := time.Now()
	read := func() *fleet.Adoption {
		log := apitest.Must[*channels.Log](t)(channels.Repository{Store: w.Objects}.Load(t.Context(), r.Channel))
		a := fleet.NewAdoption(log)
		if err := a.ReadRecords(t.Context(), w.Records, now); err != nil {
			t.Fatal(err)
		}
		return a
	}
	var seen record.Sightings
	for i := range clients {
		sum := sha256.Sum256([]byte(fmt.Sprint(i)))
		id := record.ClientID(sum[:])
		installed := record.Installed{Channel: r.Channel, Client: id, Version: "1.0.0", Target: "linux-x86_64", Seen: now}
		try := record.Try{Channel: r.Channel, Client: id, Version: "1.1.0", Asked: now, Network: record.Network(i)}
		if i < have {
			installed.Version, try.Running = "1.1.0", now
		}
		if i < crashed {
			try.Crashed = now
		}
		seen.Installed, seen.Tries = append(seen.Installed, installed), append(seen.Tries, try)
	}
	if err := w.Records.Sight(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	a := read()
	if a.Clients != clients || a.Sample != nil || a.Newest.Sample != nil || a.Newest.Crashed != crashed || a.Versions[1].Margin != 0 {
		t.Errorf("all are recorded: %+v", a)
	}
	for version, share := range map[string]float64{"": 0.125, "1.1.0": 0.25} {
		if _, err := w.Records.Bound(t.Context(), r.Channel, version, int(clients*share*1.2), record.Sample{}); err != nil {
			t.Fatal(err)
		}
	}
	a = read()
	if a.Sample == nil || a.Newest.Sample == nil || a.Sample.Share != 0.125 || a.Newest.Sample.Share != 0.25 {
		t.Fatalf("a sample is recorded: %+v, %+v", a.Sample, a.Newest.Sample)
	}
	near := func(what string, got, want, margin float64) {
		if margin <= 0 || math.Abs(got-want) > 2*margin { // of the many samples there are this is one
			t.Errorf("%s: %v ± %v, it is %v", what, got, margin, want)
		}
	}
	near("clients", float64(a.Clients), clients, float64(a.Sample.Margin))
	near("tries", float64(a.Newest.Crashed+a.Newest.Running+a.Newest.Offered), clients, float64(a.Newest.Sample.Margin))
	for _, v := range a.Versions {
		near(v.Version, v.Percent, map[string]float64{"1.0.0": 75, "1.1.0": 25}[v.Version], v.Margin)
	}
	r.Send("GET", "/updates/"+r.Channel+"/latest.json", nil, nil)
	r.Fleet.CountClients(t.Context())
	for name, want := range map[string]int{
		"tsmon_updates_clients_margin{channel=%q}":                                       a.Sample.Margin,
		"tsmon_updates_newest_clients{channel=%q,outcome=\"crashed\",version=\"1.1.0\"}": a.Newest.Crashed,
	} {
		if got := r.Metric(fmt.Sprintf(name, r.Channel)); got != fmt.Sprint(want) {
			t.Errorf("%s is %q, want %d", name, got, want)
		}
	}
	r.Server.Close() // what was counted is in the time series then
	w.Settle(fleet.Database)
	a = read()
	if err := a.ReadSeries(t.Context(), w.Series, time.Now()); err != nil || len(a.Curve) < 2 {
		t.Fatalf("the curve is %+v, %v", a.Curve, err)
	}
	for _, p := range a.Curve {
		near(fmt.Sprint("the curve at ", p.Time), p.Clients, have, float64(p.Margin))
	}
}

// TestAdoptionTypes: clients are counted by installer type, if they name a type that their
// system has.
func TestAdoptionTypes(t *testing.T) {
	r := apitest.RollOut(t, apitest.Embedded(t))
	for id, query := range map[string]string{"a": "?bundle_type=appimage", "b": "?bundle_type=appimage", "c": "", "d": "?bundle_type=msi", "e": "?bundle_type=" + strings.Repeat("x", 2000)} {
		r.Send("GET", "/updates/"+r.Channel+"/linux/x86_64/1.0.0"+query, nil, apitest.Insider(id))
	}
	want := []fleet.GroupCount{
		{Version: "1.0.0", Target: "linux-x86_64", Cohort: "internal", Clients: 3},
		{Version: "1.0.0", Target: "linux-x86_64", Type: "appimage", Cohort: "internal", Clients: 2},
	}
	waitGroups(t, r, want)
}

// TestAdoptionReported: a report names no installer type. It doesn't replace the type of the
// client's request, whether or not that request is in the records by then.
func TestAdoptionReported(t *testing.T) {
	r := apitest.RollOut(t, apitest.Embedded(t))
	ask := func(id, query string) {
		r.Send("GET", "/updates/"+r.Channel+"/linux/x86_64/1.0.0"+query, nil, apitest.Insider(id))
	}
	ask("a", "?bundle_type=deb")
	ask("b", "")
	waitGroups(t, r, []fleet.GroupCount{
		{Version: "1.0.0", Target: "linux-x86_64", Cohort: "internal", Clients: 1},
		{Version: "1.0.0", Target: "linux-x86_64", Type: "deb", Cohort: "internal", Clients: 1},
	})
	ask("c", "?bundle_type=rpm")
	for _, id := range []string{"a", "b", "c"} {
		if got := r.Report(id, "1.1.0", "started"); got.Status != 204 {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	waitGroups(t, r, []fleet.GroupCount{
		{Version: "1.1.0", Target: "linux-x86_64", Cohort: "internal", Clients: 1},
		{Version: "1.1.0", Target: "linux-x86_64", Type: "deb", Cohort: "internal", Clients: 1},
		{Version: "1.1.0", Target: "linux-x86_64", Type: "rpm", Cohort: "internal", Clients: 1},
	})
}

// waitGroups waits until the adoption of a channel has these groups.
func waitGroups(t *testing.T, r *apitest.Rollout, want []fleet.GroupCount) {
	t.Helper()
	log := apitest.Must[*channels.Log](t)(channels.Repository{Store: r.Objects}.Load(t.Context(), r.Channel))
	var got []fleet.GroupCount
	defer func() {
		if !slices.Equal(got, want) {
			t.Logf("the adoption has %+v", got)
		}
	}()
	apitest.Eventually(t, fmt.Sprintf("%+v", want), func() bool {
		a := fleet.NewAdoption(log)
		if err := a.ReadRecords(t.Context(), r.Records, time.Now()); err != nil {
			t.Fatal(err)
		}
		got = a.Groups
		return slices.Equal(got, want)
	})
}
