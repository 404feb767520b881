package updates

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"tsmon/api/web"
	"tsmon/channels"
	"tsmon/release/library"
	"tsmon/store/object"
)

// file serves one file of the update tree: manifests and lists of downloads from memory, records
// if they verify, everything else as it is in the store.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	if !s.allowed(r) {
		s.Fail(w, r, web.Unauthorized(nil))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.Deadline)
	defer cancel()
	// The decoded path: chi's own parameter is escaped where the path has to be.
	_, key, _ := strings.Cut(r.URL.Path, "/updates/")
	web.NoteOf(r).Route = routeOf(key)
	if channel, ring, ok := manifestIn(key); ok {
		s.showManifest(ctx, w, r, channel, ring)
		return
	}
	if channel, ok := listIn(key); ok {
		s.list(ctx, w, r, channel)
		return
	}
	switch {
	case strings.HasSuffix(r.URL.Path, ReportPath):
		w.Header().Set("Allow", http.MethodPost)
		s.Fail(w, r, web.Refuse(http.StatusMethodNotAllowed, "this address takes POST only"))
	case !isReleaseFile(key), !library.IsRecord(key) && !s.named(ctx, key):
		s.Fail(w, r, web.Refuse(http.StatusNotFound, "there is no such file"))
	case library.IsRecord(key):
		d, err := s.record(ctx, key)
		if err != nil {
			s.noDocument(w, r, err)
			return
		}
		web.ServeDocument(w, r, d, s.release)
	case isBundle(key) && s.withholds(ctx, r, key):
		s.Fail(w, r, web.Refuse(http.StatusForbidden, "the release is paused: only clients that it was offered to get it"))
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

// named reports whether a file may be shown: if operators sign, the log of a channel must name
// it. Another server may have seen a new entry sooner, so named looks at the store once more,
// except for signatures, which only publishers ask for.
func (s *Server) named(ctx context.Context, name string) bool {
	known := !s.Heads.signed || s.inLogs(name)
	if known || strings.HasSuffix(name, ".sig") {
		return known
	}
	s.lookAgain(ctx)
	return s.inLogs(name)
}

// lookAgain waits until the channels were looked at again, if the store answers in time.
func (s *Server) lookAgain(ctx context.Context) { s.Look(ctx, s.Deadline/2) }

// Look returns once all channels were looked at again, or when patience is over.
func (s *Server) Look(ctx context.Context, patience time.Duration) {
	s.Heads.watch(ctx)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.Heads.rounds.await(ctx)
}

// record returns the record of a release. If the log of a channel has the version, it must be the
// record that the log names; if operators sign, no other record is shown.
func (s *Server) record(ctx context.Context, key string) (*web.Document, error) {
	d, named, err := s.Heads.record(ctx, key)
	if err == nil && !named {
		s.lookAgain(ctx)
		d, named, err = s.Heads.record(ctx, key)
	}
	if err == nil && !named && s.Heads.signed {
		err = fs.ErrNotExist
	}
	return d, err
}

// inLogs reports whether the log of some channel names an object.
func (s *Server) inLogs(name string) bool {
	for _, c := range *s.Heads.known.Load() {
		if offers := c.offers.Load(); offers != nil && offers.names.Object(name) {
			return true
		}
	}
	return false
}

// routeOf returns the route of a file for metrics and log, empty for that of the router.
func routeOf(key string) string {
	switch _, ring, ok := manifestIn(key); {
	case ok && ring == whole:
		return "/updates/{channel}" + manifestEnd
	case ok:
		return "/updates/{channel}/rings/{ring}" + manifestEnd
	case isReleaseFile(key) && isBundle(key):
		return "/updates/releases/{version}/{bundle}"
	case isReleaseFile(key):
		return "/updates/releases/{version}/{file}"
	}
	return ""
}

// whole is the ring of a manifest that is for the whole channel.
const whole = -1

// manifestIn returns the channel and the ring of a manifest's key.
func manifestIn(key string) (channel string, ring int, ok bool) {
	if channel, ring, ok = channels.RingIn(key); ok {
		return channel, ring, true
	}
	channel, ok = strings.CutSuffix(key, manifestEnd)
	return channel, whole, ok && channels.CheckName(channel) == nil
}

func (s *Server) showManifest(ctx context.Context, w http.ResponseWriter, r *http.Request, name string, ring int) {
	c, err := s.Heads.of(ctx, name)
	if err != nil {
		s.noDocument(w, r, err)
		return
	}
	d, err := c.document(ring)
	if err != nil {
		s.noDocument(w, r, err)
		return
	}
	web.ServeDocument(w, r, d, s.manifest)
	c.asks.Add(1)
}

// withholds reports whether a client must not get a bundle because its release is paused.
// Another server may have seen sooner that the rollout goes on and offered the bundle, so
// withholds looks at the store once more before it refuses a client.
func (s *Server) withholds(ctx context.Context, r *http.Request, key string) bool {
	cohort := r.Header.Get(cohortHeader)
	if channels.CheckCohort(cohort) != nil {
		cohort = ""
	}
	version, id := strings.Split(key, "/")[1], clientID(r)
	if !s.Heads.withholds(version, id, cohort) {
		return false
	}
	s.lookAgain(ctx)
	return s.Heads.withholds(version, id, cohort)
}

// downloaded records that a client has downloaded a bundle, or will have it after some time.
func (s *Server) downloaded(r *http.Request, key string, after time.Duration) {
	if r.Method != http.MethodGet {
		return
	}
	parts := strings.Split(key, "/") // releases/VERSION/FILE
	s.Fleet.Downloaded(r.Context(), parts[1], parts[2], r.Header.Get(cohortHeader), after, client(r))
}

// noDocument responds with the reason why a manifest or record is not shown.
func (s *Server) noDocument(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errUnverified) {
		s.Fail(w, r, &web.Failure{Status: http.StatusServiceUnavailable, Cause: err,
			Messages: []string{"the file is there but does not verify (request " + web.NoteOf(r).ID + ")"}})
		return
	}
	s.files.NoObject(w, r, err)
}

var manifestEnd = strings.TrimPrefix(channels.ManifestKey("c"), "c")

// isReleaseFile reports whether a key is part of the update tree; staged objects are not.
func isReleaseFile(key string) bool {
	return strings.HasPrefix(key, "releases/") && strings.Count(key, "/") == 2 && object.ValidKey(key) == nil
}

// isBundle reports whether a file of a release is a bundle, not a signature or record.
func isBundle(key string) bool {
	return !strings.HasSuffix(key, ".sig") && !strings.HasSuffix(key, ".json")
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
