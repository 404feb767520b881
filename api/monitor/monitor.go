// Package monitor serves the monitoring interface: login, current values and series,
// diagrams, variables, menus, charts, messages to devices, uploads, and writing time
// series as InfluxDB's own clients do.
//
// A bearer token alone identifies the user; cookies are never read. The tenant comes
// from the token's claims. User and tenant are looked up again after at most a
// minute, so that a revoked right ends then. Invalid parameters and faults of the
// server are 500, as clients expect; a missing permission is 403 and never 401, which
// makes clients log their user out.
package monitor

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"tsmon/api/monitor/mqtt"
	"tsmon/api/monitor/token"
	"tsmon/api/web"
	"tsmon/store/object"
	"tsmon/store/record"
	"tsmon/store/series"
)

// Publisher sends messages to devices.
type Publisher interface {
	// Publish sends a message and waits until the broker acknowledges it. Its errors
	// are those of package mqtt.
	Publish(ctx context.Context, topic string, payload []byte) (mqtt.Receipt, error)

	// Ping reports whether there is a broker.
	Ping(ctx context.Context) error
}

// KeyPair is what an upload has to send.
type KeyPair struct{ Access, Secret string }

// Options are what a Server needs.
type Options struct {
	Objects  object.Store // of uploads
	Records  record.Store
	Series   series.Store
	Messages Publisher
	Tokens   *token.Keys
	Registry prometheus.Registerer
	Log      *slog.Logger
	Now      func() time.Time

	Uploads     KeyPair       // empty: nothing can be uploaded
	MaxUpload   int64         // bytes
	WriteToken  string        // of /api/v2/write; empty: nothing can be written
	BehindProxy bool          // X-Forwarded-Proto is true
	Deadline    time.Duration // for a request without files, and for a look-up of a user
	StoreTime   time.Duration // for an upload to reach the store
}

// Server serves the monitoring interface.
type Server struct {
	gate     *gate
	values   *values
	diagrams *diagrams
	lists    *lists
	devices  *devices
	uploads  *uploads
	lines    *lineWriter
	deadline time.Duration
	checks   []web.Check
}

// New returns a server. Close ends it.
func New(o Options) *Server {
	respond := web.Responder{Faults: faults, Problem: conflict}
	g := &gate{
		Responder: respond, records: o.Records, tokens: o.Tokens, throttle: web.NewThrottle(o.Now), log: o.Log, now: o.Now,
		sessions: &sessions{records: o.Records, now: o.Now, deadline: o.Deadline, known: map[sessionKey]*session{}},
	}
	v := &values{store: series.NewCached(newMeasured(o.Series, o.Registry)), records: o.Records, now: o.Now}
	v.store.Now = o.Now
	return &Server{
		gate: g, values: v, diagrams: &diagrams{o.Records, g}, lists: &lists{o.Records}, devices: &devices{o.Messages, g},
		uploads: &uploads{
			objects: o.Objects, files: &web.Files{Responder: respond, Store: o.Objects, Deadline: o.Deadline},
			keys: o.Uploads, limit: o.MaxUpload, behindProxy: o.BehindProxy, storeTime: o.StoreTime,
		},
		lines:    &lineWriter{respond, o.Series, o.Records, o.WriteToken, o.Now},
		deadline: o.Deadline,
		checks: []web.Check{
			{Name: "records", Concern: concern, Ask: o.Records.Ping}, {Name: "series", Concern: concern, Ask: o.Series.Ping},
			{Name: "messages", Concern: concern, Ask: o.Messages.Ping},
		},
	}
}

// Headers are those that web pages may send and Exposed those that they may read,
// besides the usual ones.
var (
	Headers = []string{"accesskey", "secretkey"}
	Exposed = []string{truncatedHeader}
)

// Routes adds the routes. Uploads, and lines of time series, take as long as their
// bytes need.
func (s *Server) Routes(r chi.Router) {
	limited := r.With(web.LimitTime(s.deadline))
	get := func(path string, h func(*http.Request, caller) (any, error)) { limited.Get(path, s.gate.private(h)) }
	post := func(path string, h func(*http.Request, caller) (any, error)) { limited.Post(path, s.gate.private(h)) }
	limited.Post("/loginPartner", s.gate.Open(s.gate.login))
	post("/seriesDataTs", s.values.series)
	post("/dataTs", s.values.current)
	post("/multipleDataTs", s.values.batch)
	get("/getObjectCanva", s.diagrams.get)
	post("/saveDiagram", s.diagrams.save)
	get("/getVarsTs", s.lists.variables)
	get("/getConfigNotify", s.lists.notifyConfig)
	post("/sendConfigMQTT", s.devices.publish)
	get("/getAllMenu", s.lists.menus)
	get("/getPermission", s.lists.permissions)
	get("/indicatorCharts", s.lists.charts)
	r.Post("/upload", s.uploads.upload)
	r.Get("/uploads/*", s.uploads.serve)
	r.Head("/uploads/*", s.uploads.serve)
	r.Post("/v2/write", s.lines.write) // below /api it is InfluxDB's own address
}

// concern is what /readyz calls this side of the server.
const concern = "monitoring"

// Checks are the health of what monitoring depends on. The object store is no part of
// it: without it only uploads fail.
func (s *Server) Checks() []web.Check { return s.checks }

// Close ends the queries that run. The stores stay open.
func (s *Server) Close() { s.values.store.Close() }

// conflict returns what a saved object conflicts with, which the client can resolve.
func conflict(err error) string {
	if found := (*record.ConflictError)(nil); errors.As(err, &found) {
		return found.Error()
	}
	return ""
}

// faults are what clients are told of back-end errors, most specific first.
var faults = []web.Fault{
	{Is: record.ErrUnavailable, Sentence: "the records can't be reached at the moment"},
	{Is: series.ErrUnavailable, Sentence: "the time-series database can't be reached at the moment"},
	{Is: series.ErrNoDatabase, Sentence: "the time-series database of this client does not exist"},
	{Is: series.ErrTooLarge, Sentence: "the answer would be too large: ask for less at a time"},
	{Is: mqtt.ErrUnavailable, Sentence: "the message broker can't be reached at the moment: nothing was sent"},
	{Is: mqtt.ErrTooLarge, Sentence: "the message is larger than the broker takes: nothing was sent"},
	{Is: mqtt.ErrUnknown, Sentence: "the message broker did not acknowledge the message in time: it may have been delivered, or not"},
}
