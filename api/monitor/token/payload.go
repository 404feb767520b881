package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

// payload is the claims of a JWT as encoded. Times are seconds since 1970.
type payload struct {
	Issuer    string `json:"iss"`
	Audience  string `json:"aud"`
	Subject   string `json:"sub"`
	IssuedAt  int64  `json:"iat"`
	NotBefore int64  `json:"nbf"`
	Expires   int64  `json:"exp"`
	ID        string `json:"jti"`
	Schema    string `json:"schemaName"`
	TsName    string `json:"ts_name"`
	Profile   int64  `json:"profile"`
	Version   int64  `json:"ver"`
}

// UnmarshalJSON requires every claim, by its exact name and with its type. It ignores
// others.
func (p *payload) UnmarshalJSON(text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	for _, claim := range []struct {
		name string
		to   any
	}{
		{"iss", &p.Issuer}, {"aud", &p.Audience}, {"sub", &p.Subject},
		{"iat", &p.IssuedAt}, {"nbf", &p.NotBefore}, {"exp", &p.Expires}, {"jti", &p.ID},
		{"schemaName", &p.Schema}, {"ts_name", &p.TsName}, {"profile", &p.Profile}, {"ver", &p.Version},
	} {
		raw, ok := members[claim.name]
		if !ok {
			return fmt.Errorf("the claim %s is missing", claim.name)
		}
		if string(raw) == "null" || json.Unmarshal(raw, claim.to) != nil {
			return fmt.Errorf("the claim %s is of the wrong type", claim.name)
		}
	}
	return nil
}

// claims returns the claims, after checking what the parser does not.
func (p payload) claims() (Claims, error) {
	user, err := strconv.ParseInt(p.Subject, 10, 64)
	switch {
	case err != nil || user < 1 || strconv.FormatInt(user, 10) != p.Subject:
		return Claims{}, errors.New("sub is not a positive whole number")
	case !isName(p.ID) || !isName(p.Schema) || !isName(p.TsName):
		return Claims{}, errors.New("jti, schemaName or ts_name is empty or not UTF-8")
	case p.Profile < 0 || p.Version < 0:
		return Claims{}, errors.New("profile or ver is below zero")
	case !isTime(p.IssuedAt) || !isTime(p.NotBefore) || !isTime(p.Expires):
		return Claims{}, errors.New("iat, nbf or exp is out of range")
	}
	issued, expires := time.Unix(p.IssuedAt, 0).UTC(), time.Unix(p.Expires, 0).UTC()
	if life := expires.Sub(issued); life <= 0 || life > lifetime+leeway {
		return Claims{}, fmt.Errorf("from iat to exp it is %v, at most %v", life, lifetime+leeway)
	}
	return Claims{
		Schema: p.Schema, TsName: p.TsName, User: user, Profile: p.Profile, Version: p.Version,
		ID: p.ID, Issued: issued, Expires: expires,
	}, nil
}

func isName(s string) bool { return s != "" && utf8.ValidString(s) }

// isTime reports whether a time lies between 1970 and 9999, where nothing overflows.
func isTime(seconds int64) bool { return seconds > 0 && seconds < 253402300800 }

// The following methods implement jwt.Claims.

func (p payload) GetExpirationTime() (*jwt.NumericDate, error) { return date(p.Expires) }
func (p payload) GetIssuedAt() (*jwt.NumericDate, error)       { return date(p.IssuedAt) }
func (p payload) GetNotBefore() (*jwt.NumericDate, error)      { return date(p.NotBefore) }
func (p payload) GetIssuer() (string, error)                   { return p.Issuer, nil }
func (p payload) GetSubject() (string, error)                  { return p.Subject, nil }
func (p payload) GetAudience() (jwt.ClaimStrings, error)       { return jwt.ClaimStrings{p.Audience}, nil }

func date(seconds int64) (*jwt.NumericDate, error) {
	return jwt.NewNumericDate(time.Unix(seconds, 0)), nil
}
