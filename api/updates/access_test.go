package updates_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/api"
	"tsmon/api/apitest"
	"tsmon/store/object"
	"tsmon/store/servertest"
)

// updatePaths are files of each kind of the update tree of testUpdates.
var updatePaths = []string{
	"/updates/stable/latest.json", "/api/updates/stable/latest.json", "/updates/releases/1.0.0/release.json",
	"/updates/releases/1.0.0/App_universal.app.tar.gz", "/updates/releases/1.0.0/App_universal.app.tar.gz.sig",
}

// TestUpdatesToken: with a token nobody without it learns anything, and no shared
// cache keeps what those with it get.
func TestUpdatesToken(t *testing.T) {
	const token = "token-of-the-updates"
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	w.UpdatesToken = token
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	apitest.Eventually(t, "the manifest in memory", func() bool {
		return nobody.Send("GET", updatePaths[0], nil, http.Header{"Authorization": {"Bearer " + token}}).Status == 200
	})
	all := append(slices.Clone(updatePaths), "/updates/beta/latest.json", "/updates/releases/1.0.0/nothing", "/updates/log/stable/0000000001.json",
		"/updates/", "/updates/stable/linux/x86_64/0.9.0", "/updates/stable/nowhere/x86_64/0.9.0", "/updates/beta/linux/x86_64/0.9.0")
	for _, path := range all {
		for _, sent := range [][]string{
			nil, {""}, {"Bearer"}, {"Bearer "}, {"Bearer " + token[1:]}, {"Bearer " + token + "x"}, {"Bearer " + strings.ToUpper(token)}, {token}, {"Basic " + token}, {"Token " + token},
			{"Bearer " + token, "Bearer " + token}, {"Bearer x", "Bearer " + token}, {"Bearer x, Bearer " + token},
		} {
			for _, header := range []http.Header{{"Authorization": sent}, {"Authorization": sent, "If-None-Match": {"*"}}, {"Authorization": sent, "Origin": {"tauri://localhost"}}} {
				nobody.Attempt(apitest.NewRoute("GET", path+"?token="+token, ""), header).WantFailure(t, 401)
				if got := nobody.Attempt(apitest.NewRoute("HEAD", path, ""), header); got.Status != 401 && got.Status != 405 {
					t.Errorf("HEAD %s with %q: %d", path, sent, got.Status)
				}
			}
		}
	}
	for _, path := range updatePaths {
		for _, sent := range []string{"Bearer " + token, "bearer " + token, "BEARER  " + token} {
			got := nobody.Send("GET", path, nil, http.Header{"Authorization": {sent}})
			if cache := got.Header.Get("Cache-Control"); got.Status != 200 || !strings.HasPrefix(cache, "private, max-age=") {
				t.Errorf("%s with %q: %d %s", path, sent, got.Status, cache)
			}
		}
	}
	if text := w.Logged.String(); strings.Contains(text, token) || !strings.Contains(text, `"status":401`) {
		t.Error("the token is in the log, or nothing is")
	}
	if got := nobody.Get("/healthz"); got.Status != 200 {
		t.Errorf("the token is wanted elsewhere: %d", got.Status)
	}
}

