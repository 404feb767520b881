package updates_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/api/updates"
	"tsmon/store/record"
)

func report(channel, version, target, event string) apitest.Report {
	return apitest.Report{Channel: channel, Version: version, Target: target, Event: event}
}

// TestAnonymous: clients without an id are counted apart and not recorded; nor is
// what they and others make up.
func TestAnonymous(t *testing.T) {
	r := apitest.RollOut(t, apitest.Embedded(t))
	for _, id := range []string{"", strings.Repeat("x", 129)} {
		if got := r.Send("GET", "/updates/"+r.Channel+"/linux/x86_64/9.9.9", nil, http.Header{apitest.ClientHeader: {id}, apitest.CohortHeader: {"vip"}}); got.Version(t) != "none" {
			t.Errorf("%s", got.Body)
		}
	}
	for range 3 {
		r.Get("/updates/" + r.Channel + "/latest.json")
	}
	r.Send("GET", "/updates/"+r.Channel+"/latest.json", nil, http.Header{"Range": {"bytes=0-3"}})
	r.Check("a", "9.9.8")
	r.Check("b", "9.9.9")
	apitest.Eventually(t, "the checks", func() bool {
		return r.Metric(fmt.Sprintf(`tsmon_updates_events_total{channel="%s",cohort="(other)",event="anonymous",target="linux-x86_64",version="(other)"}`, r.Channel)) == "2" &&
			r.Metric(fmt.Sprintf(`tsmon_updates_events_total{channel="%s",cohort="",event="anonymous",target="(other)",version="(other)"}`, r.Channel)) == "4" &&
			r.Metric(fmt.Sprintf(`tsmon_updates_events_total{channel="%s",cohort="internal",event="checks",target="linux-x86_64",version="(other)"}`, r.Channel)) == "2"
	})
	clients := r.WaitClients(t, 1)
	if len(clients) != 1 || clients[0] != (record.ClientCount{Version: fleet.Other, Target: "linux-x86_64", Cohort: "internal", Clients: 2}) {
		t.Errorf("%+v", clients)
	}
}

// TestDownloads: only who got the last bytes has downloaded.
func TestDownloads(t *testing.T) {
	r := apitest.RollOut(t, apitest.Embedded(t))
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
		r.Check(id, "1.0.0")
		h := apitest.Insider(id)
		if c.span != "" {
			h.Set("Range", c.span)
		}
		r.Send(c.method, c.path, nil, h)
	}
	r.WaitProgress(t, record.Progress{Waiting: 3, Offered: 6})
}

// TestSentElsewhere: a client that was sent elsewhere for a bundle is given the
// time to fetch it.
func TestSentElsewhere(t *testing.T) {
	w := apitest.Embedded(t)
	w.Elsewhere = apitest.Must[*url.URL](t)(url.Parse("https://cdn.example.com/app"))
	r := apitest.RollOut(t, w)
	r.Check("a", "1.0.0")
	if got := r.Download("a", "1.1.0"); got.Status != 302 {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	r.Check("a", "1.0.0")
	r.WaitProgress(t, record.Progress{Waiting: 1})
	w.Clock.Move(updates.ElsewhereTime)
	r.Check("a", "1.0.0")
	r.WaitProgress(t, record.Progress{Kept: 1})
}

func TestHostileReports(t *testing.T) {
	w := apitest.Embedded(t)
	r := apitest.RollOut(t, w)
	r.Check("a", "1.0.0")
	good := report(r.Channel, "1.1.0", "linux-x86_64", "crashed")
	for name, c := range map[string]struct {
		body   any
		id     string
		status int
	}{
		"no client":        {good, "", 400},
		"a long client":    {good, strings.Repeat("x", 129), 400},
		"no channel":       {report("none", "1.1.0", "linux-x86_64", "crashed"), "a", 404},
		"a path":           {report("../stable", "1.1.0", "linux-x86_64", "crashed"), "a", 404},
		"no such version":  {report(r.Channel, "6.6.6", "linux-x86_64", "crashed"), "a", 404},
		"the name other":   {report(r.Channel, fleet.Other, "linux-x86_64", "crashed"), "a", 404},
		"no such event":    {report(r.Channel, "1.1.0", "linux-x86_64", "exploded"), "a", 400},
		"an array":         {[]apitest.Report{good}, "a", 400},
		"null":             {strings.NewReader("null"), "a", 400},
		"numbers":          {strings.NewReader(`{"channel":1,"version":2,"target":3,"event":4}`), "a", 400},
		"no JSON":          {strings.NewReader(`{"channel":`), "a", 400},
		"deep":             {strings.NewReader(strings.Repeat("[", 5000)), "a", 400},
		"much":             {strings.NewReader(`{"channel":"` + strings.Repeat("x", 2<<20) + `"}`), "a", 413},
		"nothing":          {strings.NewReader(""), "a", 400},
		"bytes, no text":   {strings.NewReader("{\"channel\":\"\xff\"}"), "a", 400},
		"a NUL in version": {report(r.Channel, "1.1.0\x00", "linux-x86_64", "crashed"), "a", 404},
	} {
		h := http.Header{apitest.ClientHeader: {c.id}}
		if c.id == "" {
			h = nil
		}
		got := r.WithTB(t).Send("POST", "/updates/report", c.body, h)
		if got.Status != c.status {
			t.Errorf("%s: %d %.200s", name, got.Status, got.Body)
		}
	}
	r.WaitProgress(t, record.Progress{Offered: 1})
	w.UpdatesToken = "secret"
	private := apitest.Client{TB: t, Base: w.Serve(t).URL}
	if got := private.Send("POST", "/updates/report", good, apitest.Insider("a")); got.Status != 401 {
		t.Errorf("without the token: %d", got.Status)
	}
	private.Token = "secret"
	if got := private.Send("POST", "/updates/report", good, apitest.Insider("a")); got.Status != 204 {
		t.Errorf("with the token: %d %s", got.Status, got.Body)
	}
}

// TestReportsCountDaily: a client that repeats itself is counted once a day.
func TestReportsCountDaily(t *testing.T) {
	w := apitest.Embedded(t)
	r := apitest.RollOut(t, w)
	for range 2 {
		for range 3 {
			r.Report("a", "1.1.0", "crashed")
			r.Report("b", "1.1.0", "crashed")
		}
		w.Clock.Move(24 * time.Hour)
	}
	r.Report("c", "1.1.0", "failed") // once this is counted, so is what came before
	name := `tsmon_updates_events_total{channel="%s",cohort="internal",event="%s",target="linux-x86_64",version="1.1.0"}`
	apitest.Eventually(t, "the last report", func() bool { return r.Metric(fmt.Sprintf(name, r.Channel, "failed")) == "1" })
	apitest.Eventually(t, "two clients on two days", func() bool { return r.Metric(fmt.Sprintf(name, r.Channel, "crashed")) == "4" })
}
