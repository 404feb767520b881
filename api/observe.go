package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
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

// identify gives each request its id. One that a client brings is not taken
// over: it would be that client's word in our log.
func (s *Server) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		random := make([]byte, 8)
		rand.Read(random) // never fails
		n := &note{id: hex.EncodeToString(random), address: s.address(r)}
		w.Header().Set("X-Request-Id", n.id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), noteKey{}, n)))
	})
}

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

// observe counts each request and writes it to the log: neither its query nor
// its headers, which may hold secrets.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		wrapped := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			status := wrapped.Status()
			if status == 0 {
				status = http.StatusOK
			}
			route := routeOf(r)
			took := time.Since(began)
			s.metrics.seen(route, r.Method, status, took)
			s.logRequest(r, route, status, wrapped.BytesWritten(), took)
		}()
		next.ServeHTTP(wrapped, r)
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

func (s *Server) logRequest(r *http.Request, route string, status, bytes int, took time.Duration) {
	n := noteOf(r)
	attrs := []slog.Attr{
		slog.String("request", n.id), slog.String("method", r.Method), slog.String("route", route),
		slog.Int("status", status), slog.Int("bytes", bytes), slog.Duration("took", took), slog.String("address", n.address),
	}
	if n.schema != "" {
		attrs = append(attrs, slog.String("schema", n.schema), slog.Int64("user", n.user))
	}
	level := slog.LevelInfo
	if n.cause != nil {
		attrs = append(attrs, slog.String("error", n.cause.Error()))
		if status >= http.StatusInternalServerError {
			level = slog.LevelError
		}
	}
	s.Log.LogAttrs(r.Context(), level, "request", attrs...)
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
