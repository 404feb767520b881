// Package api is the HTTP server of tsmon: the monitoring interface of its web and
// desktop clients, and the updates of the desktop client. It builds the rooms, joins
// their routes and owns their life; each room describes what it serves. Every route
// is answered at / and at /api.
package api

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"tsmon/api/console"
	"tsmon/api/fleet"
	"tsmon/api/monitor"
	"tsmon/api/updates"
	"tsmon/api/web"
	"tsmon/signing"
	"tsmon/store/object"
)

// The sides of a server, as /readyz calls them.
const (
	Updates    = "updates"
	Monitoring = "monitoring"
)

// Memory is what a server remembers of its clients and of the records. A server that replaces
// another on the same stores takes over its memory.
type Memory struct {
	monitor *monitor.Memory
	guesses *web.Throttle // of the console's token
	proxied sync.Once     // the warning of a proxy
}

// NewMemory returns an empty Memory.
func NewMemory(now func() time.Time) *Memory {
	m := &Memory{monitor: monitor.NewMemory(now), guesses: web.NewThrottle(now)}
	m.guesses.Whole = true // all guess the same token
	return m
}

// Options are what a Server needs. Objects, Records, Series, Messages, Tokens, Log, MaxUpload,
// Refresh and Clients are required, unless the one side that uses them is not served.
type Options struct {
	// Options are those of monitoring. The updates share the stores, the log, the clock, Deadline
	// and BehindProxy. Deadline is 20 s by default, StoreTime 30 s. New sets Memory and Registry.
	monitor.Options
	Only  string // Updates or Monitoring; empty: both
	Store string // names Objects for what Records keep of its logs

	Keys          signing.Keyring          // that manifests must be signed by; empty: only their form is checked
	Unbound       map[string]bool          // channels whose signatures need not name the version
	Trust         map[string]updates.Trust // what is known of operators, by channel
	Refresh       time.Duration            // how old a manifest may be
	PublicURL     string                   // of the store, as updates.HeadsOptions
	Downgrades    map[string]bool          // channels that have clients with allowDowngrades
	Rings         map[string]bool          // channels that keep rings
	Clients       int                      // recorded per channel and release; of a larger fleet, a sample is
	ReportSecrets []string                 // that applications sign reports with; none: all reports count
	UpdatesToken  string                   // bearer token of /updates/; empty: it is public
	// Clients are redirected for bundles to Elsewhere, or with Presigner to the store.
	// At most one of them is set; without either they get bundles here.
	Elsewhere *url.URL
	Presigner object.Presigner

	Origins    []string // web origins that may send credentials, besides those of the desktop client
	MetricsKey string   // bearer token of /metrics and of adoption; empty: nobody sees them there
	Webhook    fleet.Webhook
	Console    console.Options
	// ConsoleToken is the bearer token of the pages about releases; empty: this machine
	// alone sees them. Guards and Publisher are what they show; nil: they show less.
	ConsoleToken string
	Guards       *fleet.Guards
	Publisher    *updates.Publisher
	Build        web.Build
	Memory       *Memory // of the server before; nil: none
}

// Server joins the rooms. What belongs to a side that is not served is nil.
type Server struct {
	Options
	observer *web.Observer
	heads    *updates.Heads
	fleet    *fleet.Sightings
	notifier *fleet.Notifier
	updates  *updates.Server
	releases *updates.Releases
	monitor  *monitor.Server
	health   *web.Health
	metrics  web.Metrics
}

// New returns a server. Close ends it.
func New(o Options) *Server {
	o = withDefaults(o)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	o.Console.Releases, o.Console.Monitoring = o.Only != Monitoring, o.Only != Updates
	s := &Server{Options: o, observer: web.NewObserver(o.Log, registry, o.BehindProxy), metrics: web.Metrics{Registry: registry, Key: o.MetricsKey}}
	s.observer.WarnOnce(&o.Memory.proxied)
	registry.MustRegister(web.BuildInfo(o.Build))
	var checks []web.Check
	if o.Only != Updates {
		o.Options.Memory, o.Options.Registry = o.Memory.monitor, registry
		s.monitor = monitor.New(o.Options)
		checks = s.monitor.Checks()
	}
	if o.Only != Monitoring {
		s.addUpdates(o, registry)
		checks = append(checks, s.updates.Checks()...)
	}
	s.health = web.NewHealth(checks, o.Now, o.Log, registry)
	s.metrics.Look = s.health.Look
	return s
}

