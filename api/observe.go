package api

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// note is what the log and the metrics say of a request when it ends. It
// belongs to the request's goroutine.
type note struct {
	id      string
	address string // of the client
	schema  string
	user    int64
	cause   error
}

type noteKey struct{}

func noteOf(r *http.Request) *note { return r.Context().Value(noteKey{}).(*note) }

func (n *note) who(c caller) { n.schema, n.user = c.tenant.Schema, c.user.ID }

func (n *note) failed(cause error) { n.cause = cause }

// exchange is a request on its way, and what becomes of it.
type exchange struct {
	http.ResponseWriter
	note
	began  time.Time
	status int       // 0 until it is written
	bytes  int64     // of the body
	header [1]string // X-Request-Id
}

// meet gives a request its id. One that a client brings is not taken over: it
// would be that client's word in our log. It also puts off the deadline that an
// answer before on the same connection has left.
func (s *Server) meet(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{ResponseWriter: w, began: time.Now()}
	allowFrom(w, x.began)
	x.id = newID()
	x.address = s.address(r)
	x.header[0] = x.id
	w.Header()["X-Request-Id"] = x.header[:]
	return x
}

// newID is 16 hexadecimal digits: a name, and proof of nothing.
func newID() string {
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], rand.Uint64())
	var id [16]byte
	hex.Encode(id[:], number[:])
	return string(id[:])
}

// WriteHeader sends a status, the first one that there is.
func (x *exchange) WriteHeader(status int) {
	informs := status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
	if x.status != 0 && !informs {
		return
	}
	if !informs {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.ResponseWriter.Write(p)
	x.bytes += int64(n)
	return n, err
}

// ReadFrom leaves the copying to the connection, which may leave it to the
// kernel.
func (x *exchange) ReadFrom(r io.Reader) (int64, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := io.Copy(x.ResponseWriter, r)
	x.bytes += n
	return n, err
}

// Unwrap serves http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// address is that of the client: of the connection, or what the proxy in front
// says that it was.
func (s *Server) address(r *http.Request) string {
	if s.BehindProxy {
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		if last, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-1])); err == nil {
			return last.String()
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// observe notes each request, counts it and writes it to the log.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := s.meet(w, r)
		defer func() { s.part(x, r, routeOf(r)) }()
		next.ServeHTTP(x, r.WithContext(context.WithValue(r.Context(), noteKey{}, &x.note)))
	})
}

// routeOf is the pattern that a request matched, the same for both prefixes.
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

// part counts a request that was answered and writes it to the log: neither its
// query nor its headers, which may hold secrets.
func (s *Server) part(x *exchange, r *http.Request, route string) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	now := time.Now()
	took := now.Sub(x.began)
	kind := s.kinds.of(route, r.Method, x.status)
	kind.count.Observe(took.Seconds())
	level := slog.LevelInfo
	if x.cause != nil && x.status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	if !kind.log.Enabled(r.Context(), level) {
		return
	}
	line := slog.NewRecord(now, level, "request", 0) // there is no use in the place of this call
	line.AddAttrs(slog.String("request", x.id), slog.Int64("bytes", x.bytes), slog.Duration("took", took), slog.String("address", x.address))
	if kind.other {
		line.AddAttrs(slog.String("method", r.Method))
	}
	if x.schema != "" {
		line.AddAttrs(slog.String("schema", x.schema), slog.Int64("user", x.user))
	}
	if x.cause != nil {
		line.AddAttrs(slog.String("error", x.cause.Error()))
	}
	_ = kind.log.Handle(r.Context(), line) // there is nowhere to complain
}

// kinds remembers what requests of one route, method and status have in common,
// so that it is not looked up and spelled out for each. There are as many as the
// server has routes and statuses.
type kinds struct {
	metrics *metrics
	log     slog.Handler

	mu    sync.RWMutex
	known map[kindKey]kind
}

type kindKey struct {
	route, method string
	status        int
}

type kind struct {
	other bool // a method that the server does not know
	count prometheus.Observer
	log   slog.Handler // with the beginning of the line
}

func (k *kinds) of(route, method string, status int) kind {
	other := false
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions:
	default:
		method, other = "other", true // a client may write anything there
	}
	key := kindKey{route, method, status}
	k.mu.RLock()
	found, ok := k.known[key]
	k.mu.RUnlock()
	if ok {
		return found
	}
	attrs := []slog.Attr{slog.String("route", route), slog.Int("status", status)}
	if !other {
		attrs = append(attrs, slog.String("method", method))
	}
	found = kind{other, k.metrics.requests.WithLabelValues(route, method, strconv.Itoa(status)), k.log.WithAttrs(attrs)}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known[key] = found
	return found
}

// recoverer answers a panic, which is a mistake of ours, and leaves the server
// running.
func (s *Server) recoverer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			found := recover()
			if found == nil {
				return
			}
			if found == http.ErrAbortHandler {
				panic(found)
			}
			s.Log.Error("panic", "request", noteOf(r).id, "found", fmt.Sprint(found), "stack", string(debug.Stack()))
			s.fail(w, r, fmt.Errorf("panic: %v", found))
		}()
		next.ServeHTTP(w, r)
	})
}
