// Package token issues and verifies the JWTs of the monitoring interface.
//
// The header of a token holds alg, typ (JWT) and kid and nothing else. Its claims,
// all of them required, are
//
//	iss, aud           tsmon
//	sub                ID of the user, a positive decimal number as text
//	iat, nbf, exp      whole seconds since 1970
//	jti                random
//	schemaName         schema of the tenant
//	ts_name            time-series database of the tenant
//	profile            profile of the user, 0 for none
//	ver                token version of the user when it was issued
//
// Other claims are ignored. A token lives for 12 h, clocks may differ by 30 s, and
// tokens of more than 8 KiB are refused. Single tokens can't be revoked here: the
// caller looks up whether the user still has the token version.
//
// The key file, which its owner and its group alone may read, holds one or two keys. The first, the
// newest, signs; both verify:
//
//	{"keys": [{"kid": "…", "alg": "EdDSA", "key": "…", "created": "2026-03-05T15:04:05Z"}]}
//
// key is base64url without padding: the 32-byte seed of an Ed25519 key (EdDSA) or a
// secret of at least 32 random bytes (HS256). created is optional. The package
// guarantees:
//
//   - A token is verified with the key of its kid and that key's algorithm, whatever
//     algorithm it names.
//   - Servers that start together without a file end up with the same key, and a crash
//     leaves the old file or the new one.
//   - A running server notices a rotation: it rereads the keys once a minute, and for
//     an unknown kid at most once a second. If that fails, it keeps its keys.
//   - Servers that share keys on a Shelf need not reach it to start, nor later.
//   - No error contains a token or part of a key.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	party    = "tsmon" // issuer and audience
	lifetime = 12 * time.Hour
	leeway   = 30 * time.Second
	maxToken = 8 << 10 // bytes
)

var (
	// ErrToken means that a token is refused. The error's text is for the log.
	ErrToken = errors.New("token refused")
	// ErrExpired means, besides ErrToken, that the token has expired.
	ErrExpired = errors.New("expired")
)

// Claims identify the bearer of a token.
type Claims struct {
	Schema  string // schemaName
	TsName  string // ts_name
	User    int64  // sub, positive
	Profile int64  // 0 for none
	Version int64  // token version of the user when it was issued

	// Set by Issue; Verify returns the times in UTC.
	ID      string // jti
	Issued  time.Time
	Expires time.Time
}

// Issue returns a token that is signed with the newest key and expires in 12 h. Claims
// that Verify would refuse are an error.
func (k *Keys) Issue(c Claims) (string, error) {
	now := k.Now()
	p := payload{
		Issuer: party, Audience: party, Subject: strconv.FormatInt(c.User, 10), ID: rand.Text(),
		IssuedAt: now.Unix(), NotBefore: now.Unix(), Expires: now.Add(lifetime).Unix(),
		Schema: c.Schema, TsName: c.TsName, Profile: c.Profile, Version: c.Version,
	}
	if _, err := p.claims(); err != nil {
		return "", fmt.Errorf("issue token: %w", err)
	}
	keys := k.current()
	if len(keys) == 0 {
		var failed error
		if keys, failed = k.reread(); failed != nil {
			return "", fmt.Errorf("issue token: %w: %w", ErrKeys, failed)
		}
	}
	newest := keys[0]
	t := jwt.NewWithClaims(newest.method, p)
	t.Header["kid"] = newest.Kid
	signed, err := t.SignedString(newest.private)
	if err == nil && len(signed) > maxToken {
		err = fmt.Errorf("%d bytes, at most %d", len(signed), maxToken)
	}
	if err != nil {
		return "", fmt.Errorf("issue token: %w", err)
	}
	return signed, nil
}

// Verify returns the claims of a token that one of the keys signed and that is valid
// now. Every error is ErrToken.
func (k *Keys) Verify(token string) (Claims, error) {
	c, err := k.verify(token)
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return Claims{}, fmt.Errorf("%w: %w", ErrToken, ErrExpired)
	case err != nil:
		return Claims{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	return c, nil
}

func (k *Keys) verify(token string) (Claims, error) {
	if len(token) > maxToken {
		return Claims{}, fmt.Errorf("%d bytes, at most %d", len(token), maxToken)
	}
	if strings.ContainsAny(token, "\r\n") { // package base64 skips them
		return Claims{}, errors.New("it contains a line break")
	}
	k.current()
	with := k.live.Load()
	id := sha256.Sum256([]byte(token))
	if v, ok := k.verified.Get(id); ok && v.with == with {
		if err := k.validator.Validate(v.payload); err != nil {
			return Claims{}, err
		}
		return v.claims()
	}
	var p payload
	if _, err := k.parser.ParseWithClaims(token, &p, k.keyFor); err != nil {
		return Claims{}, err
	}
	k.verified.Add(id, verified{with, p})
	return p.claims()
}

const maxVerified = 10_000 // tokens in the cache

// verified is a token whose signature was verified with some keys.
type verified struct {
	with *[]key
	payload
}

// keyFor returns the key that verifies the signature of t.
func (k *Keys) keyFor(t *jwt.Token) (any, error) {
	kid, _ := t.Header["kid"].(string)
	if len(t.Header) != 3 || t.Header["typ"] != "JWT" || kid == "" {
		return nil, errors.New("the header is not alg, typ JWT and kid")
	}
	found, err := k.find(kid)
	if err != nil {
		return nil, err
	}
	if t.Method.Alg() != found.Alg {
		return nil, fmt.Errorf("the key %s is for %s, not for %s", kid, found.Alg, t.Method.Alg())
	}
	return found.public, nil
}
