package fleet_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/channels"
	"tsmon/store/record"
)

// TestHistory: the history has the server's counts of clients per version, day by day.
func TestHistory(t *testing.T) { testHistory(t, apitest.Embedded(t)) }

func testHistory(t *testing.T, w *apitest.World) {
	const days, clients = 12, 48
	w.Clock.Move(-days * 24 * time.Hour)
	begin := w.Now()
	r := apitest.RollOut(t, w)
	log := apitest.Must[*channels.Log](t)(channels.Repository{Store: w.Objects}.Load(t.Context(), r.Channel))
	history := func() (curves map[string][]fleet.CurvePoint, versions []string) {
		t.Helper()
		a := fleet.NewAdoption(log)
		if err := a.ReadRecords(t.Context(), w.Records, w.Now()); err != nil {
			t.Fatal(err)
		}
		curves = map[string][]fleet.CurvePoint{}
		for _, c := range apitest.Must[[]fleet.VersionCurve](t)(r.Fleet.History(t.Context(), a, log)) {
			curves[c.Version], versions = c.Points, append(versions, c.Version)
		}
		return curves, versions
	}
	// Each day a twelfth of the clients takes the release.
	sight := func(updated int) {
		t.Helper()
		var seen record.Sightings
		for i := range clients {
			installed := record.Installed{Channel: r.Channel, Client: record.ClientID{byte(i), 1}, Version: "1.0.0", Target: "linux-x86_64", Seen: w.Now()}
			if i < updated {
				installed.Version = "1.1.0"
			}
			seen.Installed = append(seen.Installed, installed)
		}
		if err := w.Records.Sight(t.Context(), seen); err != nil {
			t.Fatal(err)
		}
	}
	sight(0)
	if curves, versions := history(); !slices.Equal(versions, []string{"1.1.0", "1.0.0"}) || len(curves["1.1.0"]) != 0 || len(curves["1.0.0"]) != 1 || curves["1.0.0"][0].Clients != clients {
		t.Errorf("before there are time series: %v %+v", versions, curves)
	}
	r.Send("GET", "/updates/"+r.Channel+"/latest.json", nil, nil) // the server looks for channels
	for day := range days {
		sight(day * clients / days)
		r.Fleet.CountClients(t.Context())
		w.Clock.Move(24 * time.Hour)
	}
	sight(clients)
	w.Settle(fleet.Database)
	curves, _ := history()
	for version, want := range map[string]func(day int) int{
		"1.1.0": func(day int) int { return day * clients / days },
		"1.0.0": func(day int) int { return clients - day*clients/days },
	} {
		points := curves[version]
		if each := map[string]int{"1.1.0": days, "1.0.0": days + 1}[version]; len(points) != each { // on the first day nobody had 1.1.0
			t.Errorf("%s has %d points, want %d: %+v", version, len(points), each, points)
			continue
		}
		for _, p := range points {
			day := int((p.Time.Sub(begin) + 12*time.Hour) / (24 * time.Hour))
			if p.Clients != float64(want(day)) {
				t.Errorf("%s has %v clients on day %d, want %d", version, p.Clients, day, want(day))
			}
		}
		if !slices.IsSortedFunc(points, func(a, b fleet.CurvePoint) int { return a.Time.Compare(b.Time) }) {
			t.Errorf("%s: the points are not in order: %+v", version, points)
		}
	}
	if last := curves["1.1.0"][len(curves["1.1.0"])-1]; last.Clients != clients || w.Now().Sub(last.Time) > time.Minute {
		t.Errorf("the last point is %+v, not the present", last)
	}
	w.Clock.Move(25*24*time.Hour - time.Hour)                                                              // the 30 days begin an hour before day 7
	if curves, _ := history(); len(curves["1.1.0"]) != 6 || curves["1.1.0"][0].Clients != 7*clients/days { // days 7 to 11, and now
		t.Errorf("of the last 30 days: %+v", curves["1.1.0"])
	}
}

// TestHistoryOfMany: of many versions the history has the newest and those with most clients.
func TestHistoryOfMany(t *testing.T) {
	w := apitest.Embedded(t)
	r := apitest.RollOut(t, w)
	log := apitest.Must[*channels.Log](t)(channels.Repository{Store: w.Objects}.Load(t.Context(), r.Channel))
	var seen record.Sightings
	for v := range 20 {
		for i := range v + 1 {
			seen.Installed = append(seen.Installed, record.Installed{Channel: r.Channel, Client: record.ClientID{byte(v), byte(i)}, Version: fmt.Sprint("0.0.", v), Target: "linux-x86_64", Seen: w.Now()})
		}
	}
	if err := w.Records.Sight(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	a := fleet.NewAdoption(log)
	if err := a.ReadRecords(t.Context(), w.Records, w.Now()); err != nil {
		t.Fatal(err)
	}
	var versions []string
	for _, c := range apitest.Must[[]fleet.VersionCurve](t)(r.Fleet.History(t.Context(), a, log)) {
		versions = append(versions, c.Version)
	}
	if want := []string{"1.1.0", "0.0.19", "0.0.18", "0.0.17", "0.0.16", "0.0.15", "0.0.14", "0.0.13"}; !slices.Equal(versions, want) {
		t.Errorf("%q, want %q", versions, want)
	}
}
