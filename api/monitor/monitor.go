// Package monitor serves the monitoring interface: login, current values and series,
// diagrams, variables, menus, charts, messages to devices, uploads, and line protocol
// from clients of InfluxDB.
//
// A bearer token alone identifies the user; cookies are never read. The tenant comes
// from the token's claims. User and tenant are looked up again after at most a minute,
// which ends revoked rights. Invalid parameters and faults of the server are 500, as
// clients expect; a missing permission is 403, never 401, on which clients log their
// user out.
package monitor

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

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

	// Ping returns an error if the broker can't be reached.
	Ping(ctx context.Context) error
}

// KeyPair is the credentials of uploads.
type KeyPair struct{ Access, Secret string }

// Options are what a Server needs.
type Options struct {
	Objects  object.Store
	Records  record.Store
	Series   series.Store
	Messages Publisher
	Tokens   *token.Keys
	Memory   *Memory
	Registry prometheus.Registerer
	Log      *slog.Logger
	Now      func() time.Time

	Uploads     KeyPair       // empty: nothing can be uploaded
	MaxUpload   int64         // bytes
	WriteToken  string        // of /api/v2/write; empty: nothing can be written
	BehindProxy bool          // X-Forwarded-For and X-Forwarded-Proto can be trusted
	Deadline    time.Duration // for a request without files, and for a look-up of a user
	StoreTime   time.Duration // for an upload to reach the store
	KeepAudits  time.Duration // that audit rows are kept; 0: for ever
	KeepUploads time.Duration // that uploads are kept; 0: for ever
}

// Server serves the monitoring interface.
type Server struct {
	Options
	gate   *gate
	values *values
	writes *writes
	keeper *keeper
}

// New returns a server, which needs Close.
func New(o Options) *Server {
	g := &gate{Options: o, Responder: web.Responder{Faults: faults, Problem: conflict}, logins: newLogins(o.Registry)}
	v := &values{Options: o, store: series.NewCached(newMeasured(o.Series, o.Registry)), turns: newTurns(), room: semaphore.NewWeighted(maxHeld)}
	v.store.Now = o.Now
	w := &writes{records: o.Records, forget: []func(string){v.store.Forget}}
	if store, ok := o.Series.(interface{ Forget(database string) }); ok {
		w.forget = []func(string){store.Forget, v.store.Forget} // the cache last, which asks the store
	}
	return &Server{Options: o, gate: g, values: v, writes: w, keeper: &keeper{Options: o}}
}

// Headers are the request headers and Exposed the response headers that web pages may
// use, besides the usual ones.
var (
	Headers = []string{"accesskey", "secretkey"}
	Exposed = []string{truncatedHeader, problemsHeader, "Retry-After"}
)

// Routes adds the routes. Uploads and line protocol have deadlines of their own.
func (s *Server) Routes(r chi.Router) {
	diagrams, lists, devices := &diagrams{s.gate}, &lists{s.Options}, &devices{s.gate}
	uploads := &uploads{s.Options, &web.Files{Responder: s.gate.Responder, Store: s.Objects, Deadline: s.Deadline}}
	lines := &lineWriter{s.Options, s.gate.Responder}
	limited := r.With(web.LimitTime(s.Deadline))
	get := func(path string, h func(*http.Request, caller) (any, error)) { limited.Get(path, s.gate.private(h)) }
	post := func(path string, h func(*http.Request, caller) (any, error)) { limited.Post(path, s.gate.private(h)) }
	limited.Post("/loginPartner", s.gate.Open(s.gate.login))
	r.With(web.LimitTime(2*s.Deadline)).Post("/seriesDataTs", s.gate.private(s.values.series)) // whose answer begins in half of that
	post("/dataTs", s.values.current)
	post("/multipleDataTs", s.values.batch)
	get("/getObjectCanva", diagrams.get)
	post("/saveDiagram", diagrams.save)
	get("/getVarsTs", lists.saved)
	get("/getConfigNotify", lists.notifyConfig)
	post("/sendConfigMQTT", devices.publish)
	get("/getAllMenu", all(s.Records.Menus))
	get("/getPermission", lists.permissions)
	get("/indicatorCharts", all(s.Records.Charts))
	r.Post("/upload", uploads.upload)
	r.Get("/uploads/*", uploads.serve)
	r.Head("/uploads/*", uploads.serve)
	r.Post("/v2/write", lines.write) // below /api it is InfluxDB's own address
}

// concern is what /readyz calls this side of the server.
const concern = "monitoring"

// Checks are the health of what monitoring depends on. Without the object store only
// uploads fail.
func (s *Server) Checks() []web.Check {
	return []web.Check{
		{Name: "records", Concern: concern, Ask: s.Records.Ping, Write: s.Records.TryWrite},
		{Name: "series", Concern: concern, Ask: s.Series.Ping, Write: s.trySeries},
		{Name: "messages", Concern: concern, Ask: s.Messages.Ping},
		{Name: "uploads", Concern: concern, Partly: true, Write: s.tryUpload},
	}
}

// Watch starts what runs in the background: what commands write to the time series is seen
// within two seconds, and what has become too old is deleted. It ends with Close, not with ctx.
func (s *Server) Watch(ctx context.Context) {
	s.writes.loop.Start(ctx, writesInterval, s.writes.look)
	s.keeper.loop.Start(ctx, keepInterval, s.keeper.work)
}

// Close ends running queries and Watch. The stores stay open.
func (s *Server) Close() {
	s.writes.loop.Close()
	s.keeper.loop.Close()
	s.values.store.Close()
}

// conflict describes a conflict between saved objects, which the client can resolve.
func conflict(err error) string {
	if found, ok := errors.AsType[*record.ConflictError](err); ok {
		return found.Error()
	}
	return ""
}

// faults maps back-end errors to answers for clients, most specific first.
var faults = []web.Fault{
	{Is: record.ErrUnavailable, Sentence: "the records can't be reached at the moment"},
	{Is: series.ErrSlow, Sentence: "the time-series database did not answer in time: ask for less, or try again in a few seconds", Wait: busyWait},
	{Is: series.ErrUnavailable, Sentence: "the time-series database can't be reached at the moment"},
	{Is: series.ErrNoDatabase, Sentence: "the time-series database of this client does not exist"},
	{Is: series.ErrTooLarge, Sentence: "the answer would be too large: ask for less at a time"},
	{Is: mqtt.ErrUnavailable, Sentence: "the message broker can't be reached at the moment: nothing was sent"},
	{Is: mqtt.ErrTooLarge, Sentence: "the message is larger than the broker takes: nothing was sent"},
	{Is: mqtt.ErrUnknown, Sentence: "the message broker did not acknowledge the message in time: it may have been delivered, or not"},
	{Is: context.DeadlineExceeded, Sentence: "the server did not get the answer in time", Wait: busyWait},
}
