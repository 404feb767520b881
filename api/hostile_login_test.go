package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"tsmon/api/monitor"
	"tsmon/store/record"
)

// from is the header of a client at some address, behind a proxy.
func from(n int) http.Header {
	return http.Header{"X-Forwarded-For": {fmt.Sprintf("10.1.%d.%d", n/250, n%250+1)}}
}

// body is a login as JSON.
func (l login) body(tb testing.TB) string {
	tb.Helper()
	return string(must[[]byte](tb)(json.Marshal(l)))
}

// wrongLogins are those of ana with one member that is not right.
func wrongLogins(t *testing.T, w *world) []map[string]any {
	var right map[string]any
	readJSON(t, []byte(w.ana.body(t)), &right)
	var all []map[string]any
	for name, others := range map[string][]any{
		"email":      {"eva@example.com", "nobody@example.com", " ana@example.com", "ana@example.com\x00", `ana@example.com' OR '1'='1`, strings.Repeat("a", 5000) + "@example.com"},
		"tokenApp":   {w.eva.TokenApp, w.otro.TokenApp, w.ana.TokenApp + " ", strings.ToUpper(w.ana.TokenApp), w.ana.TokenApp + "\x00", string(monitor.TokenDigest(w.ana.TokenApp))},
		"schemaName": {w.otro.Schema, "nothing", "public", "pg_catalog", "tsmon", strings.ToUpper(w.ana.Schema), w.ana.Schema + `"; DROP SCHEMA tsmon; --`, "a\x00"},
		"ts_name":    {w.otro.TsName, "nothing", strings.ToUpper(w.ana.TsName), w.ana.TsName + "\x00", "_internal"},
	} {
		for _, other := range append(others, "", nil, right["ts_name"], right["email"]) {
			wrong := maps.Clone(right)
			wrong[name] = other
			if other == nil {
				delete(wrong, name)
			}
			if wrong[name] != right[name] {
				all = append(all, wrong)
			}
		}
	}
	swapped := maps.Clone(right)
	swapped["schemaName"], swapped["ts_name"] = right["ts_name"], right["schemaName"]
	swappedToo := maps.Clone(right)
	swappedToo["email"], swappedToo["tokenApp"] = right["tokenApp"], right["email"]
	nothing := map[string]any{}
	return append(all, swapped, swappedToo, nothing)
}

// testLoginsLookAlike compares the answers to all kinds of wrong logins, and
// looks for the row that each of them left.
func testLoginsLookAlike(t *testing.T, w *world) {
	w.BehindProxy = true
	nobody := client{tb: t, base: w.serve(t).URL}
	logins := wrongLogins(t, w)
	answers := make([]answer, len(logins))
	together(len(logins), func(i int) {
		body, err := json.Marshal(logins[i])
		if err != nil {
			t.Error(err)
		}
		answers[i] = nobody.attempt(route{"POST", "/loginPartner", string(body)}, from(i))
	})
	const want = `{"error":{"message":"the login was refused","code":"UNAUTHORIZED"}}` + "\n"
	first := answers[0].header.Clone()
	for i, got := range answers {
		if got.status != 401 || string(got.body) != want {
			t.Errorf("%q: %d %s", logins[i], got.status, got.body)
		}
		id := got.header.Get("X-Request-Id")
		for _, h := range []http.Header{first, got.header} {
			h.Del("X-Request-Id")
			h.Del("Date")
		}
		if fmt.Sprint(got.header) != fmt.Sprint(first) {
			t.Errorf("%q: %v, others have %v", logins[i], got.header, first)
		}
		checkFailedLogin(t, w, logins[i], id, from(i).Get("X-Forwarded-For"))
	}
	nobody.send("POST", "/loginPartner", w.ana, from(9999)).data(t)
}

// checkFailedLogin looks for the row of one request.
func checkFailedLogin(t *testing.T, w *world, sent map[string]any, id, address string) {
	t.Helper()
	text := func(name string) string { s, _ := sent[name].(string); return s }
	want := record.Audit{Schema: text("schemaName"), User: text("email"), Action: "login", Target: text("ts_name"), Address: address, Request: id}.Clean()
	for _, row := range must[[]record.Audit](t)(w.Records.LastAudits(t.Context(), want.Schema, 100)) {
		if row.Request == id {
			row.Time = want.Time
			if row != want {
				t.Errorf("the row is %+v, want %+v", row, want)
			}
			return
		}
	}
	t.Errorf("no row of %q with request %s", sent, id)
}

