package updates_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/release"
)

// TestPausedBundle: the bundle of a paused release is for clients that the rollout
// included, unless another channel shows it.
func TestPausedBundle(t *testing.T) { testPausedBundle(t, apitest.Embedded(t), http.StatusOK) }

// TestPausedBundlePresigned: no address in the bucket is given to others either.
func TestPausedBundlePresigned(t *testing.T) {
	w, _ := bucketed(t)
	testPausedBundle(t, w, http.StatusFound)
}

func testPausedBundle(t *testing.T, w *apitest.World, given int) {
	desk := w.Desk(t)
	w.Refresh = 50 * time.Millisecond
	publish := func(channel, version string, rollout *channels.Rollout) {
		desk.Policies[channel] = release.Policy{}
		desk.PublishWith(t, version, func(o *release.PublishOptions) { o.Channel, o.Rollout = channel, rollout })
	}
	publish("paused", "2.0.0", nil)
	publish("paused", "2.1.0", &channels.Rollout{Steps: []int{50}, Cohorts: []string{"internal"}})
	u := w.ServeUpdates(t)
	noFollow := func(method, path, id, cohort string) int {
		r := apitest.Must[*http.Request](t)(http.NewRequestWithContext(t.Context(), method, u.Base+path, nil))
		r.Header.Set(apitest.ClientHeader, id)
		r.Header.Set(apitest.CohortHeader, cohort)
		client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		got := apitest.Must[*http.Response](t)(client.Do(r))
		got.Body.Close()
		return got.StatusCode
	}
	offered := func(id string) bool {
		return noFollow("GET", "/updates/paused/linux/x86_64/2.0.0", id, "") == http.StatusOK
	}
	in, out := "", ""
	for i := 0; in == "" || out == ""; i++ {
		if id := fmt.Sprint("client ", i); offered(id) {
			in = id
		} else {
			out = id
		}
	}
	const bundle = "/updates/releases/2.1.0/App_2.1.0_amd64.AppImage.tar.gz"
	if got := noFollow("GET", bundle, out, ""); got != given {
		t.Errorf("before the pause: %d", got)
	}
	apitest.Must[*release.Plan](t)(desk.Pause(t.Context(), release.Options{Channel: "paused", Why: "crashes"}))
	apitest.Eventually(t, "the pause", func() bool { return !offered(in) })
	for _, c := range []struct {
		what, method, path, id, cohort string
		want                           int
	}{
		{"a client that was offered it", "GET", bundle, in, "", given},
		{"the same, behind the prefix", "GET", "/api" + bundle, in, "", http.StatusNotFound}, // this server has none
		{"one of the cohort", "GET", bundle, out, "internal", given},
		{"one that was not", "GET", bundle, out, "", http.StatusForbidden},
		{"one that only asks", "HEAD", bundle, out, "", http.StatusForbidden},
		{"one of another cohort", "GET", bundle, out, "Not A Cohort", http.StatusForbidden},
		{"nobody", "GET", bundle, "", "", http.StatusForbidden},
		{"another bundle", "GET", "/updates/releases/2.1.0/none.tar.gz", out, "", http.StatusForbidden},
		{"a part of the path that is escaped", "GET", "/updates/releases/2%2E1.0/App_2.1.0_amd64.AppImage.tar.gz", out, "", http.StatusForbidden},
		{"the signature", "GET", bundle + ".sig", out, "", http.StatusOK},
		{"the record", "GET", "/updates/releases/2.1.0/release.json", out, "", http.StatusOK},
		{"what everybody gets", "GET", "/updates/releases/2.0.0/App_2.0.0_amd64.AppImage.tar.gz", "", "", given},
	} {
		if got := noFollow(c.method, c.path, c.id, c.cohort); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
	publish("other", "2.1.0", nil)
	apitest.Eventually(t, "another channel", func() bool { return noFollow("GET", "/updates/other/latest.json", "", "") == http.StatusOK })
	if got := noFollow("GET", bundle, "", ""); got != given {
		t.Errorf("a release that another channel shows: %d", got)
	}
}

// TestResumedBundle: a client that another server has offered a resumed release gets
// its bundle from a server that has not seen yet that it goes on.
func TestResumedBundle(t *testing.T) {
	w := apitest.Embedded(t)
	desk := w.Desk(t)
	desk.PublishWith(t, "1.0.0", func(*release.PublishOptions) {})
	desk.PublishWith(t, "1.1.0", func(o *release.PublishOptions) { o.Rollout = &channels.Rollout{Steps: []int{1}} })
	to := release.Options{Channel: "stable", Why: "crashes"}
	apitest.Must[*release.Plan](t)(desk.Pause(t.Context(), to))
	u := still(t, w)
	u.Heads.Round(t.Context())
	answer := make(chan int, 1)
	go func() { answer <- u.Get("/updates/releases/1.1.0/App_1.1.0_amd64.AppImage.tar.gz").Status }()
	apitest.Eventually(t, "the request", u.Heads.Awaited)
	apitest.Must[*release.Plan](t)(desk.Resume(t.Context(), to))
	everybody := to
	everybody.Rollout = &channels.Rollout{Steps: []int{100}}
	apitest.Must[*release.Plan](t)(desk.Rollout(t.Context(), everybody))
	u.Heads.Round(t.Context())
	if got := <-answer; got != http.StatusOK {
		t.Errorf("the bundle of a release that goes on: %d", got)
	}
}
