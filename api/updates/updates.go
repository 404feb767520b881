// Package updates serves the release store under /updates/, read-only, at the paths
// of the store itself, so that a bucket and this server are interchangeable:
// CHANNEL/latest.json, CHANNEL/rings/NN/latest.json and CHANNEL/downloads.json, and
// releases/VERSION/ with its bundles, signatures and record. Logs, staged bundles and
// uploads are not part of that tree. The package also serves the dynamic address, which
// answers each client by the version it has, the links CHANNEL/download/KEY for the buttons
// of web sites, and /updates/report, where applications report the outcome of a release.
//
// Manifests are served from memory and are at most Heads' interval old. Manifests and
// records are shown only if they verify; if a manifest does not, the last one that did
// stays, and the log and the metrics have an alarm. Clients may be redirected for bundles:
// to a public address, or to a presigned one.
package updates

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"tsmon/api/fleet"
	"tsmon/api/updates/seal"
	"tsmon/api/web"
	"tsmon/channels"
	"tsmon/release/library"
	"tsmon/store/object"
)

// Options configure a Server.
type Options struct {
	Objects  object.Store
	Heads    *Heads
	Fleet    *fleet.Sightings
	Observer *web.Observer
	Token    string // bearer token; empty: updates are public
	Key      string // bearer token of the adoption of channels; empty: nobody sees it
	// ReportSecrets are the secrets that applications may sign reports with; none: all reports
	// count.
	ReportSecrets []string
	// Elsewhere is the public address that clients are redirected to for bundles; with Presigner
	// they are redirected to the store. At most one is set; with neither, this server serves them.
	Elsewhere   *url.URL
	Presigner   object.Presigner
	BehindProxy bool
	Deadline    time.Duration // for a request, and for the store to begin to answer
	Now         func() time.Time
}

// Server serves the update tree, offers and reports.
type Server struct {
	Options
	web.Responder
	files *web.Files
	seals *seal.Seals
	// Cache-Control of manifests and of releases:
	manifest, release []string
}

// New returns a server. Watch starts it, Close ends it.
func New(o Options) *Server {
	return &Server{
		Options: o, files: &web.Files{Store: o.Objects, Deadline: o.Deadline}, seals: seal.New(o.ReportSecrets),
		manifest: o.cacheControl(channels.CacheControl), release: o.cacheControl(library.CacheControl),
	}
}

// cacheControl returns a Cache-Control that the publisher sets in a bucket. If a token is needed,
// only the client itself may cache.
func (o *Options) cacheControl(public string) []string {
	if o.Token == "" {
		return []string{public}
	}
	return []string{strings.Replace(public, "public", "private", 1)}
}

// Headers identify clients and sign their reports.
var Headers = []string{clientHeader, cohortHeader, seal.Time, seal.Signature}

// ReportPath is where applications send reports, by POST only.
const ReportPath = "/updates/report"

// Routes adds the routes. The Deadline applies to all but those that serve files.
func (s *Server) Routes(r chi.Router) {
	limited := r.With(web.LimitTime(s.Deadline))
	limited.Get("/updates/{channel}/{target}/{arch}/{version}", s.offer)
	limited.Post(ReportPath, s.report)
	r.Get("/updates/{channel}/rings/{ring}/latest.json", s.file)
	r.Head("/updates/{channel}/rings/{ring}/latest.json", s.file)
	limited.Get("/updates/{channel}/download/{key}", s.download)
	limited.Head("/updates/{channel}/download/{key}", s.download)
	limited.Get("/updates/{channel}/adoption", s.Open(s.adoption))
	r.Get("/updates/*", s.file)
	r.Head("/updates/*", s.file)
}

// Watch reads the manifests of all channels before anybody asks for one, and begins to record
// clients. Without Watch both begin with the first request. They end with Close, not with the
// context.
func (s *Server) Watch(ctx context.Context) {
	s.Heads.watch(ctx)
	s.Fleet.Start(ctx)
}

// Close ends what Watch began, and waits until all observations of clients are recorded.
func (s *Server) Close() {
	s.Heads.close()
	s.Fleet.Close()
}

// Checks asks the object store. Objects that don't verify are not part of the health: what
// verified before is still served, and the log and the metrics have the alarm.
func (s *Server) Checks() []web.Check {
	return []web.Check{{Name: "objects", Concern: "updates", Ask: func(ctx context.Context) error {
		s.Heads.watch(ctx)
		_, err := s.Objects.Stat(ctx, "ready") // any key shows whether the store answers
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}}}
}

// Shortcut answers the most frequent request, for a manifest in memory, before the
// router and CORS, which add nothing to it. It is counted and logged like all others.
func (s *Server) Shortcut(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, route, shown := s.atHand(r)
		if shown == nil {
			next.ServeHTTP(w, r)
			return
		}
		x := s.Observer.Begin(w, r)
		web.ServeDocument(x, r, shown, s.manifest)
		c.asks.Add(1)
		s.Observer.Finish(x, r, route)
	})
}

// atHand returns the channel and the manifest that a request asks for, and the name of its
// route. The document is nil if the request needs the router.
func (s *Server) atHand(r *http.Request) (c *channel, route string, d *web.Document) {
	if !strings.HasSuffix(r.URL.Path, manifestEnd) || r.URL.RawPath != "" || r.Method != http.MethodGet && r.Method != http.MethodHead || r.Header["Origin"] != nil || r.Header["Range"] != nil {
		return nil, "", nil
	}
	key, isUpdate := strings.CutPrefix(strings.TrimPrefix(r.URL.Path, "/api"), "/updates/")
	if !isUpdate || !s.allowed(r) {
		return nil, "", nil
	}
	name, ring, ok := manifestIn(key)
	c = s.Heads.channel(name)
	if !ok || c == nil {
		return nil, "", nil
	}
	d, err := c.document(ring)
	if err != nil {
		return nil, "", nil // the router says why
	}
	return c, routeOf(key), d
}

// allowed reports whether a request has the token, if one is needed.
func (s *Server) allowed(r *http.Request) bool {
	return s.Token == "" || web.SameSecret(web.Bearer(r), s.Token)
}

func client(r *http.Request) fleet.Client {
	return fleet.Client{ID: clientID(r), Network: web.Network(web.NoteOf(r).Address, 24, 48)}
}
