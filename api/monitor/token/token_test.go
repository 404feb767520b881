package token_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"tsmon/api/monitor/token"
)

func TestRoundTrip(t *testing.T) {
	k := known(t)
	k.Now = func() time.Time { return clock.Add(999 * time.Millisecond) }
	for _, want := range []token.Claims{
		ana(),
		{Schema: "a", TsName: "Señal <1> & \u2028", User: math.MaxInt64, Profile: math.MaxInt64, Version: math.MaxInt64},
		{Schema: "b", TsName: "b", User: 1},
	} {
		text, err := k.Issue(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.Verify(text)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.ID) < 22 {
			t.Errorf("jti %q is too short to be random", got.ID)
		}
		want.ID, want.Issued, want.Expires = got.ID, clock, clock.Add(12*time.Hour)
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	first, second := issue(t, k), issue(t, k)
	if first == second {
		t.Error("two tokens are the same")
	}
}

// TestShape looks at a token as another program would.
func TestShape(t *testing.T) {
	text := issue(t, known(t))
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		t.Fatalf("%d parts", len(parts))
	}
	var header, claims object
	for i, v := range []any{&header, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, v); err != nil {
			t.Fatal(err)
		}
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !ed25519.Verify(edKey.Public().(ed25519.PublicKey), []byte(parts[0]+"."+parts[1]), signature) {
		t.Errorf("signature does not verify: %v", err)
	}
	same(t, "header", header, edHeader())
	same(t, "claims", claims.with("jti", "one"), payload())
}

func same(t *testing.T, name string, got, want object) {
	t.Helper()
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	var plain object
	if err := json.Unmarshal(w, &plain); err != nil {
		t.Fatal(err)
	}
	if w, _ = json.Marshal(plain); !bytes.Equal(g, w) {
		t.Errorf("%s: %s, want %s", name, g, w)
	}
}

