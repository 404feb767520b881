package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"tsmon/api/monitor/token"
	"tsmon/api/web"
	"tsmon/store/record"
)

type (
	tenant = record.Tenant
	user   = record.User
)

// caller is who asks: a user and its tenant, as they were at most a minute ago.
type caller struct {
	tenant tenant
	user   user
}

// gate lets users in: by login, by token and by permission. It keeps the audit.
type gate struct {
	web.Responder
	records  record.Store
	tokens   *token.Keys
	sessions *sessions
	throttle *web.Throttle
	log      *slog.Logger
	now      func() time.Time
}

// private serves a route that needs a token. The handler returns the answer's body.
func (g *gate) private(h func(*http.Request, caller) (any, error)) http.HandlerFunc {
	return g.Open(func(r *http.Request) (any, error) {
		who, err := g.authenticate(r)
		if err != nil {
			return nil, err
		}
		web.NoteOf(r).SetUser(who.tenant.Schema, who.user.ID)
		return h(r, who)
	})
}

// authenticate returns who asks: 401 for a token that is not valid, another error
// if that can't be determined.
func (g *gate) authenticate(r *http.Request) (caller, error) {
	claims, err := g.tokens.Verify(web.Bearer(r))
	if err != nil {
		return caller{}, web.Unauthorized(err)
	}
	return g.sessions.find(r.Context(), claims)
}

// sessionTime is how long a looked-up user is used.
const sessionTime = time.Minute

// maxSessions bounds the remembered users, about.
const maxSessions = 10_000

// sessions caches users and their tenants.
type sessions struct {
	records  record.Store
	now      func() time.Time
	deadline time.Duration // of a look-up

	mu    sync.Mutex
	known map[sessionKey]*session
}

type sessionKey struct {
	schema string
	user   int64
}

// session is a user that was looked up, or is being so.
type session struct {
	done   chan struct{} // closed when the rest is set
	asked  time.Time
	caller caller
	err    error
}

// doubtTime is how long a looked-up user is used against a token that contradicts
// it, which may be newer.
const doubtTime = time.Second

// find returns the user named by the claims: 401 if the user, the tenant or the
// token's version has changed.
func (s *sessions) find(ctx context.Context, claims token.Claims) (caller, error) {
	key := sessionKey{claims.Schema, claims.User}
	found, err := s.lookup(ctx, key, sessionTime)
	if err == nil && !found.matches(claims) {
		found, err = s.lookup(ctx, key, doubtTime)
	}
	switch {
	case errors.Is(err, record.ErrNotFound), errors.Is(err, record.ErrName):
		return caller{}, web.Unauthorized(fmt.Errorf("user %d of %.80q: %w", claims.User, claims.Schema, err))
	case err != nil:
		return caller{}, err
	case !found.matches(claims):
		return caller{}, web.Unauthorized(fmt.Errorf("the token of user %d of %s was revoked", claims.User, claims.Schema))
	}
	return found, nil
}

// matches reports whether a token was issued to the user as it is now.
func (c caller) matches(claims token.Claims) bool {
	return !c.user.Disabled && c.user.TokenVersion == claims.Version && c.tenant.TsName == claims.TsName
}

// lookup asks the records, once for all that want the same user, unless they were
// asked less than age ago.
func (s *sessions) lookup(ctx context.Context, key sessionKey, age time.Duration) (caller, error) {
	s.mu.Lock()
	now := s.now()
	entry, ok := s.known[key]
	if ok {
		passed := now.Sub(entry.asked)
		ok = passed >= 0 && passed < age
	}
	if !ok {
		entry = &session{done: make(chan struct{}), asked: now}
		s.makeRoom(now)
		s.known[key] = entry
	}
	s.mu.Unlock()
	if !ok {
		s.ask(ctx, key, entry)
	}
	select {
	case <-entry.done:
		return entry.caller, entry.err
	case <-ctx.Done():
		return caller{}, ctx.Err()
	}
}

// ask completes a session. One that failed is dropped, so that the next request asks
// again.
func (s *sessions) ask(ctx context.Context, key sessionKey, entry *session) {
	defer close(entry.done)
	defer s.forget(key, entry)
	entry.err = errors.New("the look-up of the user broke off") // stands if the records panic
	// Others wait for it too: it must not end with the first client.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.deadline)
	defer cancel()
	tenant, tenantErr := s.records.Tenant(ctx, key.schema)
	user, userErr := s.records.UserByID(ctx, key.schema, key.user)
	entry.caller, entry.err = caller{tenant, user}, cmp.Or(tenantErr, userErr)
}

// forget drops a session that failed.
func (s *sessions) forget(key sessionKey, entry *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if entry.err != nil && s.known[key] == entry {
		delete(s.known, key)
	}
}

// makeRoom drops expired sessions, and all if that is not enough.
func (s *sessions) makeRoom(now time.Time) {
	if len(s.known) < maxSessions {
		return
	}
	for key, entry := range s.known {
		if now.Sub(entry.asked) >= sessionTime {
			delete(s.known, key)
		}
	}
	if len(s.known) >= maxSessions {
		clear(s.known)
	}
}

// permit returns nil if the caller has a grant of a menu item. If the tenant names
// none, only administrators pass.
func (g *gate) permit(ctx context.Context, who caller, menu int64, what string) error {
	if menu == 0 {
		if who.user.Admin {
			return nil
		}
		return web.Refuse(http.StatusForbidden, "you may not %s: no menu item is set for it, so only administrators may", what)
	}
	rows, err := g.records.Permissions(ctx, who.tenant.Schema, who.user.ID, who.user.Profile)
	if err != nil {
		return err
	}
	if !record.Granted(rows, menu) {
		return web.Refuse(http.StatusForbidden, "you may not %s: menu item %d is not granted to you", what, menu)
	}
	return nil
}

// An audit row may take the rest of its request's time within these bounds, which
// may exceed the request's deadline.
const (
	leastAudit = time.Second
	mostAudit  = 5 * time.Second
)

// audit records who did what. A failure goes to the log: the action is not undone.
func (g *gate) audit(r *http.Request, a record.Audit) {
	n := web.NoteOf(r)
	a.Time, a.Address, a.Request = g.now(), n.Address, n.ID
	a = a.Clean() // the log has bounds too
	length := mostAudit
	if until, ok := r.Context().Deadline(); ok {
		length = max(leastAudit, min(length, time.Until(until)))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), length)
	defer cancel()
	if err := g.records.Audit(ctx, a); err != nil {
		g.log.Error("audit row lost", "request", n.ID, "schema", a.Schema, "user", a.User, "action", a.Action, "target", a.Target, "ok", a.OK, "error", err)
	}
}
