package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/store/record"
	"tsmon/store/series"
)

// TestAdoption follows clients from their first request to the outcome of their update.
func TestAdoption(t *testing.T) { testAdoption(t, apitest.Embedded(t)) }

func testAdoption(t *testing.T, w *apitest.World) {
	r := apitest.RollOut(t, w)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		if version := r.Check(id, "1.0.0").Version(t); version != "1.1.0" {
			t.Fatalf("%s is told %s", id, version)
		}
	}
	r.WaitProgress(t, record.Progress{Offered: 7})
	recorded := r.Fleet.Recorded()
	if recorded == 0 {
		t.Error("the guard does not notice that something was recorded")
	}
	for _, id := range []string{"a", "b", "c", "d", "f"} {
		if got := r.Download(id, "1.1.0"); got.Status != 200 {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	for event, id := range map[string]string{"installed": "d", "failed": "e", "crashed": "f"} {
		if got := r.Report(id, "1.1.0", event); got.Status != 204 {
			t.Fatalf("%s: %d %s", event, got.Status, got.Body)
		}
	}
	r.WaitProgress(t, record.Progress{Waiting: 4, Failed: 1, Crashed: 1, Offered: 1})
	if r.Fleet.Recorded() <= recorded {
		t.Error("the guard does not notice that more was recorded")
	}
	r.Check("a", "1.1.0") // it has it
	r.Check("b", "1.0.0") // it has not
	r.Check("d", "1.0.0") // it said that it waits for its next start
	r.WaitProgress(t, record.Progress{Running: 1, Kept: 1, Waiting: 2, Failed: 1, Crashed: 1, Offered: 1})
	r.Report("e", "1.1.0", "started")
	for range 20 { // a client counts once
		r.Report("f", "1.1.0", "crashed")
		r.Report("b", "1.1.0", "failed")
		r.Report("nobody", "1.1.0", "crashed") // was never offered anything
	}
	r.WaitProgress(t, record.Progress{Running: 2, Failed: 1, Waiting: 2, Crashed: 1, Offered: 1})

	clients := apitest.Must[[]record.ClientCount](t)(w.Records.Clients(t.Context(), r.Channel, time.Time{}))
	want := []record.ClientCount{{Version: "1.0.0", Target: "linux-x86_64", Cohort: "internal", Clients: 5}, {Version: "1.1.0", Target: "linux-x86_64", Cohort: "internal", Clients: 2}}
	if !slices.Equal(clients, want) {
		t.Errorf("%+v", clients)
	}
	counted := func(event, version string) string {
		return r.Metric(fmt.Sprintf(`tsmon_updates_events_total{channel="%s",cohort="internal",event="%s",target="linux-x86_64",version="%s"}`, r.Channel, event, version))
	}
	for key, want := range map[[2]string]string{
		{"checks", "1.0.0"}: "9", {"checks", "1.1.0"}: "1", {"offers", "1.1.0"}: "9", {"downloads", "1.1.0"}: "5",
		{"crashed", "1.1.0"}: "2", {"failed", "1.1.0"}: "2", {"started", "1.1.0"}: "1", {"installed", "1.1.0"}: "1", {"held", "1.0.0"}: "",
	} {
		if got := counted(key[0], key[1]); got != want {
			t.Errorf("%s of %s: %q, want %q", key[0], key[1], got, want)
		}
	}
	r.Fleet.CountClients(t.Context())
	if got := r.Metric(fmt.Sprintf(`tsmon_updates_clients{channel="%s",cohort="internal",target="linux-x86_64",version="1.0.0"}`, r.Channel)); got != "5" {
		t.Errorf("5 clients have 1.0.0, the metrics say %q", got)
	}
	if got := r.Metric(fmt.Sprintf(`tsmon_updates_newest_clients{channel="%s",outcome="crashed",version="1.1.0"}`, r.Channel)); got != "1" {
		t.Errorf("1 client crashed, the metrics say %q", got)
	}
	r.Server.Close() // what was counted is in the time series then
	w.Settle(fleet.Database)
	values := apitest.Must[[]series.Value](t)(w.Series.Current(t.Context(), fleet.Database, []series.Want{
		{Key: series.Key{Measurement: r.Channel, Field: "checks"}, Aggregate: series.Sum}, {Key: series.Key{Measurement: r.Channel, Field: "downloads"}, Aggregate: series.Sum},
		{Key: series.Key{Measurement: fleet.ClientsMeasurement(r.Channel), Field: "1.1.0"}},
	}))
	for i, want := range []float64{10, 5, 2} {
		if values[i].Number != want {
			t.Errorf("the time series say %v of the %d., want %v", values[i], i, want)
		}
	}
}

// TestVersionsBefore: versions from before the log are recorded under their names, up to a bound
// that stops made-up ones.
func TestVersionsBefore(t *testing.T) {
	r := apitest.RollOut(t, apitest.Embedded(t))
	r.Check("first", "v0.0.1")
	for i := range fleet.MaxBefore + 10 {
		r.Check("other", fmt.Sprintf("0.1.%d", i))
	}
	r.Check("second", "0.0.1")
	r.Check("third", "0.2.0")
	clients := r.WaitClients(t, 2)
	for i, want := range []record.ClientCount{{Version: fleet.Other, Clients: 2}, {Version: "0.0.1", Clients: 2}} {
		if clients[i].Version != want.Version || clients[i].Clients != want.Clients {
			t.Errorf("%+v, want %+v", clients[i], want)
		}
	}
}

// deafRecords are records that can refuse sightings.
type deafRecords struct {
	record.Store
	deaf chan bool // holds one while they are
}

func (d deafRecords) Sight(ctx context.Context, s record.Sightings) error {
	select {
	case d.deaf <- true:
		<-d.deaf
		return d.Store.Sight(ctx, s)
	default:
		return errors.Join(record.ErrUnavailable, errors.New("deaf"))
	}
}

// TestSightingsKept: sightings that the records refuse are written once they accept them again.
func TestSightingsKept(t *testing.T) {
	w := apitest.Embedded(t)
	records := deafRecords{w.Records, make(chan bool, 1)}
	records.deaf <- true
	w.Records = records
	r := apitest.RollOut(t, w)
	r.Check("a", "1.0.0")
	r.Download("a", "1.1.0")
	apitest.Eventually(t, "the complaint", func() bool { return strings.Contains(w.Logged.String(), "sightings of clients can't be recorded") })
	r.Check("b", "1.0.0")
	r.Check("a", "1.0.0")
	<-records.deaf
	r.WaitProgress(t, record.Progress{Kept: 1, Offered: 1})
	if !strings.Contains(w.Logged.String(), "sightings of clients are recorded again") {
		t.Error("the log does not say that it is over")
	}
}
