package api

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"tsmon/api/monitor"
	"tsmon/api/monitor/token"
	"tsmon/store/record"
)

// forged are tokens that nobody issued, made of a good one.
func forged(tb testing.TB, good string) map[string]string {
	tb.Helper()
	parts := strings.Split(good, ".")
	claims := must[map[string]any](tb)(payload(good))
	var header struct{ Kid string }
	readJSON(tb, decodeSegment(parts[0]), &header)
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	sign := func(method jwt.SigningMethod, key any, claims map[string]any) string {
		t := jwt.NewWithClaims(method, jwt.MapClaims(claims))
		t.Header["kid"] = header.Kid
		return must[string](tb)(t.SignedString(key))
	}
	administrator := map[string]any{}
	for name, value := range claims {
		administrator[name] = value
	}
	administrator["sub"] = "2"
	changed := strings.Split(sign(jwt.SigningMethodEdDSA, other, administrator), ".")
	stranger := must[*token.Keys](tb)(token.Open(filepath.Join(tb.TempDir(), "keys", "token-keys.json")))
	issued := must[string](tb)(stranger.Issue(token.Claims{
		Schema: claims["schemaName"].(string), TsName: claims["ts_name"].(string), User: 1, Profile: 7, Version: int64(claims["ver"].(float64)),
	}))
	return map[string]string{
		"garbage":                   "garbage",
		"three words":               "a.b.c",
		"only dots":                 "..",
		"a long one":                strings.Repeat("a", 20_000),
		"other claims":              parts[0] + "." + changed[1] + "." + parts[2],
		"no signature":              parts[0] + "." + parts[1] + ".",
		"two parts":                 parts[0] + "." + parts[1],
		"half a signature":          good[:len(good)-40],
		"another letter":            good[:len(good)-10] + swapped(good[len(good)-10]) + good[len(good)-9:],
		"padding":                   good + "=",
		"a word after it":           good + " more",
		"a comma and it again":      good + ", " + good,
		"none":                      sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims),
		"none with a signature":     sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims) + parts[2],
		"a key of our name":         sign(jwt.SigningMethodEdDSA, other, claims),
		"a password of our name":    sign(jwt.SigningMethodHS256, []byte(header.Kid), claims),
		"a password of 32 nothings": sign(jwt.SigningMethodHS256, make([]byte, 32), claims),
		"keys of another server":    issued,
	}
}

