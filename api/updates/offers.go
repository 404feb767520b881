package updates

import (
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"tsmon/api/web"
	"tsmon/channels"
	"tsmon/manifest"
)

// Headers by which a client identifies itself.
const (
	clientHeader = "X-Tsmon-Client" // any text that stays the same
	cohortHeader = "X-Tsmon-Cohort"
	maxClient    = 128 // bytes

	// showsHeader names the version that a channel shows to a client without an update. It is
	// above the client's own if no bundle suits the client's type.
	showsHeader = "X-Tsmon-Shows"
)

// offered is the dynamic form of a manifest, as the updater reads it.
type offered struct {
	Version   string    `json:"version"`
	Notes     string    `json:"notes"`
	PubDate   time.Time `json:"pub_date"`
	URL       string    `json:"url"`
	Signature string    `json:"signature"`
	manifest.Extra
}

// offer responds with a client's update, or with 204 if there is certainly none. In any doubt
// it responds with another status, so that the client asks its next endpoint.
func (s *Server) offer(w http.ResponseWriter, r *http.Request) {
	answer, err := s.decide(r)
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Add("Vary", clientHeader+", "+cohortHeader)
	switch {
	case err != nil:
		s.Fail(w, r, err)
	case answer.Offer == nil:
		header.Set(showsHeader, answer.Goal)
		w.WriteHeader(http.StatusNoContent)
	default:
		o := answer.Offer
		web.Send(w, r, http.StatusOK, offered{o.Version, o.Notes, o.PubDate, o.URL, o.Signature, answer.Extra})
	}
}

func (s *Server) decide(r *http.Request) (channels.Answer, error) {
	if !s.allowed(r) {
		return channels.Answer{}, web.Unauthorized(nil)
	}
	asks, err := readClient(r)
	if err != nil {
		return channels.Answer{}, err
	}
	offers, err := s.Heads.offersOf(r.Context(), chi.URLParam(r, "channel"))
	if err != nil {
		return channels.Answer{}, noChannel(r, err)
	}
	answer, err := offers.For(asks)
	switch {
	case err == nil:
		seen := answer
		if answer.Back {
			seen.Offer = nil // few clients install downgrades, and no rollout is judged by them
		}
		s.Fleet.Asked(r.Context(), chi.URLParam(r, "channel"), offers, asks, seen, client(r))
	case errors.Is(err, manifest.ErrTarget):
		return answer, web.Refuse(http.StatusNotFound, "the channel has nothing for %.100s", asks.Target)
	case errors.Is(err, manifest.ErrVersion):
		return answer, web.Invalid("%.100q is not a version", asks.Version)
	}
	return answer, err
}

// clientID returns the ID that a client sends, empty if there is none or it is too
// long.
func clientID(r *http.Request) string {
	if id := r.Header.Get(clientHeader); len(id) <= maxClient {
		return id
	}
	return ""
}

// noChannel returns the answer where a channel, or what it offers, could not be read.
func noChannel(r *http.Request, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return web.Refuse(http.StatusNotFound, "there is no such channel")
	}
	return &web.Failure{Status: http.StatusServiceUnavailable, Cause: err,
		Messages: []string{"what the channel offers can't be read, or does not verify (request " + web.NoteOf(r).ID + ")"}}
}

// readClient reads the client's version, platform and headers. It ignores an ID or cohort that
// is too long, and a bundle type that does not exist on the system.
func readClient(r *http.Request) (channels.Client, error) {
	var c channels.Client
	parts := map[string]string{}
	for _, name := range []string{"target", "arch", "version"} {
		// chi matches the path as it was sent.
		part, err := url.PathUnescape(chi.URLParam(r, name))
		if err != nil {
			return c, web.Invalid("%s is not well-formed", name)
		}
		parts[name] = part
	}
	c.Version = parts["version"]
	key, err := platform(parts["target"], parts["arch"])
	if err != nil {
		return c, web.Refuse(http.StatusNotFound, "%.100q is no platform", parts["target"]+"/"+parts["arch"])
	}
	c.Target, c.BundleType = key.Target(), r.URL.Query().Get("bundle_type")
	if c.Type() == "" {
		c.BundleType = key.Type
	}
	c.ID = clientID(r)
	if cohort := r.Header.Get(cohortHeader); cohort != "" && channels.CheckCohort(cohort) == nil {
		c.Cohort = cohort
	}
	return c, nil
}

// platform reads {{target}}/{{arch}}. The target is an operating system, or the key
// that the application sets with target(), which then counts as it does in a manifest.
func platform(target, arch string) (manifest.Key, error) {
	os, _, named := strings.Cut(target, "-")
	key, err := manifest.ParseKey(os + "-" + arch)
	switch {
	case err != nil || key.Type != "":
		return key, manifest.ErrKey
	case named:
		return manifest.ParseKey(target)
	}
	return key, nil
}