func (s *Server) addUpdates(o Options, registry *prometheus.Registry) {
	s.notifier = fleet.NewNotifier(fleet.NotifierOptions{Webhook: o.Webhook, Records: o.Records, Registry: registry, Log: o.Log, Now: o.Now})
	s.heads = updates.NewHeads(updates.HeadsOptions{
		Alarm: s.notifier.Alarm, Objects: o.Objects, Keys: o.Keys, Interval: o.Refresh, PublicURL: o.PublicURL, Histories: fleet.Histories{Records: o.Records, Store: o.Store}, Unbound: o.Unbound, Trust: o.Trust, Downgrades: o.Downgrades, Rings: o.Rings, Registry: registry, Log: o.Log, Now: o.Now,
	})
	s.notifier.Channels, s.notifier.Moves = s.heads.Channels, s.heads.Moves
	s.fleet = fleet.NewSightings(fleet.Options{
		Records: o.Records, Clients: o.Clients, Series: o.Series, Channels: s.heads.Channels, Asks: s.heads.TakeAsks, Registry: registry, Log: o.Log, Now: o.Now,
	})
	s.updates = updates.New(updates.Options{
		Objects: o.Objects, Heads: s.heads, Fleet: s.fleet, Observer: s.observer, Token: o.UpdatesToken, Key: o.MetricsKey, ReportSecrets: o.ReportSecrets,
		Elsewhere: o.Elsewhere, Presigner: o.Presigner, BehindProxy: o.BehindProxy, Deadline: o.Deadline, Now: o.Now,
	})
	s.releases = updates.NewReleases(updates.ReleasesOptions{
		Heads: s.heads, Fleet: s.fleet, Guards: o.Guards, Publisher: o.Publisher, Token: o.ConsoleToken, Guesses: o.Memory.guesses, BehindProxy: o.BehindProxy, Deadline: o.Deadline, Log: o.Log, Now: o.Now,
	})
}

func withDefaults(o Options) Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Memory == nil {
		o.Memory = NewMemory(o.Now)
	}
	o.Deadline = cmp.Or(o.Deadline, web.Deadline)
	o.StoreTime = cmp.Or(o.StoreTime, monitor.DefaultStoreTime)
	return o
}

// End makes /readyz fail for good, while requests go on being answered.
func (s *Server) End() { s.health.End() }

// Channels returns what is known of each channel of the object store, by its name.
func (s *Server) Channels() map[string]fleet.Channel { return s.heads.Channels() }

// lookTime is how long Look may take.
const lookTime = 30 * time.Second

// Look returns once all channels were looked at again, or after half a minute.
func (s *Server) Look(ctx context.Context) { s.updates.Look(ctx, lookTime) }

// Recorded returns a number that grows whenever this server has recorded something new
// of clients.
func (s *Server) Recorded() uint64 { return s.fleet.Recorded() }

// Watch reads the manifests of all channels and begins to count clients; without it, both
// begin with the first request. It also looks for time series that commands have written, and
// sends messages to the webhook. It ends with Close, not with the context.
func (s *Server) Watch(ctx context.Context) {
	if s.updates != nil {
		s.updates.Watch(ctx)
		s.notifier.Start(ctx)
	}
	if s.monitor != nil {
		s.monitor.Watch(ctx)
	}
}

// Close ends running queries and Watch, records what was seen of clients, and waits
// for all three. The stores stay open.
func (s *Server) Close() {
	if s.monitor != nil {
		s.monitor.Close()
	}
	if s.updates != nil {
		s.notifier.Close()
		s.updates.Close()
	}
}

// Handler returns the routes.
func (s *Server) Handler() http.Handler {
	routes := s.routes()
	root := chi.NewRouter()
	root.Use(s.observer.Observe, s.observer.Recover, web.CORS(s.Origins, slices.Concat(monitor.Headers, updates.Headers), monitor.Exposed))
	root.MethodNotAllowed(notAllowed(root))
	root.NotFound(console.Redirect(web.Responder{}.Open(func(*http.Request) (any, error) {
		return nil, web.Refuse(http.StatusNotFound, "there is nothing at this address")
	})))
	root.Mount("/console", console.Handler(s.Console))
	root.Mount("/api", routes)
	root.Mount("/", routes)
	if s.updates == nil {
		return root
	}
	return s.updates.Shortcut(root)
}

// Metrics returns the handler of a listener that shows the metrics to anybody, at /metrics.
func (s *Server) Metrics() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", s.metrics.Open)
	return mux
}

func (s *Server) routes() chi.Router {
	r := chi.NewRouter()
	if s.monitor != nil {
		s.monitor.Routes(r)
	}
	if s.updates != nil {
		s.updates.Routes(r)
		s.releases.Routes(r)
	}
	limited := r.With(web.LimitTime(s.Deadline))
	limited.Get("/healthz", web.Responder{}.Open(web.Alive))
	limited.Get("/readyz", s.health.ServeHTTP)
	limited.Get("/metrics", s.metrics.ServeHTTP)
	limited.Get("/openapi.json", web.Responder{}.Open(describe))
	return r
}

// notAllowed answers 405 with the methods that an address accepts. The address of reports
// matches the routes of files, but accepts POST only.
func notAllowed(routes chi.Routes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		methods := []string{http.MethodGet, http.MethodHead, http.MethodPost}
		if strings.HasSuffix(r.URL.Path, updates.ReportPath) {
			methods = []string{http.MethodPost}
		}
		for _, method := range methods {
			if routes.Match(chi.NewRouteContext(), method, r.URL.Path) {
				w.Header().Add("Allow", method)
			}
		}
		web.Responder{}.Fail(w, r, web.Refuse(http.StatusMethodNotAllowed, "this address does not take that method"))
	}
}
