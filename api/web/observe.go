package web

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Note is what the log records of a request when it ends. It belongs to the
// request's goroutine.
type Note struct {
	ID string
	Origin
	Problems string // with some items of a request that succeeded
	Route    string // in metrics and log, if it says more than the pattern of the router
	schema   string
	user     int64
	cause    error
}

type noteKey struct{}

// NoteOf returns the note of a request that an Observer observes.
func NoteOf(r *http.Request) *Note { return r.Context().Value(noteKey{}).(*Note) }

// SetUser records who asks.
func (n *Note) SetUser(schema string, user int64) { n.schema, n.user = schema, user }

// Fail records why the request failed.
func (n *Note) Fail(cause error) { n.cause = cause }

// Exchange is a request being answered. It records the status and counts the bytes.
type Exchange struct {
	http.ResponseWriter
	Note
	began  time.Time
	status int       // 0 until it is written
	bytes  int64     // of the body
	header [1]string // X-Request-Id
}

// WriteHeader sends a status; only the first one counts, informational ones aside.
func (x *Exchange) WriteHeader(status int) {
	informs := status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
	if x.status != 0 && !informs {
		return
	}
	if !informs {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *Exchange) Write(p []byte) (int, error) {
	x.status = cmp.Or(x.status, http.StatusOK)
	n, err := x.ResponseWriter.Write(p)
	x.bytes += int64(n)
	return n, err
}

// ReadFrom lets the connection copy, which may leave it to the kernel.
func (x *Exchange) ReadFrom(r io.Reader) (int64, error) {
	x.status = cmp.Or(x.status, http.StatusOK)
	n, err := io.Copy(x.ResponseWriter, r)
	x.bytes += n
	return n, err
}

// Unwrap serves http.ResponseController.
func (x *Exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// Observer counts requests and writes the access log.
type Observer struct {
	behindProxy bool
	log         *slog.Logger
	requests    *prometheus.HistogramVec
	faults      prometheus.Counter
	warned      *sync.Once // of headers of a proxy

	mu    sync.RWMutex
	kinds map[kindKey]kind
}

// NewObserver returns an observer whose metrics are registered with registry.
// Behind a proxy the client's address is the one that the proxy reports.
func NewObserver(log *slog.Logger, registry prometheus.Registerer, behindProxy bool) *Observer {
	add := promauto.With(registry)
	return &Observer{
		log: log, behindProxy: behindProxy, warned: new(sync.Once), kinds: map[kindKey]kind{},
		requests: add.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tsmon_http_request_duration_seconds", Help: "Time that requests took, by route, method and status.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60, 600},
		}, []string{"route", "method", "status"}),
		faults: add.NewCounter(prometheus.CounterOpts{
			Name: "tsmon_http_faults_total", Help: "Requests that failed through the server or a back end: not for what the client sent, and not as busy.",
		}),
	}
}

// WarnOnce lets several observers share the warning of a proxy, which is then logged once.
func (o *Observer) WarnOnce(warned *sync.Once) { o.warned = warned }

// Begin assigns the request ID and resets the write deadline, which an earlier
// answer on the same connection may have left. An ID that the client sends is
// ignored: it would let clients write into our log.
func (o *Observer) Begin(w http.ResponseWriter, r *http.Request) *Exchange {
	x := &Exchange{ResponseWriter: w, began: time.Now()}
	extendDeadline(w, x.began)
	x.ID = newID()
	x.Origin = originOf(r, o.behindProxy)
	if name := forwarded(r); name != "" && !o.behindProxy {
		o.warned.Do(func() {
			o.log.Warn("a proxy passes requests on, and behind_proxy (TSMON_BEHIND_PROXY) is not set: all clients have its address", "header", name, "address", x.Address)
		})
	}
	x.header[0] = x.ID
	w.Header()["X-Request-Id"] = x.header[:]
	return x
}

// newID returns 16 hexadecimal digits. They are no secret.
func newID() string {
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], rand.Uint64())
	var id [16]byte
	hex.Encode(id[:], number[:])
	return string(id[:])
}

// Observe is the middleware that begins and finishes each request.
func (o *Observer) Observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := o.Begin(w, r)
		defer func() { o.Finish(x, r, routeOf(r)) }()
		next.ServeHTTP(x, r.WithContext(context.WithValue(r.Context(), noteKey{}, &x.Note)))
	})
}

