package updates

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tsmon/api/web"
	"tsmon/channels"
	"tsmon/store/object"
)

// file serves one file of the update tree: manifests from memory, records once they
// have verified, everything else as it is in the store.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	if !s.allowed(r) {
		s.Fail(w, r, web.Unauthorized(nil))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.Deadline)
	defer cancel()
	// The decoded path: chi's own parameter is escaped where the path has to be.
	_, key, _ := strings.Cut(r.URL.Path, "/updates/")
	channel, isManifest := strings.CutSuffix(key, manifestEnd)
	switch {
	case isManifest && channels.CheckName(channel) == nil:
		shown, err := s.Heads.of(ctx, channel)
		if err != nil {
			s.noDocument(w, r, err)
			return
		}
		web.ServeDocument(w, r, shown.Document, s.manifest)
		if c := s.Heads.channel(channel); c != nil {
			c.asks.Add(1)
		}
	case !isReleaseFile(key):
		s.Fail(w, r, web.Refuse(http.StatusNotFound, "there is no such file"))
	case isRecord(key):
		d, err := s.Heads.record(ctx, key)
		if err != nil {
			s.noDocument(w, r, err)
			return
		}
		web.ServeDocument(w, r, d, s.release)
	case s.redirects(r) && isBundle(key):
		s.sendElsewhere(w, key)
		s.downloaded(r, key, elsewhereTime)
	case s.Presigner != nil && isBundle(key) && r.Method == http.MethodGet: // to HEAD no such address answers
		if s.sendToStore(ctx, w, r, key) {
			s.downloaded(r, key, elsewhereTime)
		}
	default:
		if s.files.ServeObject(w, r, key, s.release, contentType(key)) && isBundle(key) {
			s.downloaded(r, key, 0)
		}
	}
}

// elsewhereTime is how long a client takes at least to get a bundle from elsewhere.
// It also allows for the clocks of servers that answer the same client.
const elsewhereTime = 10 * time.Second

// downloaded records that a client has a bundle, or will have it after some time.
func (s *Server) downloaded(r *http.Request, key string, after time.Duration) {
	if r.Method != http.MethodGet {
		return
	}
	parts := strings.Split(key, "/") // releases/VERSION/FILE
	s.Fleet.Downloaded(r.Context(), parts[1], parts[2], r.Header.Get(cohortHeader), after, client(r))
}

// noDocument answers why a manifest or record is not shown.
func (s *Server) noDocument(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errUnverified) {
		s.Fail(w, r, &web.Failure{Status: http.StatusServiceUnavailable, Cause: err,
			Messages: []string{"the file is there but does not verify (request " + web.NoteOf(r).ID + ")"}})
		return
	}
	s.files.NoObject(w, r, err)
}

var manifestEnd = strings.TrimPrefix(channels.ManifestKey("c"), "c")

// isReleaseFile reports whether a key is part of the update tree: not what is staged.
func isReleaseFile(key string) bool {
	return strings.HasPrefix(key, "releases/") && strings.Count(key, "/") == 2 && object.ValidKey(key) == nil
}

// isBundle reports whether a file of a release is a bundle, not a signature or record.
func isBundle(key string) bool {
	return !strings.HasSuffix(key, ".sig") && !strings.HasSuffix(key, ".json")
}

// redirects reports whether bundles are elsewhere, and not at the requested address,
// which would redirect clients for ever.
func (s *Server) redirects(r *http.Request) bool {
	if s.Elsewhere == nil {
		return false
	}
	return !strings.EqualFold(bareHost(web.ForwardedHost(r, s.BehindProxy)), bareHost(s.Elsewhere.Host))
}

// bareHost removes the default ports.
func bareHost(host string) string {
	return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80")
}

// sendElsewhere redirects to the public address of a bundle. It consists of the key
// alone: nothing of the request is passed on.
func (s *Server) sendElsewhere(w http.ResponseWriter, key string) {
	address := strings.TrimRight(s.Elsewhere.String(), "/")
	for segment := range strings.SplitSeq(key, "/") {
		address += "/" + url.PathEscape(segment)
	}
	found(w, address)
}

// presignedLife is how long a presigned address is valid: long enough for a client to
// begin its download, and to resume it.
const presignedLife = 15 * time.Minute

// sendToStore redirects to a presigned address of a bundle that exists, and reports
// whether it did. Whoever has the address can download the bundle: it goes to no log
// and no cache.
func (s *Server) sendToStore(ctx context.Context, w http.ResponseWriter, r *http.Request, key string) bool {
	_, err := s.Objects.Stat(ctx, key)
	if err != nil {
		s.files.NoObject(w, r, err)
		return false
	}
	address, err := s.Presigner.Presign(ctx, key, presignedLife)
	if err != nil {
		s.files.NoObject(w, r, err)
		return false
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	found(w, address.String())
	return true
}

// found redirects this one request.
func found(w http.ResponseWriter, address string) {
	header := w.Header()
	header.Set("Location", address)
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", "0")
	w.WriteHeader(http.StatusFound)
}

// contentType is that of a file that the store keeps.
func contentType(key string) string {
	switch {
	case strings.HasSuffix(key, ".json"):
		return "application/json"
	case strings.HasSuffix(key, ".sig"):
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}
