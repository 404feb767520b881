//go:build unported

package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/release"
	"tsmon/store/record"
	"tsmon/store/series"
)

func init() { interfaceTests["adoption"] = testAdoption }

// rolled is a server whose channel shows 1.0.0 and rolls out 1.1.0 to nearly
// everybody, with bundles that it serves itself. The channel has a name of its
// own, since worlds may share their records.
type rolled struct {
	*apitest.World
	apitest.Desk
	apitest.Client
	channel string
	handler *api.Server
}

func rollOut(t *testing.T, w *apitest.World) *rolled {
	t.Helper()
	r := &rolled{World: w, Desk: w.Desk(t), channel: fmt.Sprint("c", apitest.Number.Add(1))}
	w.Refresh = 50 * time.Millisecond
	server := httptest.NewUnstartedServer(nil)
	r.PublicURL = "http://" + server.Listener.Addr().String() + "/updates"
	r.Policies[r.channel] = release.Policy{}
	r.PublishWith(t, "1.0.0", func(o *release.PublishOptions) { o.Channel = r.channel })
	r.PublishWith(t, "1.1.0", func(o *release.PublishOptions) {
		o.Channel, o.Rollout = r.channel, &channels.Rollout{Steps: []int{99}, Cohorts: []string{"internal"}}
	})
	r.handler = api.New(w.Options)
	server.Config.Handler = r.handler.Handler()
	server.Start()
	r.Client = apitest.Client{TB: t, Base: server.URL}
	t.Cleanup(func() {
		server.Close()
		r.handler.Close()
	})
	return r
}

// header is what an application of the cohort sends.
func header(id string) http.Header {
	return http.Header{clientHeader: {id}, cohortHeader: {"internal"}}
}

func (r *rolled) check(id, version string) apitest.Answer {
	return r.Send("GET", "/updates/"+r.channel+"/linux/x86_64/"+version, nil, header(id))
}

func (r *rolled) download(id, version string) apitest.Answer {
	return r.Send("GET", "/updates/releases/"+version+"/App_"+version+"_amd64.AppImage.tar.gz", nil, header(id))
}

func (r *rolled) tell(id, version, event string) apitest.Answer {
	return r.Send("POST", "/updates/report", report{r.channel, version, "linux-x86_64", event}, header(id))
}

// progress waits until the records say of 1.1.0 what is wanted.
func (r *rolled) progress(t *testing.T, want record.Progress) {
	t.Helper()
	var got record.Progress
	defer func() {
		if got != want {
			t.Logf("the records say %+v", got)
		}
	}()
	seen(t, fmt.Sprintf("%+v", want), func() bool {
		got = apitest.Must[record.Progress](t)(r.Records.Progress(t.Context(), r.channel, "1.1.0", time.Time{}, time.Time{}))
		return got == want
	})
}

