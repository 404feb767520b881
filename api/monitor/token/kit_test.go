package token_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsmon/api/monitor/token"
)

// clock is when the tests take place.
var clock = time.Date(2026, 3, 5, 15, 4, 5, 0, time.UTC)

// The keys of the file that most tests use: ed is in front, hs behind it.
var (
	edSeed   = bytes.Repeat([]byte("eD_0x!Qz"), 4)
	hsSecret = bytes.Repeat([]byte("hS~9w?Vk_7"), 4)
	edKey    = ed25519.NewKeyFromSeed(edSeed)
)

func base64url(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

func keyFile() string {
	return fmt.Sprintf(`{"keys":[
		{"kid":"ed","alg":"EdDSA","key":%q,"created":"2026-03-01T00:00:00Z"},
		{"kid":"hs","alg":"HS256","key":%q}
	]}`, base64url(edSeed), base64url(hsSecret))
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, path string) *token.Keys {
	t.Helper()
	k, err := token.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	k.Now = func() time.Time { return clock }
	return k
}

// known opens the keys ed and hs at the time of clock.
func known(t testing.TB) *token.Keys {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.json")
	write(t, path, keyFile())
	return open(t, path)
}

// ana is what is said of a bearer.
func ana() token.Claims {
	return token.Claims{Schema: "acueducto", TsName: "acueducto_ts", User: 42, Profile: 3, Version: 7}
}

func issue(t testing.TB, k *token.Keys) string {
	t.Helper()
	text, err := k.Issue(ana())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// checkRefused wants a refusal whose text holds why and nothing of the token.
func checkRefused(t *testing.T, name string, k *token.Keys, text, why string) {
	t.Helper()
	c, err := k.Verify(text)
	if !errors.Is(err, token.ErrToken) || c != (token.Claims{}) {
		t.Errorf("%s: %+v, %v", name, c, err)
		return
	}
	if !strings.Contains(err.Error(), why) {
		t.Errorf("%s: %q does not say %q", name, err, why)
	}
	for part := range strings.SplitSeq(text, ".") {
		if len(part) > 16 && strings.Contains(err.Error(), part[:16]) {
			t.Errorf("%s: %q shows the token", name, err)
		}
	}
}

func checkAccepted(t *testing.T, name string, k *token.Keys, text string) {
	t.Helper()
	c, err := k.Verify(text)
	if err != nil || c.User != 42 || c.Schema != "acueducto" {
		t.Errorf("%s: %+v, %v", name, c, err)
	}
}

// A signer signs what stands before the second dot of a token.
type signer func(text string) []byte

func byEd25519(key ed25519.PrivateKey) signer {
	return func(text string) []byte { return ed25519.Sign(key, []byte(text)) }
}

func byHS256(secret []byte) signer {
	return func(text string) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
}

// object is a JSON object whose members a test changes.
type object map[string]any

// with returns the object with one other member, without it if value is absent.
func (o object) with(name string, value any) object {
	changed := object{}
	for n, v := range o {
		changed[n] = v
	}
	if changed[name] = value; value == absent {
		delete(changed, name)
	}
	return changed
}

type nothing struct{}

var absent any = nothing{}

func edHeader() object { return object{"alg": "EdDSA", "typ": "JWT", "kid": "ed"} }
func hsHeader() object { return object{"alg": "HS256", "typ": "JWT", "kid": "hs"} }

// payload is what a token of ana at the time of clock holds.
func payload() object {
	return object{
		"iss": "tsmon", "aud": "tsmon", "sub": "42", "iat": clock.Unix(), "nbf": clock.Unix(),
		"exp": clock.Add(12 * time.Hour).Unix(), "jti": "one", "schemaName": "acueducto",
		"ts_name": "acueducto_ts", "profile": 3, "ver": 7,
	}
}

// forge makes a token of anything, without the library that the package uses.
func forge(t testing.TB, header, payload any, sign signer) string {
	t.Helper()
	var parts []string
	for _, v := range []any{header, payload} {
		raw, ok := v.([]byte)
		if !ok {
			var err error
			if raw, err = json.Marshal(v); err != nil {
				t.Fatal(err)
			}
		}
		parts = append(parts, base64url(raw))
	}
	text := strings.Join(parts, ".")
	return text + "." + base64url(sign(text))
}

// forgeEd makes a token that the key ed has signed.
func forgeEd(t testing.TB, payload any) string {
	t.Helper()
	return forge(t, edHeader(), payload, byEd25519(edKey))
}

func noSignature(string) []byte { return nil }
