// Package api is the HTTP side of tsmon: the interface that the web and desktop
// clients of the monitoring side ask, and the updates of the desktop client.
// Every route is answered at / and at /api.
//
// Answers are JSON. Success is an object with data. Everything else has one of
// two shapes: 401 carries error, an object with message and code; every other
// status carries error1, error2 and so on, each an object with message. Invalid
// parameters and faults of the server are 500, as clients expect; a permission
// that is missing is 403 and never 401, which makes clients log their user out.
// What a backend said goes to the log; the client gets a plain sentence and the
// request's id, which every answer also carries in X-Request-Id.
//
// A bearer token alone says who asks: cookies are sent by clients and never read.
// The tenant comes from the token's claims, and user and tenant are looked up
// again at most a minute later, so that what was taken from a user ends then.
//
// Under /updates/ stands the release store, read-only, at the paths that the
// store itself has, so that a bucket and this server are interchangeable:
// CHANNEL/latest.json, and releases/VERSION/ with its bundles, signatures and
// record. The log, staged parts and uploads are no part of that tree. GET and
// HEAD are answered, with ETag and 304, a range, and JSON compressed. Manifests
// come out of memory and are at most Options.Refresh old. Those and records are
// shown only if they verify: where one does not, the last manifest stays that
// did, and /readyz, the log and the metrics say so. Clients may be sent elsewhere
// for bundles: to a public address, or with a presigned one to the store itself.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"

	"tsmon/api/console"
	"tsmon/api/mqtt"
	"tsmon/api/token"
	"tsmon/channels"
	"tsmon/signing"
	"tsmon/store/object"
	"tsmon/store/record"
	"tsmon/store/series"
)

// Publisher sends messages to devices.
type Publisher interface {
	// Publish sends a message and waits until the broker acknowledges it. Its
	// errors are those of package mqtt.
	Publish(ctx context.Context, topic string, payload []byte) (mqtt.Receipt, error)

	// Ping reports whether there is a broker.
	Ping(ctx context.Context) error
}

// KeyPair is what an upload has to show.
type KeyPair struct{ Access, Secret string }

// Options are what a Server is made of. Objects, Records, Series, Messages,
// Tokens and Log are needed.
type Options struct {
	Objects  object.Store
	Records  record.Store
	Series   series.Store
	Messages Publisher
	Tokens   *token.Keys
	Log      *slog.Logger

	Keys         signing.Keyring           // that manifests have to be signed by; empty: only their form is looked at
	Guards       map[string]channels.Guard // by channel; channels.DefaultGuard of one that is not named
	Refresh      time.Duration             // that a manifest may be old, 5 s by default
	UpdatesToken string                    // bearer token of /updates/; empty: it is public
	// Clients are sent for bundles below Elsewhere, or with Presigner to the store
	// itself. At most one of them is set; without any they get bundles here.
	Elsewhere *url.URL
	Presigner object.Presigner

	Origins     []string // web origins that may ask with credentials, besides those of the desktop client
	Uploads     KeyPair  // empty: nothing can be uploaded
	MaxUpload   int64    // bytes, 20 MiB by default
	WriteToken  string   // of /api/v2/write; empty: nothing can be written
	MetricsKey  string   // bearer token that opens /metrics to other machines; empty: none does
	BehindProxy bool     // what X-Forwarded-For and X-Forwarded-Proto say is true
	Console     console.Options
	Now         func() time.Time
}

// Server answers the routes.
type Server struct {
	Options
	values    *series.Cached
	plans     plans
	sessions  *sessions
	guesses   *throttle
	metrics   *metrics
	kinds     *kinds
	health    *health
	heads     *heads
	installs  *installs
	caches    caches
	deadline  time.Duration
	storeTime time.Duration // that an upload may take on its way into the store
}

// deadline is what a request may take, from the end of its header until its
// answer is ready, unless it carries files.
const deadline = 20 * time.Second

