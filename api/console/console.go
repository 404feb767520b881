// Package console serves the web pages for people: the releases of an application and
// their channels, the monitoring of water networks and the editor of their diagrams.
//
// The pages are static files, embedded in the binary. They are built from the
// TypeScript in src by `go generate ./api/console` and committed in dist, so that
// `go build` needs nothing else; a test checks that dist is what src gives. What
// the pages show comes from the public routes, with the token of whoever is
// logged in; this package reads no data.
//
// Files with a hash in their name may be kept forever, the page itself is never
// stored. A strict Content-Security-Policy allows scripts, styles and requests of
// this server only, and images also from Options.Images.
package console

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

//go:generate go run ./build

// Options configure the console. The zero value is usable.
type Options struct {
	// Releases and Monitoring say which pages there are.
	Releases, Monitoring bool

	// Images are the origins, such as https://cdn.example.com, that pictures of
	// diagrams may come from, besides this server.
	Images []string

	// Demo returns the login of the demo's user and whether it is known yet. It is
	// nil where no demo runs. Only pages of this server that are opened on this
	// machine can ask for it.
	Demo func() (Login, bool)
}

// Login is the body of POST /loginPartner.
type Login struct {
	Email    string `json:"email"`
	TokenApp string `json:"tokenApp"`
	Schema   string `json:"schemaName"`
	TsName   string `json:"ts_name"`
}

// Handler serves the console at the paths below /console. It answers GET and HEAD,
// and POST for the demo's login.
func Handler(o Options) http.Handler {
	sides := `data-sides="` + sides(o) + `"`
	s := &server{Options: o, page: page(sides), demoPage: page("data-demo " + sides)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /console", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/console/", http.StatusPermanentRedirect)
	})
	mux.HandleFunc("POST /console/demo", s.demoLogin)
	mux.HandleFunc("GET /console/", s.file)
	return protect(policy(o.Images), mux)
}

// Redirect sends browsers that open the root of the server to the console, and
// everything else to next.
func Redirect(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		if reads && r.URL.Path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html") {
			w.Header().Add("Vary", "Accept")
			http.Redirect(w, r, "/console/", http.StatusFound)
			return
		}
		next.ServeHTTP(w, r)
	}
}

// CheckImages reports the first text that is not an origin such as
// https://cdn.example.com.
func CheckImages(origins []string) error {
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || origin != u.Scheme+"://"+u.Host ||
			u.Host == "" || strings.ContainsAny(u.Host, " \t;,'\"*@") {
			return fmt.Errorf("%.200q is not an origin like https://cdn.example.com", origin)
		}
	}
	return nil
}

type server struct {
	Options
	page     asset
	demoPage asset // offers the demo
}

// page returns the page with attributes that its scripts read.
func page(attributes string) asset {
	return newAsset("index.html", bytes.Replace(assets()["index.html"].plain, []byte("<html "), []byte("<html "+attributes+" "), 1))
}

// sides names the pages that there are, as the page reads them.
func sides(o Options) string {
	var sides []string
	if o.Releases {
		sides = append(sides, "releases")
	}
	if o.Monitoring {
		sides = append(sides, "monitoring")
	}
	return strings.Join(sides, " ")
}

// policy returns the Content-Security-Policy of every answer.
func policy(images []string) string {
	sources := append([]string{"'self'", "data:", "blob:"}, images...)
	return strings.Join([]string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
		"img-src " + strings.Join(sources, " "),
		"frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'",
	}, "; ")
}

// protect sets the headers that every answer carries.
func protect(policy string, next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next.ServeHTTP(w, r)
	}
}

// file serves one of the embedded files; the page itself at /console/.
func (s *server) file(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/console/")
	a, ok := assets()[name]
	switch {
	case name == "" && s.hasDemo(r):
		s.demoPage.serve(w, r)
	case name == "":
		s.page.serve(w, r)
	case !ok || name == "index.html":
		http.Error(w, "there is no such page", http.StatusNotFound)
	default:
		a.serve(w, r)
	}
}
