package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"tsmon/api/apitest"
)

// openRoutes are those that need no token, and how they are asked.
var openRoutes = map[string][]string{
	"/loginPartner": {"POST"}, "/healthz": {"GET"}, "/readyz": {"GET"}, "/metrics": {"GET"}, "/openapi.json": {"GET"},
	"/upload": {"POST"}, "/uploads/x": {"GET", "HEAD"}, "/updates/stable/latest.json": {"GET", "HEAD"}, "/v2/write": {"POST"},
}

// Methods that a route has not are 405, in shape, with a token and without.
func TestHostileMethods(t *testing.T) {
	w := apitest.Embedded(t)
	server := w.Serve(t)
	ana := w.LogIn(t, server, w.Ana)
	all := map[string][]string{}
	for path, methods := range openRoutes {
		all[path] = methods
	}
	for _, r := range apitest.PrivateRoutes(w) {
		path, _, _ := strings.Cut(r.Path, "?")
		all[path] = []string{r.Method}
	}
	for path, methods := range all {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "BREW", "get", "POST2"} {
			if slices.Contains(methods, method) {
				continue
			}
			for _, prefix := range []string{"", "/api"} {
				r := apitest.NewRoute(method, prefix+path, "")
				got := ana.Attempt(r, nil)
				if method == "HEAD" && got.Status == 405 && len(got.Body) == 0 {
					continue // which has no body by its nature
				}
				if got.WantFailure(t, 405); got.Header.Get("X-Request-Id") == "" {
					t.Errorf("%s %s: no id", r.Method, r.Path)
				}
			}
		}
	}
}

// Paths that are nowhere are 404, in shape, and nobody is sent elsewhere.
func TestHostilePaths(t *testing.T) {
	w := apitest.Embedded(t)
	server := w.Serve(t)
	ana := w.LogIn(t, server, w.Ana)
	for _, path := range []string{
		"/", "//", "/api", "/api/", "/api//", "/nothing", "/api/nothing", "/api/api/healthz", "/v2", "/api/v2", "/v2/", "/v2/write/", "/v2/query", "/api/v1/healthz",
		"//healthz", "/healthz/", "/healthz//", "/./healthz", "/x/../healthz", "/api//healthz", "//api/healthz", "/api/./healthz", "/api/../healthz", "/%2e/healthz", "/%2e%2e/healthz", "/..%2fhealth",
		"/healthz%2f", "/healthz%00", "/healthz%0a", "/healthz%20", "/HEALTHZ", "/Healthz", "/healthz;x=1", "/healthz.json", "/%2Fhealth", "/api%2fhealth", "/%61pi/%68ealthy", "/loginpartner", "/loginPartner/", "/getAllMenu/1", "/getallmenu",
		"/multipleDataTs/..", "/openapi.yaml", "/openapi", "/swagger", "/favicon.ico", "/.git/config", "/.env", "/etc/passwd", "/debug/pprof/", "/debug/vars",
		"/static/..%2f..%2fetc%2fpasswd", "/..\\..\\windows", "/%c0%ae%c0%ae/", "/%ff", "/\u202ehealthz", "/" + strings.Repeat("a/", 1000), "/" + strings.Repeat("a", 50_000), "/*", "/{x}", "/api/*",
		"/updates", "/updates/", "/uploads", "/uploads/", "/uploads/x", "/upload/x", "/updates//", "/updates/stable", "/updates/../healthz", "/api/updates/..%2f..%2fhealth",
	} {
		got := apitest.SendText(t, server, "GET "+path+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+ana.Token+"\r\n\r\n")
		if got.WantFailure(t, 404) == "" || got.Header.Get("Location") != "" || got.Header.Get("X-Request-Id") == "" {
			t.Errorf("%.100s: %d %v", path, got.Status, got.Header)
		}
	}
	// Another host, or an address in full, is the same path.
	for _, head := range []string{"GET http://evil.example/api/healthz HTTP/1.1\r\nHost: x", "GET /healthz?x=%ff&x=;&%zz HTTP/1.1\r\nHost: evil.example", "GET /healthz# HTTP/1.0"} {
		want := 200
		if strings.Contains(head, "#") {
			want = 404
		}
		if got := apitest.SendText(t, server, head+"\r\n\r\n"); got.Status != want {
			t.Errorf("%s: %d %s", head, got.Status, got.Body)
		}
	}
}

// A client can't choose the request's id nor the address that is kept of it.
func TestHostileHeaders(t *testing.T) {
	w := apitest.Embedded(t)
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	header := http.Header{"X-Request-Id": {"mine-0001"}, "X-Forwarded-For": {"192.0.2.1"}, "X-Real-Ip": {"192.0.2.1"}, "Forwarded": {"for=192.0.2.1"}, "X-Http-Method-Override": {"DELETE"}, "X-Original-Url": {"/metrics"}}
	got := nobody.Send("GET", "/healthz", nil, header)
	if got.Status != 200 || got.Header.Get("X-Request-Id") == "mine-0001" || strings.Contains(w.Logged.String(), "192.0.2.1") || strings.Contains(w.Logged.String(), "mine-0001") {
		t.Errorf("%d %v\n%s", got.Status, got.Header, w.Logged.String())
	}
	if n := strings.Count(w.Logged.String(), "behind_proxy"); n != 1 {
		t.Errorf("%d warnings of a proxy:\n%s", n, w.Logged)
	}
	// A stock proxy on this machine looks like this machine.
	nobody.Get("/metrics").WantFailure(t, 403)
	nobody.Send("GET", "/metrics", nil, http.Header{"X-Forwarded-For": {"127.0.0.1"}}).WantFailure(t, 403)
	if n := strings.Count(w.Logged.String(), "behind_proxy"); n != 1 {
		t.Errorf("warned again: %d", n)
	}
	w.MetricsKey, w.BehindProxy = "metrics-of-the-test", true
	proxied := apitest.Client{TB: t, Base: w.Serve(t).URL}
	for _, sent := range []string{"", "Bearer", "Bearer ", "Bearer metrics-of-the-tes", "Bearer metrics-of-the-test2", "metrics-of-the-test", "Basic metrics-of-the-test"} {
		proxied.Send("GET", "/metrics?key=metrics-of-the-test", nil, http.Header{"Authorization": {sent}}).WantFailure(t, 403)
	}
	if got := proxied.Send("GET", "/metrics", nil, http.Header{"Authorization": {"Bearer metrics-of-the-test"}}); got.Status != 200 {
		t.Errorf("metrics with the key: %d", got.Status)
	}
}