// TestUpdatesElsewhere: bundles, and nothing else, are sent to where they are,
// without anything that came with the request.
func TestUpdatesElsewhere(t *testing.T) {
	const token = "token-of-the-updates"
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	odd := "Agua, Pro+ñ;%.zip"
	apitest.Must[object.Info](t)(w.Objects.Create(t.Context(), "releases/1.0.0/"+odd, strings.NewReader("odd"), 3, object.Attributes{}))
	store := w.WatchObjects()
	w.UpdatesToken = token
	w.Elsewhere = apitest.Must[*url.URL](t)(url.Parse("https://cdn.example.com/desktop"))
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	header := http.Header{"Authorization": {"Bearer " + token}, "Range": {"bytes=0-1"}, "If-None-Match": {"*"}}
	for path, want := range map[string]string{
		"/updates/releases/1.0.0/App_universal.app.tar.gz":       "https://cdn.example.com/desktop/releases/1.0.0/App_universal.app.tar.gz",
		"/api/updates/releases/1.0.0/App_universal.app.tar.gz":   "https://cdn.example.com/desktop/releases/1.0.0/App_universal.app.tar.gz",
		"/updates/releases/1.0.0/" + url.PathEscape(odd):         "https://cdn.example.com/desktop/releases/1.0.0/" + url.PathEscape(odd),
		"/updates/releases/1.0.0/a%3Fb=c&token=x":                "https://cdn.example.com/desktop/releases/1.0.0/a%3Fb=c&token=x",
		"/updates/releases/1.0.0/a.zip?token=" + token:           "https://cdn.example.com/desktop/releases/1.0.0/a.zip",
		"/updates/releases/%2F%2Fevil.example/x":                 "",
		"/updates/releases/1.0.0/..%2F..%2Fuploads":              "",
		"/updates/releases/1.0.0/App_universal.app.tar.gz%0d%0a": "",
		"/updates/releases/1.0.0/staged/linux-x86_64.json":       "",
	} {
		for _, method := range []string{"GET", "HEAD"} {
			got := nobody.Send(method, path, nil, header)
			wanted := map[bool]int{true: 302, false: 404}[want != ""]
			if got.Status != wanted || got.Header.Get("Location") != want || got.Status == 302 && (len(got.Body) > 0 || got.Header.Get("Cache-Control") != "no-store") {
				t.Errorf("%s %s: %d %q", method, path, got.Status, got.Header.Get("Location"))
			}
			for name, values := range got.Header {
				if strings.Contains(strings.Join(values, " "), token) {
					t.Errorf("%s %s: %s shows the token", method, path, name)
				}
			}
		}
	}
	for _, path := range []string{"/updates/stable/latest.json", "/updates/releases/1.0.0/release.json", "/updates/releases/1.0.0/App_universal.app.tar.gz.sig"} {
		if got := nobody.Send("GET", path, nil, http.Header{"Authorization": {"Bearer " + token}}); got.Status != 200 {
			t.Errorf("%s: %d", path, got.Status)
		}
	}
	nobody.Get("/updates/releases/1.0.0/App_universal.app.tar.gz").WantFailure(t, 401)
	if n := store.Count("Stat releases/1.0.0/App_universal.app.tar.gz") + store.Count("Get releases/1.0.0/App_universal.app.tar.gz"); n > 0 {
		t.Errorf("the store was asked %d times for what is elsewhere", n)
	}
}

// TestUpdatesInACircle: an address that leads back here is not sent elsewhere.
func TestUpdatesInACircle(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	w.Elsewhere = apitest.Must[*url.URL](t)(url.Parse("https://updates.example.com/updates"))
	const path = "/updates/releases/1.0.0/App_universal.app.tar.gz"
	for _, c := range []struct {
		host, forwarded string
		proxy           bool
		want            int
	}{
		{"updates.example.com", "", false, 200},
		{"Updates.Example.com:443", "", false, 200},
		{"internal:8080", "", false, 302},
		{"internal:8080", "updates.example.com", false, 302}, // who says so is nobody
		{"internal:8080", "updates.example.com", true, 200},
		{"updates.example.com", "cdn.example.com", true, 302},
	} {
		w.BehindProxy = c.proxy
		server := w.Serve(t)
		r := apitest.Must[*http.Request](t)(http.NewRequestWithContext(t.Context(), "GET", server.URL+path, nil))
		r.Host = c.host
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-Host", c.forwarded)
		}
		got := apitest.Must[*http.Response](t)(apitest.NoRedirects.Do(r))
		got.Body.Close()
		if got.StatusCode != c.want {
			t.Errorf("%+v: %d", c, got.StatusCode)
		}
	}
}

