package updates

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"tsmon/api/fleet"
	"tsmon/api/web"
	"tsmon/channels"
	"tsmon/release"
)

// Publisher rehearses moves.
type Publisher = release.Publisher

// ReleasesOptions configure Releases.
type ReleasesOptions struct {
	Heads *Heads
	Fleet *fleet.Sightings
	// Guards judge releases; nil without guards.
	Guards *fleet.Guards
	// Publisher rehearses moves and reads the releases of the store. It signs nothing. If it is
	// nil, releases are not shown and moves are not rehearsed.
	Publisher   *Publisher
	Token       string        // bearer token of all routes; empty: only this machine gets answers
	Guesses     *web.Throttle // of the token
	BehindProxy bool          // a proxy is in front, so no request counts as local
	Deadline    time.Duration
	Log         *slog.Logger
	Now         func() time.Time
}

// Releases serve the data that people need before they move a channel, and rehearse moves. They
// write nothing.
type Releases struct {
	ReleasesOptions
	web.Responder
	answers    *answers
	rehearsing chan struct{} // one element for each rehearsal that runs
}

// maxRehearsals bounds the rehearsals that run at once: each reads the logs of all
// channels, and compares the bundles in the store.
const maxRehearsals = 2

// NewReleases returns the routes.
func NewReleases(o ReleasesOptions) *Releases {
	return &Releases{ReleasesOptions: o, answers: newAnswers(o.Now, o.Deadline), rehearsing: make(chan struct{}, maxRehearsals)}
}

// Routes adds the routes.
func (s *Releases) Routes(r chi.Router) {
	limited := r.With(web.LimitTime(s.Deadline))
	limited.Get("/releases/overview", s.admitted(s.overview))
	limited.Get("/releases/versions", s.admitted(s.published(s.versions)))
	limited.Get("/releases/versions/{version}", s.admitted(s.published(s.version)))
	limited.Get("/releases/channels/{channel}/adoption", s.admitted(s.adoption))
	limited.Get("/releases/channels/{channel}/log", s.admitted(s.entries))
	limited.Get("/releases/channels/{channel}/log/{sequence}", s.admitted(s.entry))
	limited.Get("/releases/channels/{channel}/plans", s.admitted(s.published(s.plans)))
	limited.Post("/releases/channels/{channel}/rehearse", s.admitted(s.published(s.rehearse)))
}

// admitted requires the token. If none is configured it requires that the request comes from
// this machine, and not from a page of another server that is open there.
func (s *Releases) admitted(h func(*http.Request) (any, error)) http.HandlerFunc {
	return s.Open(func(r *http.Request) (any, error) {
		if s.Token != "" {
			if err := s.checkToken(r); err != nil {
				return nil, err
			}
		} else if s.BehindProxy || !web.FromThisMachine(r) || web.OtherSite(r) {
			return nil, web.Refuse(http.StatusForbidden, "without server.console.token (TSMON_CONSOLE_TOKEN) releases are shown on the server's own machine alone")
		}
		body, err := h(r)
		return body, web.BadRequest(err)
	})
}

// published requires the Publisher.
func (s *Releases) published(h func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	if s.Publisher != nil {
		return h
	}
	return func(*http.Request) (any, error) {
		return nil, web.Refuse(http.StatusServiceUnavailable, "the releases of the store can't be read: the server's log says why")
	}
}

// checkToken returns an error unless a request has the right token. Wrong tokens are limited
// like failed logins, with the token in place of the e-mail address: so even behind a proxy
// that is not configured, wrong guesses lock out nobody who has the token.
func (s *Releases) checkToken(r *http.Request) error {
	token := web.Bearer(r)
	if token == "" { // nothing was guessed
		return web.Unauthorized(nil)
	}
	from, guess := web.NoteOf(r).Origin, fmt.Sprintf("%x", sha256.Sum256([]byte(token)))
	end, wait, err := s.Guesses.Begin(r.Context(), from, guess)
	if err != nil {
		return err
	}
	if wait > 0 {
		return &web.Failure{Status: http.StatusTooManyRequests, Wait: wait, Messages: []string{"too many wrong tokens: try again later"}}
	}
	good := web.SameSecret(token, s.Token)
	end(!good)
	if !good {
		return web.Unauthorized(nil)
	}
	return nil
}

// log returns the part of a channel's log that this server has read, which is empty for a
// configured channel that has none.
func (s *Releases) log(r *http.Request) (*channels.Log, error) {
	name := chi.URLParam(r, "channel")
	log, err := s.Heads.logOf(r.Context(), name)
	if err == nil {
		return log, nil
	}
	if s.Publisher != nil && !errors.Is(err, errUnverified) {
		if _, configured := s.Publisher.Policies[name]; configured {
			return s.Heads.knownLog(name), nil
		}
	}
	return nil, noChannel(r, err)
}

// answers caches responses briefly, so that many open pages cost as much as one.
type answers struct {
	now      func() time.Time
	deadline time.Duration
	asking   singleflight.Group
	kept     *lru.Cache[string, answer]
}

type answer struct {
	body any
	at   time.Time
}

const (
	// answerAge is how old an answer may be.
	answerAge  = 3 * time.Second
	maxAnswers = 100
)

func newAnswers(now func() time.Time, deadline time.Duration) *answers {
	kept, _ := lru.New[string, answer](maxAnswers) // fails for sizes below 1 only
	return &answers{now: now, deadline: deadline, kept: kept}
}

// get returns the result of find, or a cached one. find is called once for concurrent requests,
// with a context that does not end with any of them.
func (a *answers) get(ctx context.Context, key string, find func(context.Context) (any, error)) (any, error) {
	body, err, _ := a.asking.Do(key, func() (any, error) {
		if known, ok := a.kept.Get(key); ok {
			if age := a.now().Sub(known.at); age >= 0 && age < answerAge {
				return known.body, nil
			}
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.deadline)
		defer cancel()
		body, err := find(ctx)
		if err == nil {
			a.kept.Add(key, answer{body, a.now()})
		}
		return body, err
	})
	return body, err
}
