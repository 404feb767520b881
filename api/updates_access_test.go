package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/store/object"
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
	w := embedded(t)
	w.publisher(t).publish(t, "stable", "1.0.0")
	w.UpdatesToken = token
	nobody := client{tb: t, base: w.serve(t).URL}
	eventually(t, "the manifest in memory", func() bool {
		return nobody.send("GET", updatePaths[0], nil, http.Header{"Authorization": {"Bearer " + token}}).status == 200
	})
	all := append(slices.Clone(updatePaths), "/updates/beta/latest.json", "/updates/releases/1.0.0/nothing", "/updates/log/stable/0000000001.json",
		"/updates/", "/updates/stable/linux/x86_64/0.9.0", "/updates/stable/nowhere/x86_64/0.9.0", "/updates/beta/linux/x86_64/0.9.0")
	for _, path := range all {
		for _, sent := range [][]string{
			nil, {""}, {"Bearer"}, {"Bearer "}, {"Bearer " + token[1:]}, {"Bearer " + token + "x"}, {"Bearer " + strings.ToUpper(token)}, {token}, {"Basic " + token}, {"Token " + token},
			{"Bearer " + token, "Bearer " + token}, {"Bearer x", "Bearer " + token}, {"Bearer x, Bearer " + token},
		} {
			for _, header := range []http.Header{{"Authorization": sent}, {"Authorization": sent, "If-None-Match": {"*"}}, {"Authorization": sent, "Origin": {"tauri://localhost"}}} {
				nobody.attempt(route{"GET", path + "?token=" + token, ""}, header).wantFailure(t, 401)
				if got := nobody.attempt(route{"HEAD", path, ""}, header); got.status != 401 && got.status != 405 {
					t.Errorf("HEAD %s with %q: %d", path, sent, got.status)
				}
			}
		}
	}
	for _, path := range updatePaths {
		for _, sent := range []string{"Bearer " + token, "bearer " + token, "BEARER  " + token} {
			got := nobody.send("GET", path, nil, http.Header{"Authorization": {sent}})
			if cache := got.header.Get("Cache-Control"); got.status != 200 || !strings.HasPrefix(cache, "private, max-age=") {
				t.Errorf("%s with %q: %d %s", path, sent, got.status, cache)
			}
		}
	}
	if text := w.log.String(); strings.Contains(text, token) || !strings.Contains(text, `"status":401`) {
		t.Error("the token is in the log, or nothing is")
	}
	if got := nobody.get("/healthz"); got.status != 200 {
		t.Errorf("the token is wanted elsewhere: %d", got.status)
	}
}

// TestUpdatesElsewhere: bundles, and nothing else, are sent to where they are,
// without anything that came with the request.
func TestUpdatesElsewhere(t *testing.T) {
	const token = "token-of-the-updates"
	w := embedded(t)
	w.publisher(t).publish(t, "stable", "1.0.0")
	odd := "Agua, Pro+ñ;%.zip"
	must[object.Info](t)(w.Objects.Create(t.Context(), "releases/1.0.0/"+odd, strings.NewReader("odd"), 3, object.Attributes{}))
	store := w.watched()
	w.UpdatesToken = token
	w.Elsewhere = must[*url.URL](t)(url.Parse("https://cdn.example.com/desktop"))
	nobody := client{tb: t, base: w.serve(t).URL}
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
			got := nobody.send(method, path, nil, header)
			wanted := map[bool]int{true: 302, false: 404}[want != ""]
			if got.status != wanted || got.header.Get("Location") != want || got.status == 302 && (len(got.body) > 0 || got.header.Get("Cache-Control") != "no-store") {
				t.Errorf("%s %s: %d %q", method, path, got.status, got.header.Get("Location"))
			}
			for name, values := range got.header {
				if strings.Contains(strings.Join(values, " "), token) {
					t.Errorf("%s %s: %s shows the token", method, path, name)
				}
			}
		}
	}
	for _, path := range []string{"/updates/stable/latest.json", "/updates/releases/1.0.0/release.json", "/updates/releases/1.0.0/App_universal.app.tar.gz.sig"} {
		if got := nobody.send("GET", path, nil, http.Header{"Authorization": {"Bearer " + token}}); got.status != 200 {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	nobody.get("/updates/releases/1.0.0/App_universal.app.tar.gz").wantFailure(t, 401)
	if n := store.count("Stat releases/1.0.0/App_universal.app.tar.gz") + store.count("Get releases/1.0.0/App_universal.app.tar.gz"); n > 0 {
		t.Errorf("the store was asked %d times for what is elsewhere", n)
	}
}

// TestUpdatesInACircle: an address that leads back here is not sent elsewhere.
func TestUpdatesInACircle(t *testing.T) {
	w := embedded(t)
	w.publisher(t).publish(t, "stable", "1.0.0")
	w.Elsewhere = must[*url.URL](t)(url.Parse("https://updates.example.com/updates"))
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
		server := w.serve(t)
		r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), "GET", server.URL+path, nil))
		r.Host = c.host
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-Host", c.forwarded)
		}
		got := must[*http.Response](t)(noRedirects.Do(r))
		got.Body.Close()
		if got.StatusCode != c.want {
			t.Errorf("%+v: %d", c, got.StatusCode)
		}
	}
}

