package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"tsmon/api/monitor/token"
	"tsmon/api/web"
	"tsmon/store/record"
)

// caller is who asks: a user and its tenant, as they were at most a minute ago.
type caller struct {
	tenant record.Tenant
	user   record.User
}

// gate lets users in: by login, by token and by permission. It keeps the audit.
type gate struct {
	Options
	web.Responder
	lookups singleflight.Group // of users and their tenants
	logins  *prometheus.CounterVec
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
	claims, err := g.Tokens.Verify(web.Bearer(r))
	if errors.Is(err, token.ErrKeys) {
		return caller{}, err // 401 would log a user out whose token may be good
	}
	if err != nil {
		return caller{}, web.Unauthorized(err)
	}
	return g.session(r.Context(), claims)
}

const (
	sessionTime = time.Minute // how long a looked-up user is used
	doubtTime   = time.Second // the same against a token that contradicts it, which may be newer
	maxSessions = 10_000
)

type sessionKey struct {
	schema string
	user   int64
}

// session returns the user named by the claims: 401 if the user, the tenant or the
// token's version has changed.
func (g *gate) session(ctx context.Context, claims token.Claims) (caller, error) {
	key := sessionKey{claims.Schema, claims.User}
	found, err := g.lookup(ctx, key, sessionTime)
	if err == nil && !found.matches(claims) {
		found, err = g.lookup(ctx, key, doubtTime)
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

// lookup asks the records, once for all that want the same user at the same time,
// unless they were asked less than age ago.
func (g *gate) lookup(ctx context.Context, key sessionKey, age time.Duration) (caller, error) {
	if found, ok := g.Memory.sessions.last(key, age); ok {
		return found, nil
	}
	now, flight := g.Now(), strconv.FormatInt(key.user, 10)+" "+key.schema
	ask := func() (any, error) { return g.ask(ctx, key) }
	found, err, _ := g.lookups.Do(flight, ask)
	if err == nil && now.Sub(found.(dated[caller]).asked) >= age { // it began long before this call
		found, err, _ = g.lookups.Do(flight, ask)
	}
	return found.(dated[caller]).value, err
}

// ask reads a user and its tenant for all that wait: it does not end with the client
// that came first.
func (g *gate) ask(ctx context.Context, key sessionKey) (dated[caller], error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.Deadline)
	defer cancel()
	asked := g.Now()
	tenant, tenantErr := g.Records.Tenant(ctx, key.schema)
	user, userErr := g.Records.UserByID(ctx, key.schema, key.user)
	if err := cmp.Or(tenantErr, userErr); err != nil {
		return dated[caller]{}, err
	}
	found := dated[caller]{caller{tenant, user}, asked}
	g.Memory.sessions.values.Add(key, found)
	return found, nil
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
	rows, err := g.Records.Permissions(ctx, who.tenant.Schema, who.user.ID, who.user.Profile)
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

// A network gets a row for a failed login each refusedEvery: strangers would fill the
// records. The log has them all.
const (
	refusedEvery  = time.Minute
	maxRefusedNet = 100_000
)

// refusals are the networks from which a failed login was recorded.
type refusals struct {
	mu       sync.Mutex
	recorded *known[string, struct{}]
}

// due reports whether a failed login is recorded.
func (f *refusals) due(address string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	network := web.Network(address, 32, 64)
	_, recorded := f.recorded.last(network, refusedEvery)
	if !recorded {
		f.recorded.set(network, struct{}{})
	}
	return !recorded
}

// audit records who did what. A failure goes to the log: the action is not undone.
func (g *gate) audit(r *http.Request, a record.Audit) {
	n := web.NoteOf(r)
	a.Time, a.Address, a.Request = g.Now(), n.Address, n.ID
	a = a.Clean() // the log has bounds too
	length := mostAudit
	if until, ok := r.Context().Deadline(); ok {
		length = max(leastAudit, min(length, time.Until(until)))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), length)
	defer cancel()
	if err := g.Records.Audit(ctx, a); err != nil {
		g.Log.Error("audit row lost", "request", n.ID, "schema", a.Schema, "user", a.User, "action", a.Action, "target", a.Target, "ok", a.OK, "error", err)
	}
}