func testAdoption(t *testing.T, w *apitest.World) {
	r := rollOut(t, w)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		if version := r.check(id, "1.0.0").Version(t); version != "1.1.0" {
			t.Fatalf("%s is told %s", id, version)
		}
	}
	r.progress(t, record.Progress{Offered: 7})
	for _, id := range []string{"a", "b", "c", "d", "f"} {
		if got := r.download(id, "1.1.0"); got.Status != 200 {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	for event, id := range map[string]string{"installed": "d", "failed": "e", "crashed": "f"} {
		if got := r.tell(id, "1.1.0", event); got.Status != 204 {
			t.Fatalf("%s: %d %s", event, got.Status, got.Body)
		}
	}
	r.progress(t, record.Progress{Waiting: 4, Failed: 1, Crashed: 1, Offered: 1})
	r.check("a", "1.1.0") // it has it
	r.check("b", "1.0.0") // it has not
	r.check("d", "1.0.0") // it said that it waits for its next start
	r.progress(t, record.Progress{Running: 1, Kept: 1, Waiting: 2, Failed: 1, Crashed: 1, Offered: 1})
	r.tell("e", "1.1.0", "started")
	for range 20 { // a client counts once
		r.tell("f", "1.1.0", "crashed")
		r.tell("b", "1.1.0", "failed")
		r.tell("nobody", "1.1.0", "crashed") // was never offered anything
	}
	r.progress(t, record.Progress{Running: 2, Failed: 1, Waiting: 2, Crashed: 1, Offered: 1})

	clients := apitest.Must[[]record.ClientCount](t)(w.Records.Clients(t.Context(), r.channel, time.Time{}))
	want := []record.ClientCount{{Version: "1.0.0", Target: "linux-x86_64", Cohort: "internal", Clients: 5}, {Version: "1.1.0", Target: "linux-x86_64", Cohort: "internal", Clients: 2}}
	if !slices.Equal(clients, want) {
		t.Errorf("%+v", clients)
	}
	counted := func(event, version string) string {
		return r.Metric(fmt.Sprintf(`tsmon_updates_events_total{channel="%s",cohort="internal",event="%s",target="linux-x86_64",version="%s"}`, r.channel, event, version))
	}
	for key, want := range map[[2]string]string{
		{"checks", "1.0.0"}: "9", {"checks", "1.1.0"}: "1", {"offers", "1.1.0"}: "9", {"downloads", "1.1.0"}: "5",
		{"crashed", "1.1.0"}: "2", {"failed", "1.1.0"}: "2", {"started", "1.1.0"}: "1", {"installed", "1.1.0"}: "1", {"held", "1.0.0"}: "",
	} {
		if got := counted(key[0], key[1]); got != want {
			t.Errorf("%s of %s: %q, want %q", key[0], key[1], got, want)
		}
	}
	r.handler.installs.countClients(t.Context())
	if got := r.Metric(fmt.Sprintf(`tsmon_updates_clients{channel="%s",cohort="internal",target="linux-x86_64",version="1.0.0"}`, r.channel)); got != "5" {
		t.Errorf("5 clients have 1.0.0, the metrics say %q", got)
	}
	if got := r.Metric(fmt.Sprintf(`tsmon_updates_newest_clients{channel="%s",outcome="crashed",version="1.1.0"}`, r.channel)); got != "1" {
		t.Errorf("1 client crashed, the metrics say %q", got)
	}
	r.handler.Close() // what was counted is in the time series then
	w.Settle(UpdatesDatabase)
	values := apitest.Must[[]series.Value](t)(w.Series.Current(t.Context(), UpdatesDatabase, []series.Want{
		{Key: series.Key{Measurement: r.channel, Field: "checks"}, Aggregate: series.Sum}, {Key: series.Key{Measurement: r.channel, Field: "downloads"}, Aggregate: series.Sum},
		{Key: series.Key{Measurement: ClientsMeasurement(r.channel), Field: "1.1.0"}},
	}))
	for i, want := range []float64{10, 5, 2} {
		if values[i].Number != want {
			t.Errorf("the time series say %v of the %d., want %v", values[i], i, want)
		}
	}
}

// TestAnonymous: clients without an id are counted apart and not recorded; nor is
// what they and others make up.
func TestAnonymous(t *testing.T) {
	r := rollOut(t, apitest.Embedded(t))
	for _, id := range []string{"", strings.Repeat("x", 129)} {
		if got := r.Send("GET", "/updates/"+r.channel+"/linux/x86_64/9.9.9", nil, http.Header{clientHeader: {id}, cohortHeader: {"vip"}}); got.Version(t) != "none" {
			t.Errorf("%s", got.Body)
		}
	}
	for range 3 {
		r.Get("/updates/" + r.channel + "/latest.json")
	}
	r.Send("GET", "/updates/"+r.channel+"/latest.json", nil, http.Header{"Range": {"bytes=0-3"}})
	r.check("a", "9.9.8")
	r.check("b", "9.9.9")
	seen(t, "the checks", func() bool {
		return r.Metric(fmt.Sprintf(`tsmon_updates_events_total{channel="%s",cohort="(other)",event="anonymous",target="linux-x86_64",version="(other)"}`, r.channel)) == "2" &&
			r.Metric(fmt.Sprintf(`tsmon_updates_events_total{channel="%s",cohort="",event="anonymous",target="(other)",version="(other)"}`, r.channel)) == "4" &&
			r.Metric(fmt.Sprintf(`tsmon_updates_events_total{channel="%s",cohort="internal",event="checks",target="linux-x86_64",version="(other)"}`, r.channel)) == "2"
	})
	var clients []record.ClientCount
	seen(t, "the clients", func() bool {
		clients = apitest.Must[[]record.ClientCount](t)(r.Records.Clients(t.Context(), r.channel, time.Time{}))
		return len(clients) > 0
	})
	if len(clients) != 1 || clients[0] != (record.ClientCount{Version: channels.Other, Target: "linux-x86_64", Cohort: "internal", Clients: 2}) {
		t.Errorf("%+v", clients)
	}
}

// TestVersionsBefore: what clients have from before the log has a name, as far as
// nobody makes up too many.
func TestVersionsBefore(t *testing.T) {
	r := rollOut(t, apitest.Embedded(t))
	r.check("first", "v0.0.1")
	for i := range maxBefore + 10 {
		r.check("other", fmt.Sprintf("0.1.%d", i))
	}
	r.check("second", "0.0.1")
	r.check("third", "0.2.0")
	var clients []record.ClientCount
	seen(t, "the clients", func() bool {
		clients = apitest.Must[[]record.ClientCount](t)(r.Records.Clients(t.Context(), r.channel, time.Time{}))
		return len(clients) == 2
	})
	for i, want := range []record.ClientCount{{Version: channels.Other, Clients: 2}, {Version: "0.0.1", Clients: 2}} {
		if clients[i].Version != want.Version || clients[i].Clients != want.Clients {
			t.Errorf("%+v, want %+v", clients[i], want)
		}
	}
}

// TestDownloads: only who got the last bytes has downloaded.
func TestDownloads(t *testing.T) {
	r := rollOut(t, apitest.Embedded(t))
	bundle := "/updates/releases/1.1.0/App_1.1.0_amd64.AppImage.tar.gz"
	for i, c := range []struct {
		method, path, span string
		counts             bool
	}{
		{"GET", bundle, "", true}, {"GET", bundle, "bytes=0-3", false}, {"GET", bundle, "bytes=4-", true}, {"GET", bundle, "bytes=-1", true},
		{"HEAD", bundle, "", false}, {"GET", bundle + ".sig", "", false}, {"GET", "/updates/releases/1.1.0/release.json", "", false},
		{"GET", bundle + "x", "", false}, {"GET", bundle, "bytes=100000-", false},
	} {
		id := fmt.Sprint("client ", i)
		r.check(id, "1.0.0")
		h := header(id)
		if c.span != "" {
			h.Set("Range", c.span)
		}
		r.Send(c.method, c.path, nil, h)
	}
	r.progress(t, record.Progress{Waiting: 3, Offered: 6})
}

// TestSentElsewhere: a client that was sent elsewhere for a bundle is given the
// time to fetch it.
func TestSentElsewhere(t *testing.T) {
	w := apitest.Embedded(t)
	w.Elsewhere = apitest.Must[*url.URL](t)(url.Parse("https://cdn.example.com/app"))
	r := rollOut(t, w)
	r.check("a", "1.0.0")
	if got := r.download("a", "1.1.0"); got.Status != 302 {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	r.check("a", "1.0.0")
	r.progress(t, record.Progress{Waiting: 1})
	w.Clock.Move(elsewhereTime)
	r.check("a", "1.0.0")
	r.progress(t, record.Progress{Kept: 1})
}

func TestHostileReports(t *testing.T) {
	w := apitest.Embedded(t)
	r := rollOut(t, w)
	r.check("a", "1.0.0")
	good := report{r.channel, "1.1.0", "linux-x86_64", "crashed"}
	for name, c := range map[string]struct {
		body   any
		id     string
		status int
	}{
		"no client":        {good, "", 500},
		"a long client":    {good, strings.Repeat("x", 129), 500},
		"no channel":       {report{"none", "1.1.0", "linux-x86_64", "crashed"}, "a", 404},
		"a path":           {report{"../stable", "1.1.0", "linux-x86_64", "crashed"}, "a", 404},
		"no such version":  {report{r.channel, "6.6.6", "linux-x86_64", "crashed"}, "a", 404},
		"the name other":   {report{r.channel, channels.Other, "linux-x86_64", "crashed"}, "a", 404},
		"no such event":    {report{r.channel, "1.1.0", "linux-x86_64", "exploded"}, "a", 500},
		"an array":         {[]report{good}, "a", 500},
		"null":             {strings.NewReader("null"), "a", 500},
		"numbers":          {strings.NewReader(`{"channel":1,"version":2,"target":3,"event":4}`), "a", 500},
		"no JSON":          {strings.NewReader(`{"channel":`), "a", 500},
		"deep":             {strings.NewReader(strings.Repeat("[", 5000)), "a", 500},
		"much":             {strings.NewReader(`{"channel":"` + strings.Repeat("x", 2<<20) + `"}`), "a", 413},
		"nothing":          {strings.NewReader(""), "a", 500},
		"bytes, no text":   {strings.NewReader("{\"channel\":\"\xff\"}"), "a", 500},
		"a NUL in version": {report{r.channel, "1.1.0\x00", "linux-x86_64", "crashed"}, "a", 404},
	} {
		h := http.Header{clientHeader: {c.id}}
		if c.id == "" {
			h = nil
		}
		got := r.WithTB(t).Send("POST", "/updates/report", c.body, h)
		if got.Status != c.status {
			t.Errorf("%s: %d %.200s", name, got.Status, got.Body)
		}
	}
	r.progress(t, record.Progress{Offered: 1})
	w.UpdatesToken = "secret"
	private := apitest.Client{TB: t, Base: w.Serve(t).URL}
	if got := private.Send("POST", "/updates/report", good, header("a")); got.Status != 401 {
		t.Errorf("without the token: %d", got.Status)
	}
	private.Token = "secret"
	if got := private.Send("POST", "/updates/report", good, header("a")); got.Status != 204 {
		t.Errorf("with the token: %d %s", got.Status, got.Body)
	}
}

// TestReportsCountDaily: a client that repeats itself is counted once a day.
func TestReportsCountDaily(t *testing.T) {
	w := apitest.Embedded(t)
	r := rollOut(t, w)
	for range 2 {
		for range 3 {
			r.tell("a", "1.1.0", "crashed")
			r.tell("b", "1.1.0", "crashed")
		}
		w.Clock.Move(24 * time.Hour)
	}
	r.tell("c", "1.1.0", "failed") // once this is counted, so is what came before
	name := `tsmon_updates_events_total{channel="%s",cohort="internal",event="%s",target="linux-x86_64",version="1.1.0"}`
	seen(t, "the last report", func() bool { return r.Metric(fmt.Sprintf(name, r.channel, "failed")) == "1" })
	seen(t, "two clients on two days", func() bool { return r.Metric(fmt.Sprintf(name, r.channel, "crashed")) == "4" })
}

// TestAdmit: nobody fills the records with clients that do not exist.
func TestAdmit(t *testing.T) {
	now := time.Date(2026, 3, 5, 15, 0, 0, 0, time.UTC)
	var a admitted
	id := func(i int) (c record.ClientID) {
		copy(c[:], fmt.Sprintf("%016d", i))
		return c
	}
	in := 0
	for i := range maxOfNetwork + 100 {
		if a.admit(id(i), fmt.Sprintf("2001:db8::%x", i), now) { // one network
			in++
		}
	}
	if in != maxOfNetwork {
		t.Errorf("%d clients of one network", in)
	}
	if !a.admit(id(0), "192.0.2.1", now) || a.admit(id(maxOfNetwork), "2001:db8::1", now) || !a.admit(id(maxOfNetwork), "192.0.2.1", now) {
		t.Error("a client is known by its id, others by their network")
	}
	for i := range maxAdmitted {
		a.admit(id(1_000_000+i), fmt.Sprintf("198.51.%d.%d", i/5000, i%250), now)
	}
	if len(a.clients) != maxAdmitted || a.admit(id(9_999_999), "203.0.113.1", now) {
		t.Errorf("%d clients", len(a.clients))
	}
	if !a.admit(id(9_999_999), "203.0.113.1", now.Add(admitTime)) || len(a.clients) != 1 {
		t.Error("the next day is like the one before")
	}
}

// deafRecords take no sightings while they are told so.
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

// TestSightingsKept: what the records don't take is written when they do again.
func TestSightingsKept(t *testing.T) {
	w := apitest.Embedded(t)
	records := deafRecords{w.Records, make(chan bool, 1)}
	records.deaf <- true
	w.Records = records
	r := rollOut(t, w)
	r.check("a", "1.0.0")
	r.download("a", "1.1.0")
	seen(t, "the complaint", func() bool { return strings.Contains(w.Logged.String(), "what clients have can't be recorded") })
	r.check("b", "1.0.0")
	r.check("a", "1.0.0")
	<-records.deaf
	r.progress(t, record.Progress{Kept: 1, Offered: 1})
	if !strings.Contains(w.Logged.String(), "what clients have is recorded again") {
		t.Error("the log does not say that it is over")
	}
}

// TestTripped: the guard judges by the clients that tried, within its time, since
// the channel was last moved.
func TestTripped(t *testing.T) {
	w := apitest.Embedded(t)
	w.Guards = map[string]channels.Guard{}
	r := rollOut(t, w)
	w.Guards[r.channel] = channels.Guard{Failures: 20, Clients: 10, Within: time.Hour}
	tripped := func() string {
		t.Helper()
		var reasons []string
		for _, trip := range apitest.Must[[]Trip](t)(r.handler.Tripped(t.Context())) {
			reasons = append(reasons, trip.Reason())
		}
		return strings.Join(reasons, "; ")
	}
	w.Clock.Move(time.Second) // or all would be in the second of the log's entry
	for i := range 12 {
		r.check(fmt.Sprint(i), "1.0.0")
	}
	for i := range 8 {
		r.tell(fmt.Sprint(i), "1.1.0", "started")
	}
	r.tell("8", "1.1.0", "failed")
	r.progress(t, record.Progress{Running: 8, Failed: 1, Offered: 3})
	if got := tripped(); got != "" {
		t.Errorf("with 9 clients: %s", got)
	}
	r.tell("9", "1.1.0", "crashed")
	r.progress(t, record.Progress{Running: 8, Failed: 1, Crashed: 1, Offered: 2})
	if got := tripped(); got != "" {
		t.Errorf("with 20 %%: %s", got)
	}
	r.download("10", "1.1.0")
	r.check("10", "1.0.0")
	r.progress(t, record.Progress{Running: 8, Failed: 1, Crashed: 1, Kept: 1, Offered: 1})
	if got := tripped(); got != "1.1.0 failed for 3 of 11 clients within 1h0m0s, more than 20 %" {
		t.Errorf("with 3 of 11: %s", got)
	}
	if _, err := r.Pause(t.Context(), release.Options{Channel: r.channel, Why: "crashes"}); err != nil {
		t.Fatal(err)
	}
	seen(t, "the pause", func() bool { return tripped() == "" })
	w.Clock.Move(time.Second)
	if _, err := r.Resume(t.Context(), release.Options{Channel: r.channel}); err != nil {
		t.Fatal(err)
	}
	seen(t, "the resumption", func() bool { return r.check("11", "1.0.0").Version(t) == "1.1.0" })
	r.check("10", "1.0.0")
	for i := range 8 {
		r.check(fmt.Sprint(i), "1.1.0")
	}
	r.progress(t, record.Progress{Running: 8, Failed: 1, Crashed: 1, Kept: 1, Offered: 1})
	if got := tripped(); got != "" {
		t.Errorf("what a person has seen is held against the release again: %s", got)
	}
	for i := range 4 { // they try once more, and fail again
		r.tell(fmt.Sprint(i), "1.1.0", "failed")
	}
	r.download("10", "1.1.0")
	r.download("11", "1.1.0")
	r.progress(t, record.Progress{Running: 4, Failed: 5, Crashed: 1, Kept: 1, Waiting: 1})
	for _, id := range []string{"10", "11"} {
		r.check(id, "1.0.0")
	}
	r.progress(t, record.Progress{Running: 4, Failed: 5, Crashed: 1, Kept: 2})
	if got := tripped(); got != "1.1.0 failed for 6 of 10 clients within 1h0m0s, more than 20 %" {
		t.Errorf("after they failed again: %q", got)
	}
}

// TestTrippedByFew: clients that fail again and again weigh no more than those
// that run the release and ask as often.
func TestTrippedByFew(t *testing.T) {
	w := apitest.Embedded(t)
	w.Guards = map[string]channels.Guard{}
	r := rollOut(t, w)
	w.Guards[r.channel] = channels.Guard{Failures: 20, Clients: 10, Within: time.Hour}
	w.Clock.Move(time.Second)
	const few, many = 3, 20
	for i := range few + many {
		r.check(fmt.Sprint(i), "1.0.0")
		r.download(fmt.Sprint(i), "1.1.0")
	}
	r.progress(t, record.Progress{Waiting: few + many})
	for hour := range 3 {
		for i := range few {
			r.check(fmt.Sprint(i), "1.0.0")
		}
		for i := range many {
			r.check(fmt.Sprint(few+i), "1.1.0")
		}
		r.progress(t, record.Progress{Running: many, Kept: few})
		if trips := apitest.Must[[]Trip](t)(r.handler.Tripped(t.Context())); len(trips) != 0 {
			t.Errorf("hour %d: %s", hour, trips[0].Reason())
		}
		w.Clock.Move(time.Hour)
	}
}
