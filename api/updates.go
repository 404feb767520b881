// Package api is the HTTP side of tsmon.
//
// Under /updates/ it shows the release store read-only, at the paths that the
// store itself has, so that a bucket and this server are interchangeable:
// CHANNEL/latest.json, and releases/VERSION/ with its bundles, signatures and
// record. The log, staged parts and uploads are no part of that tree. GET and
// HEAD are answered, with ETag and 304.
package api

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"tsmon/channels"
	"tsmon/release"
	"tsmon/store/object"
)

// Server answers the routes.
type Server struct {
	Objects object.Store
	Log     *slog.Logger
}

// Handler returns the routes, at / and at /api.
func (s *Server) Handler() http.Handler {
	routes := chi.NewRouter()
	routes.Get("/updates/*", s.update)
	routes.Head("/updates/*", s.update)
	root := chi.NewRouter()
	root.Use(middleware.Recoverer)
	root.Mount("/api", routes)
	root.Mount("/", routes)
	return root
}

// update serves one object of the update tree.
func (s *Server) update(w http.ResponseWriter, r *http.Request) {
	// The decoded path: chi's own parameter is escaped where the path has to be.
	_, key, _ := strings.Cut(r.URL.Path, "/updates/")
	if !served(key) {
		http.NotFound(w, r)
		return
	}
	body, info, err := s.Objects.Get(r.Context(), key)
	if err != nil {
		s.fail(w, r, key, err)
		return
	}
	defer body.Close()
	header := w.Header()
	header.Set("ETag", strconv.Quote(info.ETag))
	header.Set("Last-Modified", info.ModTime.UTC().Format(http.TimeFormat))
	header.Set("Cache-Control", cacheControl(key))
	header.Set("X-Content-Type-Options", "nosniff")
	if matches(r.Header.Get("If-None-Match"), info.ETag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", contentType(key))
	header.Set("Content-Length", strconv.FormatInt(info.Size, 10))
	if r.Method == http.MethodHead {
		return
	}
	s.stream(w, r, key, body)
}

// stream copies a body; each piece may take 30 s, the whole as long as it takes.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, key string, body io.Reader) {
	control := http.NewResponseController(w)
	buf := make([]byte, 128<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(30 * time.Second)) // unsupported by recorders alone
			if _, err := w.Write(buf[:n]); err != nil {
				return // the client went away
			}
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			s.Log.Error("object broke off", "key", key, "error", err)
			panic(http.ErrAbortHandler) // a short answer must not look whole
		}
	}
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, key string, err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, object.ErrBadKey):
		http.NotFound(w, r)
	case r.Context().Err() != nil:
	default:
		s.Log.Error("object not served", "key", key, "error", err)
		http.Error(w, "the update store does not answer", http.StatusServiceUnavailable)
	}
}

// served says which objects are part of the update tree.
func served(key string) bool {
	if object.ValidKey(key) != nil {
		return false
	}
	parts := strings.Split(key, "/")
	if parts[0] == "releases" {
		return len(parts) == 3
	}
	return len(parts) == 2 && channels.CheckName(parts[0]) == nil && key == channels.ManifestKey(parts[0])
}

// cacheControl is what the publisher gives to the same objects in a bucket.
func cacheControl(key string) string {
	if strings.HasPrefix(key, "releases/") {
		return release.CacheControl
	}
	return channels.CacheControl
}

func contentType(key string) string {
	switch {
	case strings.HasSuffix(key, ".json"):
		return "application/json"
	case strings.HasSuffix(key, ".sig"):
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// matches compares an If-None-Match header with an ETag, weakly.
func matches(header, etag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
		if candidate == "*" || candidate == strconv.Quote(etag) {
			return true
		}
	}
	return false
}
