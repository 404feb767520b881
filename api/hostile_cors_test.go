package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"
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
func crossOrigin(w *world) []route {
	return append(privateRoutes(w),
		route{"GET", "/healthz", ""}, route{"GET", "/api/healthz", ""}, route{"GET", "/nothing", ""}, route{"POST", "/healthz", ""}, route{"POST", "/dataTs", "{"}, route{"POST", "/upload", ""},
		route{"GET", "/updates/stable/latest.json", ""}, route{"GET", "/uploads/0123456789abcdef0123456789abcdef.png", ""}, route{"POST", "/v2/write", ""}, route{"GET", "/getPermission?id=1&type=x", ""})
}

func TestHostileOrigins(t *testing.T) {
	t.Parallel()
	w := embedded(t)
	grants(t, w)
	server := w.serve(t)
	ana, nobody := w.as(t, server, w.ana), client{tb: t, base: server.URL}
	known := append([]string{"https://scada.example.com"}, desktopOrigins...)
	for _, r := range crossOrigin(w) {
		for _, c := range []client{ana, nobody} {
			for i, origin := range strangers {
				if c == nobody && i%8 > 0 {
					continue
				}
				wantCORS(t, r.path+" from "+origin, c.attempt(r, http.Header{"Origin": {origin}}).header, "")
			}
			for _, origin := range known {
				wantCORS(t, r.path+" from "+origin, c.attempt(r, http.Header{"Origin": {origin}}).header, origin)
			}
			wantCORS(t, r.path, c.attempt(r, nil).header, "")
		}
	}
	got := ana.attempt(route{"GET", "/getAllMenu", ""}, http.Header{"Origin": {known[0]}})
	for _, name := range []string{"X-Request-Id", "X-Tsmon-Truncated", "Retry-After"} {
		if !strings.Contains(got.header.Get("Access-Control-Expose-Headers"), name) {
			t.Errorf("pages can't read %s: %v", name, got.header)
		}
	}
	if cookies := got.header.Values("Set-Cookie"); len(cookies) > 0 {
		t.Errorf("cookies: %q", cookies)
	}
}

// preflight is what a browser asks before it sends a request of a page.
func preflight(c client, path, origin, method string, headers ...string) answer {
	header := http.Header{"Origin": {origin}, "Access-Control-Request-Method": {method}}
	if len(headers) > 0 {
		header["Access-Control-Request-Headers"] = []string{strings.Join(headers, ",")}
	}
	return c.attempt(route{"OPTIONS", path, ""}, header)
}

func TestHostilePreflights(t *testing.T) {
	t.Parallel()
	w := embedded(t)
	nobody := client{tb: t, base: w.serve(t).URL}
	allowed := []string{"accept", "accesskey", "authorization", "content-type", "secretkey"}
	for _, path := range []string{"/multipleDataTs", "/api/multipleDataTs", "/loginPartner", "/upload", "/updates/stable/latest.json", "/nothing"} {
		for _, origin := range append([]string{"https://scada.example.com"}, desktopOrigins...) {
			for _, headers := range append([][]string{nil, allowed}, single(allowed)...) {
				got := preflight(nobody, path, origin, "POST", headers...)
				wantCORS(t, path, got.header, origin)
				if got.status != 204 || len(got.body) > 0 || got.header.Get("Access-Control-Allow-Methods") != "POST" || got.header.Get("Access-Control-Allow-Headers") != strings.Join(headers, ",") {
					t.Errorf("%s from %s with %q: %d %v", path, origin, headers, got.status, got.header)
				}
			}
			for _, header := range []string{"x-evil", "cookie", "*", "x-forwarded-for", "authorization,x-evil", "x-requested-with", "if-none-match", "proxy-authorization"} {
				wantCORS(t, path+" with "+header, preflight(nobody, path, origin, "POST", header).header, "")
			}
			for _, method := range []string{"PUT", "DELETE", "PATCH", "TRACE", "*", "post", "BREW"} {
				wantCORS(t, path+" by "+method, preflight(nobody, path, origin, method).header, "")
			}
		}
		for _, origin := range strangers {
			wantCORS(t, path+" from "+origin, preflight(nobody, path, origin, "POST", "content-type").header, "")
		}
	}
	// Nobody's pages may ask a server without origins, but the desktop client's.
	w.Origins = nil
	bare := client{tb: t, base: w.serve(t).URL}
	wantCORS(t, "without origins", preflight(bare, "/dataTs", "https://scada.example.com", "POST").header, "")
	wantCORS(t, "without origins", preflight(bare, "/dataTs", "tauri://localhost", "POST").header, "tauri://localhost")
}

// single makes a list of each word.
func single(words []string) (lists [][]string) {
	for _, word := range words {
		lists = append(lists, []string{word})
	}
	return lists
}