// New puts a server together. Close ends it.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxUpload == 0 {
		o.MaxUpload = 20 << 20
	}
	if o.Refresh == 0 {
		o.Refresh = 5 * time.Second
	}
	s := &Server{Options: o, guesses: newThrottle(o.Now), metrics: newMetrics(), deadline: deadline, storeTime: storeTime}
	s.kinds = &kinds{metrics: s.metrics, log: o.Log.Handler(), known: map[kindKey]kind{}}
	s.values = series.NewCached(s.metrics.counted(o.Series))
	s.values.Now = o.Now
	s.sessions = &sessions{records: o.Records, now: o.Now, deadline: deadline, known: map[sessionKey]*session{}}
	s.heads = s.newHeads()
	s.installs = s.newInstalls()
	s.caches = cachesFor(o.UpdatesToken != "")
	s.health = &health{checks: s.checks(), now: o.Now, log: o.Log, failing: map[string]bool{}}
	return s
}

// Watch reads the manifests of all channels before anybody asks for one, and counts
// the clients that ask. Without it that begins with the first question. It ends
// with Close, not with the context.
func (s *Server) Watch(ctx context.Context) {
	s.heads.watch(ctx)
	s.installs.start(ctx)
}

// Close ends the queries that run, and Watch, writes what was seen of clients, and
// waits for all three. The stores stay open.
func (s *Server) Close() {
	s.values.Close()
	s.heads.close()
	s.installs.close()
}

// Handler returns the routes.
func (s *Server) Handler() http.Handler {
	routes := s.routes()
	root := chi.NewRouter()
	root.Use(s.observe, s.recoverer, s.cors())
	root.NotFound(console.Redirect(s.open(func(*http.Request) (any, error) {
		return nil, refuse(http.StatusNotFound, "there is nothing at this address")
	})))
	root.MethodNotAllowed(s.notAllowed(root))
	root.Mount("/console", console.Handler(s.Console))
	root.Mount("/api", routes)
	root.Mount("/", routes)
	return s.short(root)
}

// notAllowed answers with the methods that an address takes.
func (s *Server) notAllowed(routes chi.Routes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			if routes.Match(chi.NewRouteContext(), method, r.URL.Path) {
				w.Header().Add("Allow", method)
			}
		}
		s.fail(w, r, refuse(http.StatusMethodNotAllowed, "this address does not take that method"))
	}
}

func (s *Server) routes() chi.Router {
	r := chi.NewRouter()
	r.Group(func(r chi.Router) {
		r.Use(s.limitTime)
		r.Post("/loginPartner", s.open(s.login))
		r.Post("/seriesDataTs", s.private(s.seriesData))
		r.Post("/dataTs", s.private(s.currentValue))
		r.Post("/multipleDataTs", s.private(s.currentValues))
		r.Get("/getObjectCanva", s.private(s.diagram))
		r.Post("/saveDiagram", s.private(s.saveDiagram))
		r.Get("/getVarsTs", s.private(s.variables))
		r.Get("/getConfigNotify", s.private(s.notifyConfig))
		r.Post("/sendConfigMQTT", s.private(s.publish))
		r.Get("/getAllMenu", s.private(s.menus))
		r.Get("/getPermission", s.private(s.permissions))
		r.Get("/indicatorCharts", s.private(s.charts))
		r.Get("/healthz", s.open(s.alive))
		r.Get("/readyz", s.ready)
		r.Get("/metrics", s.measured)
		r.Get("/openapi.json", s.open(s.describe))
	})
	// These take as long as their bytes need.
	r.Post("/upload", s.upload)
	r.Get("/uploads/*", s.uploaded)
	r.Head("/uploads/*", s.uploaded)
	r.With(s.limitTime).Get("/updates/{channel}/{target}/{arch}/{version}", s.offer)
	r.With(s.limitTime).Post("/updates/report", s.report)
	r.Get("/updates/*", s.update)
	r.Head("/updates/*", s.update)
	r.Post("/v2/write", s.write) // with the prefix it is InfluxDB's own address
	return r
}

// limitTime puts the deadline into the request's context.
func (s *Server) limitTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.deadline)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
