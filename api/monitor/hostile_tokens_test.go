package monitor_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"tsmon/api/apitest"
	"tsmon/api/monitor"
	"tsmon/api/monitor/token"
	"tsmon/store/record"
)

// forged returns invalid tokens made from a valid one.
func forged(tb testing.TB, good string) map[string]string {
	tb.Helper()
	parts := strings.Split(good, ".")
	claims := apitest.Must[map[string]any](tb)(payload(good))
	var header struct{ Kid string }
	apitest.ReadJSON(tb, decodeSegment(parts[0]), &header)
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	sign := func(method jwt.SigningMethod, key any, claims map[string]any) string {
		t := jwt.NewWithClaims(method, jwt.MapClaims(claims))
		t.Header["kid"] = header.Kid
		return apitest.Must[string](tb)(t.SignedString(key))
	}
	administrator := map[string]any{}
	for name, value := range claims {
		administrator[name] = value
	}
	administrator["sub"] = "2"
	changed := strings.Split(sign(jwt.SigningMethodEdDSA, other, administrator), ".")
	stranger := apitest.Must[*token.Keys](tb)(token.Open(filepath.Join(tb.TempDir(), "keys", "token-keys.json")))
	issued := apitest.Must[string](tb)(stranger.Issue(token.Claims{
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

// swapped returns another letter of base64.
func swapped(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

func TestHostileTokens(t *testing.T) { testHostileTokens(t, apitest.Embedded(t)) }

func testHostileTokens(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	server := w.Serve(t)
	ana := w.LogIn(t, server, w.Ana)
	good := ana.Token
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
		"the partner token": {"Authorization": {"Bearer " + w.Ana.TokenApp}},
	}
	for name, text := range forged(t, good) {
		headers[name] = http.Header{"Authorization": {"Bearer " + text}}
	}
	nobody := apitest.Client{TB: t, Base: server.URL}
	for _, r := range apitest.PrivateRoutes(w) {
		for name, header := range headers {
			if !refused401(t, nobody.Request(r, header)) {
				t.Errorf("%s with %s", r.Path, name)
			}
		}
		for _, query := range []string{"token=", "access_token=", "Authorization=Bearer+", "tokenPartner="} {
			with := r
			with.Path += map[bool]string{true: "&", false: "?"}[strings.Contains(r.Path, "?")] + query + good
			refused401(t, nobody.Request(with, nil))
		}
		if got := ana.Request(r, nil); got.Status != 200 {
			t.Errorf("%s with a good token: %d %s", r.Path, got.Status, got.Body)
		}
		if got := nobody.Request(r, http.Header{"Authorization": {"bearer  " + good}}); got.Status != 200 {
			t.Errorf("%s with the scheme in small letters: %d", r.Path, got.Status)
		}
	}
}

// refused401 checks for the answer that sends a client to its login.
func refused401(tb testing.TB, got apitest.Answer) bool {
	tb.Helper()
	const want = `{"error":{"message":"the token is missing, expired or not valid","code":"UNAUTHORIZED"}}`
	ok := got.Status == 401 && strings.TrimSpace(string(got.Body)) == want && got.Header.Get("X-Request-Id") != ""
	if !ok {
		tb.Errorf("%d %.300s %v, want %s", got.Status, got.Body, got.Header, want)
	}
	return ok
}

func TestEndedTokens(t *testing.T) { testEndedTokens(t, apitest.Embedded(t)) }

func testEndedTokens(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	server := w.Serve(t)
	ana, eva, luis, otro := w.LogIn(t, server, w.Ana), w.LogIn(t, server, w.Eva), w.LogIn(t, server, w.Luis), w.LogIn(t, server, w.Otro)
	for _, c := range []apitest.Client{ana, eva, luis, otro} {
		c.Get("/getAllMenu").Data(t) // who it is, is remembered now
	}
	tenant := apitest.Must[record.Tenant](t)(w.Records.Tenant(t.Context(), w.Otro.Schema))
	tenant.TsName = w.Ana.TsName // the database of somebody else, to make it worse
	for _, err := range []error{
		w.Records.DisableUser(t.Context(), w.Luis.Schema, w.Luis.Email),
		w.Records.SetUserToken(t.Context(), w.Eva.Schema, w.Eva.Email, monitor.TokenDigest("another")),
		w.Records.UpdateTenant(t.Context(), tenant),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.Clock.Move(61 * time.Second)
	for _, r := range apitest.PrivateRoutes(w) {
		for name, c := range map[string]apitest.Client{"disabled": luis, "another partner token": eva, "another database": otro} {
			if !refused401(t, c.Request(r, nil)) {
				t.Errorf("%s: %s", name, r.Path)
			}
		}
	}
	ana.Get("/getAllMenu").Data(t)
	renewed := w.Eva
	renewed.TokenApp = "another"
	w.LogIn(t, server, renewed).Get("/getAllMenu").Data(t)
	// Before its time, and after it.
	for _, by := range []time.Duration{-2 * time.Hour, 14*time.Hour + 31*time.Second} {
		w.Clock.Move(by)
		for _, r := range apitest.PrivateRoutes(w) {
			if !refused401(t, ana.Request(r, nil)) {
				t.Errorf("after %s: %s", by, r.Path)
			}
		}
	}
	w.LogIn(t, server, w.Ana).Get("/getAllMenu").Data(t)
}

func TestForbiddenIsNot401(t *testing.T) { testForbiddenIsNot401(t, apitest.Embedded(t)) }

func testForbiddenIsNot401(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	server := w.Serve(t)
	ana, luis := w.LogIn(t, server, w.Ana), w.LogIn(t, server, w.Luis)
	publish := func(topic string) apitest.Route {
		return apitest.NewRoute("POST", "/sendConfigMQTT", `{"topic":"`+topic+`","data":{}}`)
	}
	for _, c := range []struct {
		who apitest.Client
		apitest.Route
	}{
		{luis, apitest.NewRoute("POST", "/saveDiagram", `{"diagram":{}}`)},
		{luis, apitest.NewRoute("POST", "/saveDiagram", "rubbish")},
		{luis, publish(w.Ana.Schema + "/x")},
		{luis, apitest.NewRoute("GET", "/getPermission?id=1&type=id_user", "")},
		{luis, apitest.NewRoute("GET", "/getPermission?id=3&type=id_user&profile=8", "")},
		{luis, apitest.NewRoute("GET", "/getPermission?id=-1&type=id_profile", "")},
		{ana, publish(w.Otro.Schema + "/x")},
		{ana, publish("/" + w.Ana.Schema + "/x")},
		{ana, publish(w.Ana.Schema)},
		{ana, publish(w.Ana.Schema + "x/y")},
		{ana, publish(strings.ToUpper(w.Ana.Schema) + "/x")},
		{ana, publish(" " + w.Ana.Schema + "/x")},
	} {
		c.who.Request(c.Route, nil).WantFailure(t, 403)
		c.who.Get("/getAllMenu").Data(t) // and the token is as good as before
	}
}
