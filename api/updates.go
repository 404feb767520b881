package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tsmon/channels"
	"tsmon/release"
	"tsmon/store/object"
)

// update serves one file of the update tree: manifests from memory, records once
// they have verified, all else as it stands in the store.
func (s *Server) update(w http.ResponseWriter, r *http.Request) {
	if !s.mayUpdate(r) {
		s.fail(w, r, unauthorized(nil))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.deadline)
	defer cancel()
	// The decoded path: chi's own parameter is escaped where the path has to be.
	_, key, _ := strings.Cut(r.URL.Path, "/updates/")
	channel, isManifest := strings.CutSuffix(key, manifestEnd)
	switch {
	case isManifest && channels.CheckName(channel) == nil:
		shown, err := s.heads.of(ctx, channel)
		if err != nil {
			s.noDocument(w, r, err)
			return
		}
		s.serveDocument(w, r, shown.document, s.caches.manifest)
		if c := (*s.heads.known.Load())[channel]; c != nil {
			c.asks.Add(1)
		}
	case !isReleaseFile(key):
		s.fail(w, r, refuse(http.StatusNotFound, "there is no such file"))
	case isRecord(key):
		d, err := s.heads.record(ctx, key)
		if err != nil {
			s.noDocument(w, r, err)
			return
		}
		s.serveDocument(w, r, d, s.caches.release)
	case s.redirects(r) && isBundle(key):
		s.sendElsewhere(w, key)
		s.fetched(r, key, elsewhereTime)
	case s.Presigner != nil && isBundle(key) && r.Method == http.MethodGet: // to HEAD no such address answers
		if s.sendToStore(ctx, w, r, key) {
			s.fetched(r, key, elsewhereTime)
		}
	default:
		if s.serveObject(w, r, key, s.caches.release, contentType(key)) && isBundle(key) {
			s.fetched(r, key, 0)
		}
	}
}

// elsewhereTime is what a client is given to get a bundle from elsewhere, at the
// least. It also makes up for the clocks of servers that answer the same client.
const elsewhereTime = 10 * time.Second

// fetched notes that a client has a bundle, or will have after some time: it was
// told where to get it.
func (s *Server) fetched(r *http.Request, key string, after time.Duration) {
	if r.Method != http.MethodGet {
		return
	}
	parts := strings.Split(key, "/") // releases/VERSION/FILE
	version, file := parts[1], parts[2]
	var offering []countKey
	for name, o := range s.heads.allOffers() {
		if target, ok := o.TargetOf(version, file); ok {
			offering = append(offering, countKey{name, version, target, o.Cohort(r.Header.Get(cohortHeader))})
		}
	}
	if len(offering) > 0 {
		s.installs.fetched(r.Context(), offering, after, s.installs.whoAsks(clientID(r), noteOf(r).address))
	}
}

// short answers the request that there are most of, for a manifest in memory, by
// a shorter way than the routes have: neither the router nor the rules for web
// pages have anything to add to it. It is counted and logged like all others.
func (s *Server) short(routes http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, shown := s.atHand(r)
		if shown == nil {
			routes.ServeHTTP(w, r)
			return
		}
		x := s.meet(w, r)
		s.serveDocument(x, r, shown.document, s.caches.manifest)
		c.asks.Add(1)
		s.part(x, r, "/updates/*")
	})
}

// atHand returns the channel and the manifest that a request asks for, nil if it
// is not to be had by the short way.
func (s *Server) atHand(r *http.Request) (*channel, *head) {
	path, isManifest := strings.CutSuffix(r.URL.Path, manifestEnd)
	if !isManifest || r.URL.RawPath != "" || r.Method != http.MethodGet && r.Method != http.MethodHead || r.Header["Origin"] != nil || r.Header["Range"] != nil {
		return nil, nil
	}
	channel, isUpdate := strings.CutPrefix(strings.TrimPrefix(path, "/api"), "/updates/")
	if !isUpdate || !s.mayUpdate(r) {
		return nil, nil
	}
	if c := (*s.heads.known.Load())[channel]; c != nil {
		return c, c.head.Load()
	}
	return nil, nil
}

// mayUpdate compares the token, if there is one to be shown, in a time that does
// not depend on it.
func (s *Server) mayUpdate(r *http.Request) bool {
	if s.UpdatesToken == "" {
		return true
	}
	sent, want := sha256.Sum256([]byte(bearer(r))), sha256.Sum256([]byte(s.UpdatesToken))
	return subtle.ConstantTimeCompare(sent[:], want[:]) == 1
}

// noDocument answers why a manifest or a record is not shown.
func (s *Server) noDocument(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errUnverified) {
		s.fail(w, r, &failure{status: http.StatusServiceUnavailable, cause: err,
			messages: []string{"the file is there but does not verify (request " + noteOf(r).id + ")"}})
		return
	}
	s.noObject(w, r, err)
}

var manifestEnd = strings.TrimPrefix(channels.ManifestKey("c"), "c")

// isReleaseFile says which objects of releases are part of the update tree: not
// what was staged.
func isReleaseFile(key string) bool {
	return strings.HasPrefix(key, "releases/") && strings.Count(key, "/") == 2 && object.ValidKey(key) == nil
}

// isBundle says that a file of a release is none of those that describe it.
func isBundle(key string) bool {
	return !strings.HasSuffix(key, ".sig") && !strings.HasSuffix(key, ".json")
}

// redirects says that bundles are elsewhere, and not at the address that was
// asked, which would send clients in a circle.
func (s *Server) redirects(r *http.Request) bool {
	if s.Elsewhere == nil {
		return false
	}
	asked := r.Host
	if forwarded := r.Header.Get("X-Forwarded-Host"); s.BehindProxy && forwarded != "" {
		asked = forwarded
	}
	return !strings.EqualFold(bareHost(asked), bareHost(s.Elsewhere.Host))
}

// bareHost takes off the ports that addresses need not name.
func bareHost(host string) string {
	return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80")
}

// sendElsewhere redirects to where a bundle is. The address is made of the key
// alone: nothing that came with the request goes along.
func (s *Server) sendElsewhere(w http.ResponseWriter, key string) {
	address := strings.TrimRight(s.Elsewhere.String(), "/")
	for segment := range strings.SplitSeq(key, "/") {
		address += "/" + url.PathEscape(segment)
	}
	found(w, address)
}

// presignedLife is how long an address in the store may be gone to: long enough
// for a client to begin its download, and to take it up again.
const presignedLife = 15 * time.Minute

// sendToStore redirects to an address at which the store itself gives out a bundle
// that is there. Whoever has the address has the bundle, so that it is told to the
// client alone, and neither to a log nor to a cache. It reports whether it did.
func (s *Server) sendToStore(ctx context.Context, w http.ResponseWriter, r *http.Request, key string) bool {
	_, err := s.Objects.Stat(ctx, key)
	if err != nil {
		s.noObject(w, r, err)
		return false
	}
	address, err := s.Presigner.Presign(ctx, key, presignedLife)
	if err != nil {
		s.noObject(w, r, err)
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

// caches are the headers that say how long the files of the update tree may be
// kept: what the publisher gives to them in a bucket. What takes a token to get
// is for the client's own cache alone.
type caches struct{ manifest, release []string }

func cachesFor(private bool) caches {
	values := func(header string) []string {
		if private {
			header = strings.Replace(header, "public", "private", 1)
		}
		return []string{header}
	}
	return caches{values(channels.CacheControl), values(release.CacheControl)}
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