func TestIssueRefuses(t *testing.T) {
	k := known(t)
	for name, change := range map[string]func(*token.Claims){
		"no user":           func(c *token.Claims) { c.User = 0 },
		"negative user":     func(c *token.Claims) { c.User = -1 },
		"negative profile":  func(c *token.Claims) { c.Profile = -1 },
		"negative version":  func(c *token.Claims) { c.Version = -1 },
		"no schema":         func(c *token.Claims) { c.Schema = "" },
		"no ts_name":        func(c *token.Claims) { c.TsName = "" },
		"schema not UTF-8":  func(c *token.Claims) { c.Schema = "a\xff" },
		"ts_name not UTF-8": func(c *token.Claims) { c.TsName = "a\xff" },
		"too long":          func(c *token.Claims) { c.TsName = strings.Repeat("a", 8<<10) },
	} {
		c := ana()
		change(&c)
		if text, err := k.Issue(c); err == nil || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

func TestTimes(t *testing.T) {
	k := known(t)
	const leeway, life = 30 * time.Second, 12 * time.Hour
	for _, c := range []struct {
		name          string
		iat, nbf, exp time.Duration // from clock
		now           time.Duration
		want          string // empty if it is accepted
	}{
		{"fresh", 0, 0, life, 0, ""},
		{"just expired", 0, 0, life, life + leeway - 1, ""},
		{"expired", 0, 0, life, life + leeway, "expired"},
		{"long expired", 0, 0, life, 1000 * life, "expired"},
		{"issued a little ahead", leeway, 0, life, 0, ""},
		{"issued ahead", leeway + time.Second, 0, life, 0, "before issued"},
		{"not yet, a little", 0, leeway, life, 0, ""},
		{"not yet", 0, leeway + time.Second, life, 0, "not valid yet"},
		{"longest life", 0, 0, life + leeway, 0, ""},
		{"longer life", 0, 0, life + leeway + time.Second, 0, "from iat to exp"},
		{"years", 0, 0, 1000 * life, 0, "from iat to exp"},
		{"ends before it begins", 0, 0, -time.Second, 0, "from iat to exp"},
		{"ends as it begins", 0, 0, 0, 0, "from iat to exp"},
	} {
		at := func(d time.Duration) int64 { return clock.Add(d).Unix() }
		text := forgeEd(t, payload().with("iat", at(c.iat)).with("nbf", at(c.nbf)).with("exp", at(c.exp)))
		k.Now = func() time.Time { return clock.Add(c.now) }
		if c.want == "" {
			checkAccepted(t, c.name, k, text)
			continue
		}
		checkRefused(t, c.name, k, text, c.want)
		if _, err := k.Verify(text); errors.Is(err, token.ErrExpired) != (c.want == "expired") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestRememberedExpires wants that a token which was verified before ends on time.
func TestRememberedExpires(t *testing.T) {
	k := known(t)
	text := forgeEd(t, payload().with("exp", clock.Add(20*time.Second).Unix()))
	for _, after := range []time.Duration{0, 1, 50*time.Second - 1} {
		k.Now = func() time.Time { return clock.Add(after) }
		checkAccepted(t, after.String(), k, text)
	}
	k.Now = func() time.Time { return clock.Add(50 * time.Second) }
	checkRefused(t, "later", k, text, "expired")
	k.Now = func() time.Time { return clock.Add(-31 * time.Second) }
	checkRefused(t, "earlier", k, text, "not valid yet")
}

// TestForgedIsNotExpired wants that nobody but a key's holder is told of times.
func TestForgedIsNotExpired(t *testing.T) {
	k := known(t)
	text := issue(t, k)
	k.Now = func() time.Time { return clock.Add(24 * time.Hour) }
	broken := text[:strings.LastIndex(text, ".")+1] + base64url(make([]byte, 64))
	if _, err := k.Verify(broken); !errors.Is(err, token.ErrToken) || errors.Is(err, token.ErrExpired) {
		t.Errorf("got %v", err)
	}
}

func TestSignatures(t *testing.T) {
	k := known(t)
	ed, hs := byEd25519(edKey), byHS256(hsSecret)
	public := edKey.Public().(ed25519.PublicKey)
	checkAccepted(t, "Ed25519", k, forge(t, edHeader(), payload(), ed))
	checkAccepted(t, "HS256", k, forge(t, hsHeader(), payload(), hs))

	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	for _, c := range []struct {
		name   string
		header object
		sign   signer
		want   string
	}{
		{"none", edHeader().with("alg", "none"), noSignature, "signing method"},
		{"None", edHeader().with("alg", "None"), noSignature, "signing method"},
		{"none, signed", edHeader().with("alg", "none"), ed, "signing method"},
		{"no alg", edHeader().with("alg", absent), ed, "signing method"},
		{"alg a number", edHeader().with("alg", 1), ed, "signing method"},
		{"alg in lower case", edHeader().with("alg", "eddsa"), ed, "signing method"},
		{"HS512", hsHeader().with("alg", "HS512"), hs, "signing method"},
		{"RS256", edHeader().with("alg", "RS256"), ed, "signing method"},
		{"public key as secret", edHeader().with("alg", "HS256"), byHS256(public), "is for EdDSA"},
		{"public key's text as secret", edHeader().with("alg", "HS256"), byHS256([]byte(base64url(public))), "is for EdDSA"},
		{"seed as secret", edHeader().with("alg", "HS256"), byHS256(edSeed), "is for EdDSA"},
		{"EdDSA under the secret's kid", hsHeader().with("alg", "EdDSA"), ed, "is for HS256"},
		{"wrong key", edHeader(), byEd25519(other), "signature"},
		{"wrong secret", hsHeader(), byHS256([]byte("wrong")), "signature"},
		{"empty secret", hsHeader(), byHS256(nil), "signature"},
		{"no signature", edHeader(), noSignature, "signature"},
		{"no HMAC", hsHeader(), noSignature, "signature"},
		{"HMAC cut", hsHeader(), func(s string) []byte { return hs(s)[:16] }, "signature"},
		{"signature and more", edHeader(), func(s string) []byte { return append(ed(s), 0) }, "signature"},
		{"unknown kid", edHeader().with("kid", "who"), ed, `"who" is unknown`},
		{"the other kid", edHeader().with("kid", "hs"), ed, "is for HS256"},
		{"no kid", edHeader().with("kid", absent), ed, "header"},
		{"kid null", edHeader().with("kid", nil), ed, "header"},
		{"kid a list", edHeader().with("kid", []string{"ed"}), ed, "header"},
		{"no typ", edHeader().with("typ", absent), ed, "header"},
		{"other typ", edHeader().with("typ", "at+jwt"), ed, "header"},
		{"typ a list", edHeader().with("typ", []string{"JWT"}), ed, "header"},
		{"crit", edHeader().with("crit", []string{"b64"}), ed, "header"},
		{"a key in the header", edHeader().with("jwk", object{"kty": "OKP"}), ed, "header"},
	} {
		checkRefused(t, c.name, k, forge(t, c.header, payload(), c.sign), c.want)
	}
}

func TestClaims(t *testing.T) {
	k := known(t)
	for name := range payload() {
		checkRefused(t, "no "+name, k, forgeEd(t, payload().with(name, absent)), "claim "+name+" is missing")
		checkRefused(t, "upper case "+name, k,
			forgeEd(t, payload().with(name, absent).with(strings.ToUpper(name), payload()[name])), "claim "+name+" is missing")
		for _, wrong := range []any{nil, true, 1.5, []any{payload()[name]}, object{"a": 1}, []any{}} {
			checkRefused(t, "odd "+name, k, forgeEd(t, payload().with(name, wrong)), "claim "+name+" is of the wrong type")
		}
	}
	for _, name := range []string{"iat", "nbf", "exp", "profile", "ver"} {
		for _, wrong := range []any{"1", json.RawMessage("1e400"), json.RawMessage("9223372036854775808"), 1e300} {
			checkRefused(t, "odd "+name, k, forgeEd(t, payload().with(name, wrong)), "claim "+name+" is of the wrong type")
		}
	}
	for _, name := range []string{"iss", "aud", "sub", "jti", "schemaName", "ts_name"} {
		checkRefused(t, name+" a number", k, forgeEd(t, payload().with(name, 42)), "claim "+name+" is of the wrong type")
		checkRefused(t, name+" empty", k, forgeEd(t, payload().with(name, "")), "")
	}
	for _, name := range []string{"iat", "nbf", "exp"} {
		for _, wrong := range []int64{math.MinInt64, -1, 0, 253402300800, math.MaxInt64} {
			checkRefused(t, name, k, forgeEd(t, payload().with(name, wrong)), "")
		}
	}
	checkAccepted(t, "another claim", k, forgeEd(t, payload().with("admin", true)))
}

func TestValues(t *testing.T) {
	k := known(t)
	for _, c := range []struct {
		name  string
		value any
		want  string
	}{
		{"iss", "tsmon2", "issuer"}, {"iss", "TSMON", "issuer"}, {"iss", "tsmon ", "issuer"},
		{"aud", "other", "audience"}, {"aud", "tsmon,other", "audience"},
		{"aud", []string{"tsmon"}, "claim aud is of the wrong type"},
		{"sub", "0", "sub"}, {"sub", "-1", "sub"}, {"sub", "+1", "sub"}, {"sub", "042", "sub"}, {"sub", " 42", "sub"},
		{"sub", "42 ", "sub"}, {"sub", "4_2", "sub"}, {"sub", "0x2a", "sub"}, {"sub", "4.2", "sub"}, {"sub", "٤٢", "sub"},
		{"sub", "9223372036854775808", "sub"}, {"sub", "ana@example.com", "sub"},
		{"profile", -1, "profile"}, {"ver", -1, "ver"},
	} {
		checkRefused(t, c.name, k, forgeEd(t, payload().with(c.name, c.value)), c.want)
	}
}

// TestTampered changes every byte of a token, and its payload as a whole.
func TestTampered(t *testing.T) {
	k := known(t)
	text := issue(t, k)
	for i := range text {
		for _, b := range []byte("A_9.\n") {
			if text[i] != b {
				checkRefused(t, "a byte", k, text[:i]+string(b)+text[i+1:], "")
			}
		}
		checkRefused(t, "cut", k, text[:i], "")
		checkRefused(t, "line break", k, text[:i]+"\n"+text[i:], "")
	}
	for _, b := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
		if last := len(text) - 1; text[last] != b { // some differ in bits that are no part of the signature
			checkRefused(t, "the last byte", k, text[:last]+string(b), "")
		}
	}
	parts := strings.Split(text, ".")
	raw, err := json.Marshal(payload().with("schemaName", "otro"))
	if err != nil {
		t.Fatal(err)
	}
	checkRefused(t, "another payload", k, parts[0]+"."+base64url(raw)+"."+parts[2], "signature")
}

func TestGarbage(t *testing.T) {
	k := known(t)
	sign := byEd25519(edKey)
	good := issue(t, k)
	for name, text := range map[string]string{
		"nothing": "", "a dot": ".", "dots": "..", "many dots": strings.Repeat(".", 8000), "a word": "token",
		"bearer": "Bearer " + good, "a space before": " " + good, "a space after": good + " ", "line break": good + "\r\n",
		"four parts": good + ".x", "padded": good + "=", "NUL": good + "\x00", "twice": good + good,
		"not UTF-8": "\xff\xfe.\xff.\xff", "standard base64": strings.ReplaceAll(good, "-", "+") + "/",
		"header null":       forge(t, []byte("null"), payload(), sign),
		"header a list":     forge(t, []byte("[]"), payload(), sign),
		"header not JSON":   forge(t, []byte("{"), payload(), sign),
		"two headers":       forge(t, []byte(`{"alg":"EdDSA","typ":"JWT","kid":"ed"}{}`), payload(), sign),
		"payload null":      forgeEd(t, []byte("null")),
		"payload a list":    forgeEd(t, []byte("[]")),
		"payload a text":    forgeEd(t, []byte(`"tsmon"`)),
		"payload empty":     forgeEd(t, []byte("")),
		"payload deep":      forgeEd(t, bytes.Repeat([]byte("["), 5000)),
		"payload deep, two": forgeEd(t, []byte(`{"iss":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+"}")),
	} {
		checkRefused(t, name, k, text, "")
	}
	whole, err := json.Marshal(payload())
	if err != nil {
		t.Fatal(err)
	}
	checkRefused(t, "something after the payload", k, forgeEd(t, append(whole, "{}"...)), "")
}

func TestSize(t *testing.T) {
	k := known(t)
	limit := 0 // length of the longest token that is accepted
	for more := 5700; more < 6000; more++ {
		text := forgeEd(t, payload().with("more", strings.Repeat("a", more)))
		if len(text) > 8<<10 {
			checkRefused(t, "too long", k, text, "at most 8192")
			break
		}
		checkAccepted(t, "long", k, text)
		limit = len(text)
	}
	if limit < 8<<10-2 {
		t.Errorf("the longest token tried has %d bytes", limit)
	}
	checkRefused(t, "huge", k, strings.Repeat("a", 1<<20), "at most 8192")
}
