// Package token issues and verifies the JWTs of the monitoring interface.
//
// A token says which user of which tenant bears it. Its header holds alg, typ
// (JWT) and kid and nothing else; its claims are
//
//	iss, aud           tsmon
//	sub                id of the user, a positive decimal number as text
//	iat, nbf, exp      whole seconds since 1970
//	jti                random
//	schemaName         schema of the tenant
//	ts_name            time-series database of the tenant
//	profile            profile of the user, 0 for none
//	ver                token version of the user when it was issued
//
// All of them are required, aud as text; others are ignored. A token lives for
// 12 h, clocks may differ by 30 s, and 8 KiB is the most that is looked at.
//
// The keys lie in a file that nobody but its owner may read:
//
//	{"keys": [{"kid": "…", "alg": "EdDSA", "key": "…", "created": "2026-03-05T15:04:05Z"}]}
//
// One or two keys, the newest first: it signs, both verify. The member key is
// base64url without padding, of the 32-byte seed of an Ed25519 key (EdDSA) or of
// a secret of at least 32 random bytes (HS256, for installations that share
// one); created may be missing. What this package promises:
//
//   - A token is verified with the key of its kid and with that key's algorithm,
//     whatever algorithm it names.
//   - Servers that start at once on a missing file end up with the same key; a
//     crash leaves the file whole, old or new.
//   - A running server notices a rotation: a key that it does not know lets it
//     read the file again, at most once a second, and it reads the file once a
//     minute in any case. What can't be read then leaves the keys as they are.
//   - No error shows a token or a part of a key.
//
// Whether the user is still there, and still has that token version, is for the
// caller to look up. Single tokens are not revoked; two rotations end them all.
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
	party    = "tsmon" // who issues tokens, and whom they are for
	lifetime = 12 * time.Hour
	leeway   = 30 * time.Second
	maxToken = 8 << 10 // bytes
)

var (
	// ErrToken says that a token is not to be trusted; the text says why, and is
	// for the log.
	ErrToken = errors.New("token refused")
	// ErrExpired says, besides ErrToken, that the token's time is over.
	ErrExpired = errors.New("expired")
)

// Claims are what a token says of its bearer.
type Claims struct {
	Schema  string // schemaName
	TsName  string // ts_name
	User    int64  // sub, above zero
	Profile int64  // 0 for none
	Version int64  // token version of the user when it was issued

	// Issue sets these; Verify returns the times in UTC.
	ID      string // jti
	Issued  time.Time
	Expires time.Time
}

// Issue returns a token that is signed with the newest key and lives for 12 h
// from now. Claims that Verify would not accept are an error.
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
	newest := k.current()[0]
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

// Verify returns what a token says, if one of the keys signed it and its time
// has come and is not over. Every error is ErrToken.
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
		return Claims{}, errors.New("it holds a line break")
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

// options are how tokens are read, and judged by the clock now.
func options(now func() time.Time) []jwt.ParserOption {
	return []jwt.ParserOption{
		jwt.WithValidMethods([]string{algEdDSA, algHS256}), jwt.WithStrictDecoding(),
		jwt.WithIssuer(party), jwt.WithAudience(party), jwt.WithIssuedAt(),
		jwt.WithLeeway(leeway), jwt.WithTimeFunc(now),
	}
}

// maxVerified is how many verified tokens are cached.
const maxVerified = 10_000

// verified is a token whose signature was verified with some keys.
type verified struct {
	with *[]key
	payload
}

// keyFor returns what the signature of t is verified with.
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
