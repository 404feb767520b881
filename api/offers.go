package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"

	"tsmon/channels"
	"tsmon/manifest"
)

// Headers by which a client says who it is.
const (
	clientHeader = "X-Tsmon-Client" // any text that stays the same
	cohortHeader = "X-Tsmon-Cohort"
	maxClient    = 128 // bytes
)

// offered is an answer in the dynamic form that the updater reads.
type offered struct {
	Version   string    `json:"version"`
	Notes     string    `json:"notes"`
	PubDate   time.Time `json:"pub_date"`
	URL       string    `json:"url"`
	Signature string    `json:"signature"`
	manifest.Extra
}

// offer answers one client by what it has: 200 with the update that there is for
// it, 204 only where it is sure that there is none. Whatever is in doubt is
// another status, so that the client asks its next endpoint.
func (s *Server) offer(w http.ResponseWriter, r *http.Request) {
	answer, err := s.decide(r)
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Add("Vary", clientHeader+", "+cohortHeader)
	switch {
	case err != nil:
		s.fail(w, r, err)
	case answer.Offer == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		o := answer.Offer
		s.send(w, r, http.StatusOK, offered{o.Version, o.Notes, o.PubDate, o.URL, o.Signature, answer.Extra})
	}
}

// decide finds out what a client is told.
func (s *Server) decide(r *http.Request) (channels.Answer, error) {
	if !s.mayUpdate(r) {
		return channels.Answer{}, unauthorized(nil)
	}
	client, err := readClient(r)
	if err != nil {
		return channels.Answer{}, err
	}
	offers, err := s.heads.offers(r.Context(), chi.URLParam(r, "channel"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return channels.Answer{}, refuse(http.StatusNotFound, "there is no such channel")
	case err != nil:
		return channels.Answer{}, unreadable(r, err)
	}
	answer, err := offers.For(client, s.Now())
	switch {
	case err == nil:
		who := s.installs.whoAsks(client.ID, noteOf(r).address)
		s.installs.checked(r.Context(), offers, chi.URLParam(r, "channel"), client, answer, who)
	case errors.Is(err, manifest.ErrTarget):
		return answer, refuse(http.StatusNotFound, "the channel has nothing for %.100s", client.Target)
	case errors.Is(err, manifest.ErrVersion):
		return answer, invalid("%.100q is not a version", client.Version)
	}
	return answer, err
}

// clientID is what a client calls itself, empty if it does not or if that is too
// long.
func clientID(r *http.Request) string {
	if id := r.Header.Get(clientHeader); len(id) <= maxClient {
		return id
	}
	return ""
}

// unreadable is the failure of a channel whose offers are not known.
func unreadable(r *http.Request, err error) error {
	return &failure{status: http.StatusServiceUnavailable, cause: err,
		messages: []string{"what the channel offers can't be read, or does not verify (request " + noteOf(r).id + ")"}}
}

// readClient reads who asks. An id or a cohort that is too long is none.
func readClient(r *http.Request) (channels.Client, error) {
	var c channels.Client
	parts := map[string]string{}
	for _, name := range []string{"target", "arch", "version"} {
		// The pattern is matched with the path as it was sent.
		part, err := url.PathUnescape(chi.URLParam(r, name))
		if err != nil {
			return c, invalid("%s is not well-formed", name)
		}
		parts[name] = part
	}
	c.Version = parts["version"]
	c.Target = parts["target"] + "-" + parts["arch"]
	if _, err := manifest.ParseKey(c.Target); err != nil {
		return c, refuse(http.StatusNotFound, "%.100q is no platform", c.Target)
	}
	c.BundleType = r.URL.Query().Get("bundle_type")
	c.ID = clientID(r)
	if cohort := r.Header.Get(cohortHeader); channels.CheckCohort(cohort) == nil {
		c.Cohort = cohort
	}
	return c, nil
}

// offers returns what a channel has for each client. The errors are those of of.
func (h *heads) offers(ctx context.Context, name string) (*channels.Offers, error) {
	if _, err := h.of(ctx, name); err != nil {
		return nil, err
	}
	c := (*h.known.Load())[name]
	if c == nil {
		return nil, fs.ErrNotExist // it was deleted again
	}
	shown, offers := c.head.Load(), c.offers.Load()
	if offers == nil || shown != nil && offers.Sequence < shown.sequence {
		return nil, errUnverified // of what the manifest shows the log is not known yet
	}
	return offers, nil
}

// lookAtLog brings what a channel offers up to date with its log, which is the
// truth also while the manifest, that is or is about to be shown, is behind it.
// What does not verify is not offered. The errors are the store's.
func (h *heads) lookAtLog(ctx context.Context, c *channel, shown *head) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	repository := channels.Repository{Store: h.store}
	moved, err := repository.Moved(ctx, c.log)
	if err != nil || !moved && c.offers.Load() != nil && c.offeredAt == shown.stored {
		return err
	}
	log, err := repository.Extend(ctx, c.log)
	key := channels.LogPrefix(c.name)
	if errors.Is(err, channels.ErrLog) {
		h.alarms.raise(key, shown.stored, err)
		return nil
	}
	if err != nil {
		return err
	}
	c.log = log
	if log.Head() == nil { // a manifest that was put there by other means
		log = &channels.Log{Channel: c.name, Entries: []channels.Entry{{Version: shown.version, Manifest: shown.manifest}}}
	}
	offers, err := channels.Compile(log, h.verify)
	if err != nil {
		h.alarms.raise(key, shown.stored, err)
	} else {
		h.alarms.clear(key)
	}
	if offers != nil {
		offers.Since = h.decided(c.offers.Load(), offers)
		c.offers.Store(offers)
	}
	c.offeredAt = shown.stored
	return nil
}

// decided is when the newest entry of a log was made, by our own clock where we
// saw it come.
func (h *heads) decided(before, now *channels.Offers) time.Time {
	switch at := h.now(); {
	case before == nil && now.Since.Before(at):
		return now.Since
	case before != nil && before.Sequence == now.Sequence:
		return before.Since
	default:
		return at
	}
}

// verify reports what is wrong with a manifest.
func (h *heads) verify(data []byte) error {
	if _, problems := manifest.Check(data, h.rules); len(problems) > 0 {
		return fmt.Errorf("%w", problems)
	}
	return nil
}

// allOffers returns what each channel offers, by its name, as far as is known.
func (h *heads) allOffers() map[string]*channels.Offers {
	all := map[string]*channels.Offers{}
	for name, c := range *h.known.Load() {
		if o := c.offers.Load(); o != nil {
			all[name] = o
		}
	}
	return all
}

// takeAsks returns how often each manifest was asked for since the last time.
func (h *heads) takeAsks() map[string]int64 {
	asks := map[string]int64{}
	for name, c := range *h.known.Load() {
		if n := c.asks.Swap(0); n > 0 {
			asks[name] = n
		}
	}
	return asks
}

// Due names the channels that somebody should bring up to date: their rollout has
// reached everybody by its steps, or their manifest is behind their log.
func (s *Server) Due() []string {
	var due []string
	for name, c := range *s.heads.known.Load() {
		shown, offers := c.head.Load(), c.offers.Load()
		if shown != nil && offers != nil && (offers.Due(s.Now()) || offers.Sequence > shown.sequence) {
			due = append(due, name)
		}
	}
	return due
}