func testGuesses(t *testing.T, w *world) {
	w.BehindProxy = true
	nobody := client{tb: t, base: w.serve(t).URL}
	try := func(who login, address int) answer {
		return nobody.attempt(route{"POST", "/loginPartner", who.body(t)}, from(address))
	}
	wrong := w.ana
	wrong.TokenApp = "a guess"
	for range 15 { // success is not counted
		if got := try(w.ana, 0); got.status != 200 {
			t.Fatalf("a good login: %d %s", got.status, got.body)
		}
	}
	var statuses [200]int
	together(len(statuses), func(i int) {
		guess := wrong
		if i%2 == 1 {
			guess.Email = strings.ToUpper(guess.Email) // which is the same address
		}
		statuses[i] = try(guess, 0).status
	})
	count := map[int]int{}
	for _, status := range statuses {
		count[status]++
	}
	if count[401] != 10 || count[429] != 190 {
		t.Errorf("200 guesses at once were answered %v, want 10 times 401, else 429", count)
	}
	for name, who := range map[string]login{"a guess": wrong, "the right token": w.ana, "the same in another tenant": w.otro} {
		got := try(who, 0)
		got.wantFailure(t, 429)
		if wait, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || wait < 1 || wait > 300 {
			t.Errorf("%s: Retry-After is %q", name, got.header.Get("Retry-After"))
		}
	}
	if got := try(w.eva, 0); got.status != 200 {
		t.Errorf("another user at the same address: %d %s", got.status, got.body)
	}
	if got := try(w.ana, 1); got.status != 200 {
		t.Errorf("the same user at another address: %d %s", got.status, got.body)
	}
	w.now.move(guessWindow - 30*time.Second)
	got := try(w.ana, 0)
	got.wantFailure(t, 429)
	if wait, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || wait < 1 || wait > 30 {
		t.Errorf("Retry-After is %q near the end", got.header.Get("Retry-After"))
	}
	w.now.move(30 * time.Second)
	if got := try(w.ana, 0); got.status != 200 {
		t.Errorf("after the window: %d %s", got.status, got.body)
	}
	if got := try(wrong, 0); got.status != 401 {
		t.Errorf("a guess after the window: %d %s", got.status, got.body)
	}
}

// An address has a bound of its own, whatever e-mail addresses it tries.
func TestHostileGuessesFromOneAddress(t *testing.T) {
	t.Parallel()
	w := embedded(t)
	w.BehindProxy = true
	nobody := client{tb: t, base: w.serve(t).URL}
	statuses := make([]int, 120)
	together(len(statuses), func(i int) {
		guess := login{fmt.Sprintf("user-%d@example.com", i), "a guess", w.ana.Schema, w.ana.TsName}
		statuses[i] = nobody.attempt(route{"POST", "/loginPartner", guess.body(t)}, from(0)).status
	})
	count := map[int]int{}
	for _, status := range statuses {
		count[status]++
	}
	if count[401] != 100 || count[429] != 20 {
		t.Errorf("answered %v, want 100 times 401 and 20 times 429", count)
	}
	nobody.send("POST", "/loginPartner", w.ana, from(0)).wantFailure(t, 429)
	nobody.send("POST", "/loginPartner", w.ana, from(1)).data(t)
	// What the client itself writes into the header is not the proxy's word.
	spoofed := http.Header{"X-Forwarded-For": {"192.0.2.7, " + from(0).Get("X-Forwarded-For")}}
	nobody.send("POST", "/loginPartner", w.ana, spoofed).wantFailure(t, 429)
	nobody.send("POST", "/loginPartner", w.ana, http.Header{"X-Forwarded-For": {"192.0.2.8", from(0).Get("X-Forwarded-For")}}).wantFailure(t, 429)
}

// A login that is not JSON, or whose members are no text, is no guess.
func TestHostileLoginBodies(t *testing.T) {
	w := embedded(t)
	nobody := client{tb: t, base: w.serve(t).URL}
	for range 20 {
		for _, body := range []string{"", "{", "[]", `{"email":5}`, `{"email":"ana@example.com","tokenApp":{}}`, `{"email":["ana@example.com"],"tokenApp":"x"}`} {
			got := nobody.post("/loginPartner", raw(body))
			if got.wantFailure(t, 500); bytes.Contains(got.body, []byte("example")) {
				t.Errorf("%s: %s", body, got.body)
			}
		}
	}
	nobody.post("/loginPartner", w.ana).data(t)
}
