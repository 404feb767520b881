package monitor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"tsmon/api/monitor/token"
	"tsmon/store/record"
)

type (
	tenant = record.Tenant
	user   = record.User
)

// bearer returns the token of the Authorization header, empty if there is none
// or more than one.
func bearer(r *http.Request) string {
	sent := r.Header.Values("Authorization")
	if len(sent) != 1 {
		return ""
	}
	scheme, text, _ := strings.Cut(sent[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(text)
}

// sameSecret compares what was sent with what is wanted, in a time that depends
// on neither. Nothing is the same as a secret that is not set.
func sameSecret(sent, want string) bool {
	a, b := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && want != ""
}

// authenticate returns who asks. It is 401 for a token that is not good, and
// another error where that can't be found out.
func (s *Server) authenticate(r *http.Request) (caller, error) {
	claims, err := s.Tokens.Verify(bearer(r))
	if err != nil {
		return caller{}, unauthorized(err)
	}
	return s.sessions.find(r.Context(), claims)
}

// sessionTime is how long what was looked up of a user is believed.
const sessionTime = time.Minute

// maxSessions is about how many users are remembered.
const maxSessions = 10_000

// sessions remembers users and their tenants.
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

// doubtTime is how long what was looked up is believed against a token that says
// otherwise, which may be newer than it.
const doubtTime = time.Second

// find returns the user that claims name. 401 if the user, the tenant or the
// token's version is no longer what it was.
func (s *sessions) find(ctx context.Context, claims token.Claims) (caller, error) {
	key := sessionKey{claims.Schema, claims.User}
	found, err := s.lookup(ctx, key, sessionTime)
	if err == nil && !found.matches(claims) {
		found, err = s.lookup(ctx, key, doubtTime)
	}
	switch {
	case errors.Is(err, record.ErrNotFound), errors.Is(err, record.ErrName):
		return caller{}, unauthorized(fmt.Errorf("user %d of %.80q: %w", claims.User, claims.Schema, err))
	case err != nil:
		return caller{}, err
	case !found.matches(claims):
		return caller{}, unauthorized(fmt.Errorf("the token of user %d of %s was revoked", claims.User, claims.Schema))
	}
	return found, nil
}

// matches reports whether a token was issued to the user as it is.
func (c caller) matches(claims token.Claims) bool {
	return !c.user.Disabled && c.user.TokenVersion == claims.Version && c.tenant.TsName == claims.TsName
}

// lookup asks the records, unless what they said is younger than age, once for
// all that want the same user at a time.
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

// ask fills a session in. One that failed is forgotten, so that the next
// request asks again.
func (s *sessions) ask(ctx context.Context, key sessionKey, entry *session) {
	defer close(entry.done)
	defer s.forget(key, entry)
	entry.err = errors.New("the look-up of the user broke off") // stands if the records panic
	// Others wait for it: it must not end with the client that came first.
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

// makeRoom forgets sessions that are too old, and if that is not enough all.
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

// permit is nil if the caller has a grant of a menu item. Where the tenant
// names none, only administrators pass.
func (s *Server) permit(ctx context.Context, who caller, menu int64, what string) error {
	if menu == 0 {
		if who.user.Admin {
			return nil
		}
		return refuse(http.StatusForbidden, "you may not %s: no menu item is set for it, so only administrators may", what)
	}
	rows, err := s.Records.Permissions(ctx, who.tenant.Schema, who.user.ID, who.user.Profile)
	if err != nil {
		return err
	}
	if !record.Granted(rows, menu) {
		return refuse(http.StatusForbidden, "you may not %s: menu item %d is not granted to you", what, menu)
	}
	return nil
}

// A row of the audit may take what is left of its request's time within these
// bounds, which are the only wait past a request's deadline.
const (
	leastAudit = time.Second
	mostAudit  = 5 * time.Second
)

// audit keeps who did what. That it could not be kept goes to the log: what was
// done is done.
func (s *Server) audit(r *http.Request, a record.Audit) {
	n := noteOf(r)
	a.Time, a.Address, a.Request = s.Now(), n.address, n.id
	a = a.Clean() // the log has bounds too
	length := mostAudit
	if until, ok := r.Context().Deadline(); ok {
		length = max(leastAudit, min(length, time.Until(until)))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), length)
	defer cancel()
	if err := s.Records.Audit(ctx, a); err != nil {
		s.Log.Error("audit row lost", "request", n.id, "schema", a.Schema, "user", a.User, "action", a.Action, "target", a.Target, "ok", a.OK, "error", err)
	}
}