// routeOf returns the pattern that a request matched, the same for both prefixes.
func routeOf(r *http.Request) string {
	pattern := chi.RouteContext(r.Context()).RoutePattern()
	if pattern == "/api" || strings.HasPrefix(pattern, "/api/") {
		pattern = strings.TrimPrefix(pattern, "/api")
	}
	if pattern == "" || pattern == "/*" {
		return "none"
	}
	return pattern
}

// Finish counts an answered request and logs it, without its query and headers,
// which may hold secrets.
func (o *Observer) Finish(x *Exchange, r *http.Request, route string) {
	x.status = cmp.Or(x.status, http.StatusOK)
	now := time.Now()
	took := now.Sub(x.began)
	kind := o.kindOf(cmp.Or(x.Route, route), r.Method, x.status)
	kind.count.Observe(took.Seconds())
	level := slog.LevelInfo
	if x.cause != nil && (x.status >= http.StatusInternalServerError || x.status == http.StatusOK) {
		level = slog.LevelError
		o.faults.Inc()
	}
	if !kind.log.Enabled(r.Context(), level) {
		return
	}
	line := slog.NewRecord(now, level, "request", 0) // without the source position
	line.AddAttrs(
		slog.String("request", x.ID), slog.String("path", loggedPath(r)), slog.Int64("bytes", x.bytes),
		slog.Float64("took_ms", float64(took.Microseconds())/1000), slog.String("address", x.Address),
	)
	if kind.otherMethod {
		line.AddAttrs(slog.String("method", r.Method))
	}
	if x.schema != "" {
		line.AddAttrs(slog.String("schema", x.schema), slog.Int64("user", x.user))
	}
	if x.cut(r) {
		line.AddAttrs(slog.Bool("cut", true))
	}
	if x.Problems != "" {
		line.AddAttrs(slog.String("problems", x.Problems))
	}
	if x.cause != nil {
		line.AddAttrs(slog.String("error", x.cause.Error()))
	}
	_ = kind.log.Handle(r.Context(), line) // a failing log can't be reported
}

// cut reports whether the answer ended before all of it was sent, because the client went away or
// the server ended.
func (x *Exchange) cut(r *http.Request) bool {
	length, err := strconv.ParseInt(x.Header().Get("Content-Length"), 10, 64)
	return err == nil && r.Method != http.MethodHead && x.status != http.StatusNotModified && x.bytes < length
}

// maxLoggedPath bounds the path in the log, in bytes.
const maxLoggedPath = 200

func loggedPath(r *http.Request) string {
	if len(r.URL.Path) > maxLoggedPath {
		return r.URL.Path[:maxLoggedPath] + "…"
	}
	return r.URL.Path
}

type kindKey struct {
	route, method string
	status        int
}

// kind is what requests of one route, method and status have in common. It is looked up and
// encoded once.
type kind struct {
	otherMethod bool // the server does not know the method
	count       prometheus.Observer
	log         slog.Handler // with the attributes of the kind
}

func (o *Observer) kindOf(route, method string, status int) kind {
	other := false
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions:
	default:
		method, other = "other", true // a client may write anything there
	}
	key := kindKey{route, method, status}
	o.mu.RLock()
	found, ok := o.kinds[key]
	o.mu.RUnlock()
	if ok {
		return found
	}
	attrs := []slog.Attr{slog.String("route", route), slog.Int("status", status)}
	if !other {
		attrs = append(attrs, slog.String("method", method))
	}
	found = kind{other, o.requests.WithLabelValues(route, method, strconv.Itoa(status)), o.log.Handler().WithAttrs(attrs)}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kinds[key] = found
	return found
}

// Recover answers 500 to a panic and leaves the server running.
func (o *Observer) Recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			found := recover()
			if found == nil {
				return
			}
			if found == http.ErrAbortHandler { //nolint:errorlint // net/http compares so too
				panic(found)
			}
			o.log.Error("panic", "request", NoteOf(r).ID, "found", fmt.Sprint(found), "stack", string(debug.Stack()))
			Responder{}.Fail(w, r, fmt.Errorf("panic: %v", found))
		}()
		next.ServeHTTP(w, r)
	})
}
