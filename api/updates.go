package api

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"tsmon/channels"
	"tsmon/release"
	"tsmon/store/object"
)

// update serves one object of the update tree.
func (s *Server) update(w http.ResponseWriter, r *http.Request) {
	// The decoded path: chi's own parameter is escaped where the path has to be.
	_, key, _ := strings.Cut(r.URL.Path, "/updates/")
	if !served(key) {
		s.fail(w, r, refuse(http.StatusNotFound, "there is no such file"))
		return
	}
	s.serveObject(w, r, key, cacheControl(key), contentType(key))
}

// serveObject answers with an object of the store, or that the client has it.
func (s *Server) serveObject(w http.ResponseWriter, r *http.Request, key, cacheControl, contentType string) {
	body, info, err := s.Objects.Get(r.Context(), key)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, object.ErrBadKey) {
		s.fail(w, r, refuse(http.StatusNotFound, "there is no such file"))
		return
	}
	if err != nil {
		f := s.explain(r, err)
		f.status = http.StatusServiceUnavailable
		s.fail(w, r, f)
		return
	}
	defer body.Close()
	header := w.Header()
	header.Set("ETag", strconv.Quote(info.ETag))
	header.Set("Last-Modified", info.ModTime.UTC().Format(http.TimeFormat))
	header.Set("Cache-Control", cacheControl)
	header.Set("X-Content-Type-Options", "nosniff")
	if matches(r.Header.Get("If-None-Match"), info.ETag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.FormatInt(info.Size, 10))
	if r.Method == http.MethodHead {
		return
	}
	s.stream(w, r, key, body)
}

// stream copies a body; each piece may take writeTime, the whole as long as it
// takes.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, key string, body io.Reader) {
	buf := make([]byte, 128<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			allow(w)
			if _, err := w.Write(buf[:n]); err != nil {
				return // the client went away
			}
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			noteOf(r).failed(fmt.Errorf("%s broke off: %w", key, err))
			panic(http.ErrAbortHandler) // a short answer must not look whole
		}
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
