package monitor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"time"

	"tsmon/api/monitor/token"
	"tsmon/store/record"
)

// TokenDigest is what the records know a partner token by.
//
// It is plain SHA-256: a token is 256 bits of randomness, which nobody finds by
// trying, so that the slow, salted hashes that passwords need would only make
// every login slow.
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

// refusalTime is the least that a failed login takes, so that how long it took
// does not tell what was wrong.
const refusalTime = 250 * time.Millisecond

// login issues a token. Whichever of the four members is wrong, the answer is
// the same, and so is the work that leads to it.
func (s *Server) login(r *http.Request) (any, error) {
	var c credentials
	if err := decode(r, &c); err != nil {
		return nil, err
	}
	n := noteOf(r)
	wait, err := s.guesses.begin(r.Context(), n.address, c.Email)
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		return nil, &failure{status: http.StatusTooManyRequests, wait: wait, messages: []string{"too many failed logins: try again later"}}
	}
	refused := false
	defer func() { s.guesses.end(n.address, c.Email, refused) }()
	refusal := time.NewTimer(refusalTime)
	defer refusal.Stop()
	who, err := s.find(r.Context(), c)
	if refused = errors.As(err, new(*failure)); err != nil && !refused {
		return nil, err // nothing was learned
	}
	s.audit(r, record.Audit{Schema: c.Schema, User: c.Email, Action: "login", Target: c.TsName, OK: err == nil})
	if refused {
		select {
		case <-refusal.C:
		case <-r.Context().Done():
		}
		return nil, err
	}
	n.who(who)
	text, err := s.Tokens.Issue(token.Claims{
		Schema: who.tenant.Schema, TsName: who.tenant.TsName,
		User: who.user.ID, Profile: who.user.Profile, Version: who.user.TokenVersion,
	})
	return data{text}, err
}

// find returns the user that credentials belong to, or 401.
func (s *Server) find(ctx context.Context, c credentials) (caller, error) {
	tenant, tenantErr := s.Records.Tenant(ctx, c.Schema)
	user, userErr := s.Records.User(ctx, c.Schema, c.Email)
	hasToken := user.HasToken(TokenDigest(c.TokenApp))
	switch err := cmp.Or(tenantErr, userErr); {
	case errors.Is(err, record.ErrNotFound), errors.Is(err, record.ErrName), errors.Is(err, record.ErrInvalid):
	case err != nil:
		return caller{}, err
	case hasToken && !user.Disabled && tenant.TsName == c.TsName:
		return caller{tenant, user}, nil
	}
	return caller{}, &failure{status: http.StatusUnauthorized, messages: []string{"the login was refused"}}
}