// TestShortWay: a manifest that is in memory is answered, counted and logged as
// it is by the routes, which web pages are answered by.
func TestShortWay(t *testing.T) {
	w := embedded(t)
	w.publisher(t).publish(t, "stable", "1.0.0")
	nobody := client{tb: t, base: w.serve(t).URL}
	eventually(t, "the manifest", func() bool { return nobody.get("/updates/stable/latest.json").status == 200 })
	etag := nobody.send("HEAD", "/updates/stable/latest.json", nil, nil).header.Get("ETag")
	for _, method := range []string{"GET", "HEAD"} {
		for _, path := range []string{"/updates/stable/latest.json", "/api/updates/stable/latest.json"} {
			for _, conditions := range []http.Header{{}, {"If-None-Match": {etag}}, {"Accept-Encoding": {"gzip"}}, {"Accept-Encoding": {"identity"}}} {
				short := nobody.send(method, path, nil, conditions)
				page := conditions.Clone()
				page.Set("Origin", "https://scada.example.com")
				long := nobody.send(method, path, nil, page)
				if long.header.Get("Access-Control-Allow-Origin") == "" || short.header.Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s %s: %v and %v", method, path, short.header, long.header)
				}
				for _, name := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Expose-Headers", "X-Request-Id", "Date"} {
					short.header.Del(name)
					long.header.Del(name)
				}
				if short.status != long.status || string(short.body) != string(long.body) || !sameHeaders(short.header, long.header) {
					t.Errorf("%s %s %v: %d %v\nand for a page %d %v", method, path, conditions, short.status, short.header, long.status, long.header)
				}
			}
		}
	}
	// 2 paths × 3 of 4 conditions are 200, for both ways; and one was asked before.
	if n := nobody.metric(`tsmon_http_request_duration_seconds_count{method="HEAD",route="/updates/*",status="200"}`); n != "13" {
		t.Errorf("%s requests were counted, want 13", n)
	}
	if n := nobody.metric(`tsmon_http_request_duration_seconds_count{method="HEAD",route="/updates/*",status="304"}`); n != "4" {
		t.Errorf("%s requests were counted, want 4", n)
	}
	lines := map[string]int{}
	for text := range strings.Lines(w.log.String()) {
		var l struct {
			Msg, Request, Method, Route, Address string
			Status                               int
			Bytes                                *int64
			Took                                 int64
		}
		readJSON(t, []byte(text), &l)
		if l.Msg == "request" && l.Method == "HEAD" && l.Route == "/updates/*" && len(l.Request) == 16 && l.Address == "127.0.0.1" && l.Bytes != nil && *l.Bytes == 0 && l.Took > 0 {
			lines[l.Request]++
		}
	}
	if len(lines) != 17 {
		t.Errorf("%d requests were logged, want 17", len(lines))
	}
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
	w := embedded(t)
	w.publisher(t).publish(t, "stable", "1.0.0")
	w.Elsewhere = must[*url.URL](t)(url.Parse("https://cdn.example.com"))
	s := New(w.Options)
	t.Cleanup(s.Close)
	routes := s.Handler()
	for path, want := range map[string]int{
		"/updates/stable/latest.json": 304, "/updates/releases/1.0.0/App_universal.app.tar.gz": 302, "/updates/releases/1.0.0/App_universal.app.tar.gz.sig": 304,
		"/updates/stable/linux/x86_64/1.0.0": 204, "/metrics": 200, "/healthz": 200, "/nothing": 404,
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
	w := embedded(t)
	w.publisher(t).publish(t, "stable", "1.0.0")
	server := w.serve(t)
	eventually(t, "the manifest", func() bool {
		got, _ := ask(t, "GET", server.URL+"/updates/stable/latest.json", nil)
		return got.StatusCode == 200
	})
	for _, path := range []string{
		"/updates%2Fstable/latest.json", "//updates/stable/latest.json", "/api/api/updates/stable/latest.json", "/apiupdates/stable/latest.json", "/updates/stable/latest.json/",
		"/updates//stable/latest.json", "/updates/stable//latest.json", "/updates/./stable/latest.json", "/updates/Stable/latest.json", "/updates/stable/LATEST.json", "/updates/latest.json", "/stable/latest.json",
		"/updates/stable/../stable/latest.json", "/x/updates/stable/latest.json", "/updates/stable/latest.json%00", "/updates/stable%00/latest.json",
	} {
		if got := speak(t, server, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); got.status != 404 {
			t.Errorf("%s: %d %.100s", path, got.status, got.body)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "BREW"} {
		if got := speak(t, server, method+" /updates/stable/latest.json HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); got.status != 405 {
			t.Errorf("%s: %d", method, got.status)
		}
	}
	if got := speak(t, server, "GET /updates/stable/latest.json?x=%zz;y HTTP/1.0\r\n\r\n"); got.status != 200 {
		t.Errorf("with a query: %d", got.status)
	}
}
