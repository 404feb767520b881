package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"tsmon/api/apitest"
)

// corsHeaders are those by which a browser lets a page read an answer.
var corsHeaders = []string{
	"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers",
	"Access-Control-Expose-Headers", "Access-Control-Max-Age", "Access-Control-Allow-Private-Network",
}

// strangers are origins that are none of ours, or no origins.
var strangers = []string{
	"null", "*", "https://scada.example.com.evil.com", "https://evil.com/https://scada.example.com", "https://evilscada.example.com", "http://scada.example.com", "HTTPS://SCADA.EXAMPLE.COM", "https://Scada.example.com",
	"https://scada.example.com/", "https://scada.example.com:443", "https://scada.example.com:8443", "https://sub.scada.example.com", "https://example.com", "https://user@scada.example.com", "https://scada.example.com, https://evil.com",
	"https://scada.example.com https://evil.com", "https://evil.com https://scada.example.com", "https://scada.example.com.", "https://scada.example.com%60.evil.com", "https://scada_example.com", "https://scada-example.com", "scada.example.com", "//scada.example.com",
	"tauri://localhost.evil.com", "tauri://evil", "TAURI://localhost", "tauri://localhost/", "http://tauri.localhost:8080", "https://tauri.localhost.evil.com", "https://evil.tauri.localhost", "http://localhost", "http://127.0.0.1", "asset://localhost", "file://", "https://scada.example.com\x80",
}

// wantCORS demands the headers for an origin, or none of them.
func wantCORS(t *testing.T, what string, header http.Header, origin string) {
	t.Helper()
	if !strings.Contains(strings.Join(header.Values("Vary"), ","), "Origin") {
		t.Errorf("%s: Vary is %q", what, header.Values("Vary"))
	}
	if origin == "" {
		for _, name := range corsHeaders {
			if got, ok := header[name]; ok {
				t.Errorf("%s: %s is %q", what, name, got)
			}
		}
		return
	}
	if got := header.Values("Access-Control-Allow-Origin"); !slices.Equal(got, []string{origin}) || header.Get("Access-Control-Allow-Credentials") != "true" {
		t.Errorf("%s: allowed are %q, %q", what, got, header.Get("Access-Control-Allow-Credentials"))
	}
}

// crossOrigin are requests with all kinds of answers.
func crossOrigin(w *apitest.World) []apitest.Route {
	return append(apitest.PrivateRoutes(w),
		apitest.NewRoute("GET", "/healthz", ""), apitest.NewRoute("GET", "/api/healthz", ""), apitest.NewRoute("GET", "/nothing", ""), apitest.NewRoute("POST", "/healthz", ""), apitest.NewRoute("POST", "/dataTs", "{"), apitest.NewRoute("POST", "/upload", ""),
		apitest.NewRoute("GET", "/updates/stable/latest.json", ""), apitest.NewRoute("GET", "/uploads/0123456789abcdef0123456789abcdef.png", ""), apitest.NewRoute("POST", "/v2/write", ""), apitest.NewRoute("GET", "/getPermission?id=1&type=x", ""))
}

func TestHostileOrigins(t *testing.T) {
	t.Parallel()
	w := apitest.Embedded(t)
	apitest.ImportGrants(t, w)
	server := w.Serve(t)
	ana, nobody := w.LogIn(t, server, w.Ana), apitest.Client{TB: t, Base: server.URL}
	known := append([]string{"https://scada.example.com"}, apitest.DesktopOrigins...)
	for _, r := range crossOrigin(w) {
		for _, c := range []apitest.Client{ana, nobody} {
			for i, origin := range strangers {
				if c == nobody && i%8 > 0 {
					continue
				}
				wantCORS(t, r.Path+" from "+origin, c.Attempt(r, http.Header{"Origin": {origin}}).Header, "")
			}
			for _, origin := range known {
				wantCORS(t, r.Path+" from "+origin, c.Attempt(r, http.Header{"Origin": {origin}}).Header, origin)
			}
			wantCORS(t, r.Path, c.Attempt(r, nil).Header, "")
		}
	}
	got := ana.Attempt(apitest.NewRoute("GET", "/getAllMenu", ""), http.Header{"Origin": {known[0]}})
	for _, name := range []string{"X-Request-Id", "X-Tsmon-Truncated", "Retry-After"} {
		if !strings.Contains(got.Header.Get("Access-Control-Expose-Headers"), name) {
			t.Errorf("pages can't read %s: %v", name, got.Header)
		}
	}
	if cookies := got.Header.Values("Set-Cookie"); len(cookies) > 0 {
		t.Errorf("cookies: %q", cookies)
	}
}

// preflight is what a browser asks before it sends a request of a page.
func preflight(c apitest.Client, path, origin, method string, headers ...string) apitest.Answer {
	header := http.Header{"Origin": {origin}, "Access-Control-Request-Method": {method}}
	if len(headers) > 0 {
		header["Access-Control-Request-Headers"] = []string{strings.Join(headers, ",")}
	}
	return c.Attempt(apitest.NewRoute("OPTIONS", path, ""), header)
}

func TestHostilePreflights(t *testing.T) {
	t.Parallel()
	w := apitest.Embedded(t)
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	allowed := []string{"accept", "accesskey", "authorization", "content-type", "secretkey"}
	for _, path := range []string{"/multipleDataTs", "/api/multipleDataTs", "/loginPartner", "/upload", "/updates/stable/latest.json", "/nothing"} {
		for _, origin := range append([]string{"https://scada.example.com"}, apitest.DesktopOrigins...) {
			for _, headers := range append([][]string{nil, allowed}, single(allowed)...) {
				got := preflight(nobody, path, origin, "POST", headers...)
				wantCORS(t, path, got.Header, origin)
				if got.Status != 204 || len(got.Body) > 0 || got.Header.Get("Access-Control-Allow-Methods") != "POST" || got.Header.Get("Access-Control-Allow-Headers") != strings.Join(headers, ",") {
					t.Errorf("%s from %s with %q: %d %v", path, origin, headers, got.Status, got.Header)
				}
			}
			for _, header := range []string{"x-evil", "cookie", "*", "x-forwarded-for", "authorization,x-evil", "x-requested-with", "if-none-match", "proxy-authorization"} {
				wantCORS(t, path+" with "+header, preflight(nobody, path, origin, "POST", header).Header, "")
			}
			for _, method := range []string{"PUT", "DELETE", "PATCH", "TRACE", "*", "post", "BREW"} {
				wantCORS(t, path+" by "+method, preflight(nobody, path, origin, method).Header, "")
			}
		}
		for _, origin := range strangers {
			wantCORS(t, path+" from "+origin, preflight(nobody, path, origin, "POST", "content-type").Header, "")
		}
	}
	// Nobody's pages may ask a server without origins, but the desktop client's.
	w.Origins = nil
	bare := apitest.Client{TB: t, Base: w.Serve(t).URL}
	wantCORS(t, "without origins", preflight(bare, "/dataTs", "https://scada.example.com", "POST").Header, "")
	wantCORS(t, "without origins", preflight(bare, "/dataTs", "tauri://localhost", "POST").Header, "tauri://localhost")
}

// single makes a list of each word.
func single(words []string) (lists [][]string) {
	for _, word := range words {
		lists = append(lists, []string{word})
	}
	return lists
}