// swapped is another letter of base64.
func swapped(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

func testHostileTokens(t *testing.T, w *world) {
	grants(t, w)
	server := w.serve(t)
	ana := w.as(t, server, w.ana)
	good := ana.token
	headers := map[string]http.Header{
		"nothing":           {},
		"empty":             {"Authorization": {""}},
		"the scheme alone":  {"Authorization": {"Bearer"}},
		"and a space":       {"Authorization": {"Bearer "}},
		"no scheme":         {"Authorization": {good}},
		"Basic":             {"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte("ana:"+good))}},
		"Basic, the token":  {"Authorization": {"Basic " + good}},
		"Token":             {"Authorization": {"Token " + good}},
		"two headers":       {"Authorization": {"Bearer " + good, "Bearer " + good}},
		"two, one bad":      {"Authorization": {"Bearer " + good, "Bearer x"}},
		"two, one empty":    {"Authorization": {"", "Bearer " + good}},
		"a cookie":          {"Cookie": {"token=" + good}},
		"a cookie, Bearer":  {"Cookie": {"Authorization=Bearer " + good + "; tokenPartner=" + good}, "Authorization": {"Bearer null"}},
		"another header":    {"X-Access-Token": {good}, "Proxy-Authorization": {"Bearer " + good}},
		"keys of uploads":   {"accesskey": {w.Uploads.Access}, "secretkey": {w.Uploads.Secret}},
		"token of writes":   {"Authorization": {"Token " + w.WriteToken}},
		"bearer of writes":  {"Authorization": {"Bearer " + w.WriteToken}},
		"the partner token": {"Authorization": {"Bearer " + w.ana.TokenApp}},
	}
	for name, text := range forged(t, good) {
		headers[name] = http.Header{"Authorization": {"Bearer " + text}}
	}
	nobody := client{tb: t, base: server.URL}
	for _, r := range privateRoutes(w) {
		for name, header := range headers {
			if !refused401(t, nobody.request(r, header)) {
				t.Errorf("%s with %s", r.path, name)
			}
		}
		for _, query := range []string{"token=", "access_token=", "Authorization=Bearer+", "tokenPartner="} {
			with := r
			with.path += map[bool]string{true: "&", false: "?"}[strings.Contains(r.path, "?")] + query + good
			refused401(t, nobody.request(with, nil))
		}
		if got := ana.request(r, nil); got.status != 200 {
			t.Errorf("%s with a good token: %d %s", r.path, got.status, got.body)
		}
		if got := nobody.request(r, http.Header{"Authorization": {"bearer  " + good}}); got.status != 200 {
			t.Errorf("%s with the scheme in small letters: %d", r.path, got.status)
		}
	}
}

// refused401 demands the answer that sends a client to its login.
func refused401(tb testing.TB, got answer) bool {
	tb.Helper()
	const want = `{"error":{"message":"the token is missing, expired or not valid","code":"UNAUTHORIZED"}}`
	ok := got.status == 401 && strings.TrimSpace(string(got.body)) == want && got.header.Get("X-Request-Id") != ""
	if !ok {
		tb.Errorf("%d %.300s %v, want %s", got.status, got.body, got.header, want)
	}
	return ok
}

func testEndedTokens(t *testing.T, w *world) {
	grants(t, w)
	server := w.serve(t)
	ana, eva, luis, otro := w.as(t, server, w.ana), w.as(t, server, w.eva), w.as(t, server, w.luis), w.as(t, server, w.otro)
	for _, c := range []client{ana, eva, luis, otro} {
		c.get("/getAllMenu").data(t) // who it is, is remembered now
	}
	tenant := must[record.Tenant](t)(w.Records.Tenant(t.Context(), w.otro.Schema))
	tenant.TsName = w.ana.TsName // the database of somebody else, to make it worse
	for _, err := range []error{
		w.Records.DisableUser(t.Context(), w.luis.Schema, w.luis.Email),
		w.Records.SetUserToken(t.Context(), w.eva.Schema, w.eva.Email, monitor.TokenDigest("another")),
		w.Records.UpdateTenant(t.Context(), tenant),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.now.move(61 * time.Second)
	for _, r := range privateRoutes(w) {
		for name, c := range map[string]client{"disabled": luis, "another partner token": eva, "another database": otro} {
			if !refused401(t, c.request(r, nil)) {
				t.Errorf("%s: %s", name, r.path)
			}
		}
	}
	ana.get("/getAllMenu").data(t)
	renewed := w.eva
	renewed.TokenApp = "another"
	w.as(t, server, renewed).get("/getAllMenu").data(t)
	// Before its time, and after it.
	for _, by := range []time.Duration{-2 * time.Hour, 14*time.Hour + 31*time.Second} {
		w.now.move(by)
		for _, r := range privateRoutes(w) {
			if !refused401(t, ana.request(r, nil)) {
				t.Errorf("after %s: %s", by, r.path)
			}
		}
	}
	w.as(t, server, w.ana).get("/getAllMenu").data(t)
}

func testForbiddenIsNot401(t *testing.T, w *world) {
	grants(t, w)
	server := w.serve(t)
	ana, luis := w.as(t, server, w.ana), w.as(t, server, w.luis)
	publish := func(topic string) route {
		return route{"POST", "/sendConfigMQTT", `{"topic":"` + topic + `","data":{}}`}
	}
	for _, c := range []struct {
		who client
		route
	}{
		{luis, route{"POST", "/saveDiagram", `{"diagram":{}}`}},
		{luis, route{"POST", "/saveDiagram", "rubbish"}},
		{luis, publish(w.ana.Schema + "/x")},
		{luis, route{"GET", "/getPermission?id=1&type=id_user", ""}},
		{luis, route{"GET", "/getPermission?id=3&type=id_user&profile=8", ""}},
		{luis, route{"GET", "/getPermission?id=-1&type=id_profile", ""}},
		{ana, publish(w.otro.Schema + "/x")},
		{ana, publish("/" + w.ana.Schema + "/x")},
		{ana, publish(w.ana.Schema)},
		{ana, publish(w.ana.Schema + "x/y")},
		{ana, publish(strings.ToUpper(w.ana.Schema) + "/x")},
		{ana, publish(" " + w.ana.Schema + "/x")},
	} {
		c.who.request(c.route, nil).wantFailure(t, 403)
		c.who.get("/getAllMenu").data(t) // and the token is as good as before
	}
}
