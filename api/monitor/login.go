package monitor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsmon/api/monitor/token"
	"tsmon/api/web"
	"tsmon/store/record"
)

// TokenDigest is how the records store a partner token. Plain SHA-256 is enough: a
// token is 256 random bits, which nobody guesses, so that the slow, salted hashes for
// passwords would only slow down logins.
func TokenDigest(tokenApp string) []byte {
	sum := sha256.Sum256([]byte(tokenApp))
	return sum[:]
}

type credentials struct {
	Email    string `json:"email"`
	TokenApp string `json:"tokenApp"`
	Schema   string `json:"schemaName"`
	TsName   string `json:"ts_name"`
}

// refusalTime is how long a failed login takes at least, so that its duration does
// not reveal what was wrong.
const refusalTime = 250 * time.Millisecond

// Values of the label of tsmon_logins_total.
const (
	loginOK        = "ok"
	loginRefused   = "refused"
	loginThrottled = "throttled"
)

func newLogins(registry prometheus.Registerer) *prometheus.CounterVec {
	logins := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tsmon_logins_total", Help: "Logins by result: ok, refused, throttled.",
	}, []string{"result"})
	registry.MustRegister(logins)
	for _, result := range []string{loginOK, loginRefused, loginThrottled} {
		logins.WithLabelValues(result)
	}
	return logins
}

// login issues a token. Whichever of the four members is wrong, the answer and the
// work are the same.
func (g *gate) login(r *http.Request) (any, error) {
	var c credentials
	if err := web.Decode(r, &c); err != nil {
		return nil, err
	}
	n := web.NoteOf(r)
	end, wait, err := g.Memory.throttle.Begin(r.Context(), n.Origin, c.Email)
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		g.logins.WithLabelValues(loginThrottled).Inc()
		return nil, &web.Failure{Status: http.StatusTooManyRequests, Wait: wait, Messages: []string{"too many failed logins: try again later"}}
	}
	refused := false
	ended := sync.OnceFunc(func() { end(refused) })
	defer ended() // of a panic, too
	refusal := time.NewTimer(refusalTime)
	defer refusal.Stop()
	who, err := g.find(r.Context(), c)
	refused = errors.As(err, new(*web.Failure))
	ended() // others need not wait for what follows
	if err != nil && !refused {
		return nil, err // nothing was learned
	}
	if err == nil || g.Memory.refusals.due(n.Address) {
		g.audit(r, record.Audit{Schema: c.Schema, User: c.Email, Action: "login", Target: c.TsName, OK: err == nil})
	}
	if refused {
		g.logins.WithLabelValues(loginRefused).Inc()
		select {
		case <-refusal.C:
		case <-r.Context().Done():
		}
		return nil, err
	}
	g.logins.WithLabelValues(loginOK).Inc()
	n.SetUser(who.tenant.Schema, who.user.ID)
	text, err := g.Tokens.Issue(token.Claims{
		Schema: who.tenant.Schema, TsName: who.tenant.TsName,
		User: who.user.ID, Profile: who.user.Profile, Version: who.user.TokenVersion,
	})
	return web.Data{Data: text}, err
}

// loginTime is how long the records may take for a login. It is short, so that users soon
// learn that the records don't answer.
const loginTime = 3 * time.Second

// find returns the user with these credentials, or 401.
func (g *gate) find(ctx context.Context, c credentials) (caller, error) {
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	tenant, tenantErr := g.Records.Tenant(ctx, c.Schema)
	user, userErr := g.Records.User(ctx, c.Schema, c.Email)
	hasToken := user.HasToken(TokenDigest(c.TokenApp))
	switch err := cmp.Or(tenantErr, userErr); {
	case errors.Is(err, record.ErrNotFound), errors.Is(err, record.ErrName), errors.Is(err, record.ErrInvalid):
	case err != nil:
		return caller{}, err
	case hasToken && !user.Disabled && tenant.TsName == c.TsName:
		return caller{tenant, user}, nil
	}
	return caller{}, &web.Failure{Status: http.StatusUnauthorized, Messages: []string{"the login was refused"}}
}