// TestShortWay: a manifest that is in memory is answered, counted and logged as
// it is by the routes, which web pages are answered by.
func TestShortWay(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	apitest.Eventually(t, "the manifest", func() bool { return nobody.Get("/updates/stable/latest.json").Status == 200 })
	etag := nobody.Send("HEAD", "/updates/stable/latest.json", nil, nil).Header.Get("ETag")
	for _, method := range []string{"GET", "HEAD"} {
		for _, path := range []string{"/updates/stable/latest.json", "/api/updates/stable/latest.json"} {
			for _, conditions := range []http.Header{{}, {"If-None-Match": {etag}}, {"Accept-Encoding": {"gzip"}}, {"Accept-Encoding": {"identity"}}} {
				short := nobody.Send(method, path, nil, conditions)
				page := conditions.Clone()
				page.Set("Origin", "https://scada.example.com")
				long := nobody.Send(method, path, nil, page)
				if long.Header.Get("Access-Control-Allow-Origin") == "" || short.Header.Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s %s: %v and %v", method, path, short.Header, long.Header)
				}
				for _, name := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Expose-Headers", "X-Request-Id", "Date"} {
					short.Header.Del(name)
					long.Header.Del(name)
				}
				if short.Status != long.Status || string(short.Body) != string(long.Body) || !sameHeaders(short.Header, long.Header) {
					t.Errorf("%s %s %v: %d %v\nand for a page %d %v", method, path, conditions, short.Status, short.Header, long.Status, long.Header)
				}
			}
		}
	}
	// 2 paths × 3 of 4 conditions are 200, for both ways; and one was asked before.
	if n := nobody.Metric(`tsmon_http_request_duration_seconds_count{method="HEAD",route="/updates/{channel}/latest.json",status="200"}`); n != "13" {
		t.Errorf("%s requests were counted, want 13", n)
	}
	if n := nobody.Metric(`tsmon_http_request_duration_seconds_count{method="HEAD",route="/updates/{channel}/latest.json",status="304"}`); n != "4" {
		t.Errorf("%s requests were counted, want 4", n)
	}
	apitest.Eventually(t, "17 requests in the log", func() bool {
		lines := map[string]int{}
		for text := range strings.Lines(w.Logged.String()) {
			var l struct {
				Msg, Request, Method, Route, Address string
				Status                               int
				Bytes                                *int64
				TookMs                               *float64 `json:"took_ms"` // 0 below a microsecond
			}
			apitest.ReadJSON(t, []byte(text), &l)
			if l.Msg == "request" && l.Method == "HEAD" && l.Route == "/updates/{channel}/latest.json" && len(l.Request) == 16 && l.Address == "127.0.0.1" && l.Bytes != nil && *l.Bytes == 0 && l.TookMs != nil {
				lines[l.Request]++
			}
		}
		return len(lines) == 17
	})
}

// deadlined is a recorder that takes deadlines.
type deadlined struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *deadlined) SetWriteDeadline(until time.Time) error {
	d.until = until
	return nil
}

// TestEveryAnswerHasTime: a connection that is kept alive has the deadline of the
// answer before, which must not cut the next one off.
func TestEveryAnswerHasTime(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	w.Elsewhere = apitest.Must[*url.URL](t)(url.Parse("https://cdn.example.com"))
	s := api.New(w.Options)
	t.Cleanup(s.Close)
	routes := s.Handler()
	for path, want := range map[string]int{
		"/updates/stable/latest.json": 304, "/updates/releases/1.0.0/App_universal.app.tar.gz": 302, "/updates/releases/1.0.0/App_universal.app.tar.gz.sig": 304,
		"/updates/stable/linux/x86_64/1.0.0": 204, "/metrics": 403, "/healthz": 200, "/nothing": 404,
	} {
		for range 2 { // the second time from memory
			r := httptest.NewRequest("GET", path, nil)
			r.RemoteAddr = "127.0.0.1:1"
			r.Header.Set("If-None-Match", "*")
			got := &deadlined{ResponseRecorder: httptest.NewRecorder()}
			routes.ServeHTTP(got, r)
			if got.Code != want || time.Until(got.until) < writeTime/2 {
				t.Errorf("%s: %d, may be written until %s", path, got.Code, got.until)
			}
		}
	}
}

func sameHeaders(a, b http.Header) bool {
	for name := range b {
		if !slices.Equal(a[name], b[name]) {
			return false
		}
	}
	return len(a) == len(b)
}

// TestShortWayIsNarrow: what only looks like a manifest's path is the routes'.
func TestShortWayIsNarrow(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	server := w.Serve(t)
	apitest.Eventually(t, "the manifest", func() bool {
		got, _ := servertest.Fetch(t, "GET", server.URL+"/updates/stable/latest.json", nil)
		return got.StatusCode == 200
	})
	for _, path := range []string{
		"/updates%2Fstable/latest.json", "//updates/stable/latest.json", "/api/api/updates/stable/latest.json", "/apiupdates/stable/latest.json", "/updates/stable/latest.json/",
		"/updates//stable/latest.json", "/updates/stable//latest.json", "/updates/./stable/latest.json", "/updates/Stable/latest.json", "/updates/stable/LATEST.json", "/updates/latest.json", "/stable/latest.json",
		"/updates/stable/../stable/latest.json", "/x/updates/stable/latest.json", "/updates/stable/latest.json%00", "/updates/stable%00/latest.json",
	} {
		if got := apitest.SendText(t, server, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); got.Status != 404 {
			t.Errorf("%s: %d %.100s", path, got.Status, got.Body)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "BREW"} {
		if got := apitest.SendText(t, server, method+" /updates/stable/latest.json HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); got.Status != 405 {
			t.Errorf("%s: %d", method, got.Status)
		}
	}
	if got := apitest.SendText(t, server, "GET /updates/stable/latest.json?x=%zz;y HTTP/1.0\r\n\r\n"); got.Status != 200 {
		t.Errorf("with a query: %d", got.Status)
	}
}
