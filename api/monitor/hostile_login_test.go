package monitor_test

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

	"tsmon/api/apitest"
	"tsmon/api/monitor"
	"tsmon/store/record"
)

// from returns the header of a client at an address behind a proxy.
func from(n int) http.Header {
	return http.Header{"X-Forwarded-For": {fmt.Sprintf("10.1.%d.%d", n/250, n%250+1)}}
}

// wrongLogins returns logins of Ana with one wrong member.
func wrongLogins(t *testing.T, w *apitest.World) []map[string]any {
	var right map[string]any
	apitest.ReadJSON(t, []byte(w.Ana.JSON(t)), &right)
	var all []map[string]any
	for name, others := range map[string][]any{
		"email":      {"eva@example.com", "nobody@example.com", " ana@example.com", "ana@example.com\x00", `ana@example.com' OR '1'='1`, strings.Repeat("a", 5000) + "@example.com"},
		"tokenApp":   {w.Eva.TokenApp, w.Otro.TokenApp, w.Ana.TokenApp + " ", strings.ToUpper(w.Ana.TokenApp), w.Ana.TokenApp + "\x00", string(monitor.TokenDigest(w.Ana.TokenApp))},
		"schemaName": {w.Otro.Schema, "nothing", "public", "pg_catalog", "tsmon", strings.ToUpper(w.Ana.Schema), w.Ana.Schema + `"; DROP SCHEMA tsmon; --`, "a\x00"},
		"ts_name":    {w.Otro.TsName, "nothing", strings.ToUpper(w.Ana.TsName), w.Ana.TsName + "\x00", "_internal"},
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

// TestLoginsLookAlike compares the answers to all kinds of wrong logins, and
// checks the audit row of each.
func TestLoginsLookAlike(t *testing.T) { testLoginsLookAlike(t, apitest.Embedded(t)) }

func testLoginsLookAlike(t *testing.T, w *apitest.World) {
	w.BehindProxy = true
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	logins := wrongLogins(t, w)
	answers := make([]apitest.Answer, len(logins))
	apitest.Concurrently(len(logins), func(i int) {
		body, err := json.Marshal(logins[i])
		if err != nil {
			t.Error(err)
		}
		answers[i] = nobody.Attempt(apitest.NewRoute("POST", "/loginPartner", string(body)), from(i))
	})
	const want = `{"error":{"message":"the login was refused","code":"UNAUTHORIZED"}}` + "\n"
	first := answers[0].Header.Clone()
	for i, got := range answers {
		if got.Status != 401 || string(got.Body) != want {
			t.Errorf("%q: %d %s", logins[i], got.Status, got.Body)
		}
		id := got.Header.Get("X-Request-Id")
		for _, h := range []http.Header{first, got.Header} {
			h.Del("X-Request-Id")
			h.Del("Date")
		}
		if fmt.Sprint(got.Header) != fmt.Sprint(first) {
			t.Errorf("%q: %v, others have %v", logins[i], got.Header, first)
		}
		checkFailedLogin(t, w, logins[i], id, from(i).Get("X-Forwarded-For"))
	}
	nobody.Send("POST", "/loginPartner", w.Ana, from(9999)).Data(t)
}

// checkFailedLogin checks the audit row of one request.
func checkFailedLogin(t *testing.T, w *apitest.World, sent map[string]any, id, address string) {
	t.Helper()
	text := func(name string) string { s, _ := sent[name].(string); return s }
	want := record.Audit{Schema: text("schemaName"), User: text("email"), Action: "login", Target: text("ts_name"), Address: address, Request: id}.Clean()
	for _, row := range apitest.Must[[]record.Audit](t)(w.Records.LastAudits(t.Context(), want.Schema, 100)) {
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

func TestGuesses(t *testing.T) { testGuesses(t, apitest.Embedded(t)) }

func testGuesses(t *testing.T, w *apitest.World) {
	w.BehindProxy = true
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	try := func(who apitest.Login, address int) apitest.Answer {
		return nobody.Attempt(apitest.NewRoute("POST", "/loginPartner", who.JSON(t)), from(address))
	}
	wrong := w.Ana
	wrong.TokenApp = "a guess"
	for range 15 { // success is not counted
		if got := try(w.Ana, 0); got.Status != 200 {
			t.Fatalf("a good login: %d %s", got.Status, got.Body)
		}
	}
	var statuses [200]int
	apitest.Concurrently(len(statuses), func(i int) {
		guess := wrong
		if i%2 == 1 {
			guess.Email = strings.ToUpper(guess.Email) // which is the same address
		}
		statuses[i] = try(guess, 0).Status
	})
	count := map[int]int{}
	for _, status := range statuses {
		count[status]++
	}
	if count[401] != 10 || count[429] != 190 {
		t.Errorf("200 guesses at once were answered %v, want 10 times 401, else 429", count)
	}
	for name, who := range map[string]apitest.Login{"a guess": wrong, "the right token": w.Ana, "the same in another tenant": w.Otro} {
		got := try(who, 0)
		got.WantFailure(t, 429)
		if wait, err := strconv.Atoi(got.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 300 {
			t.Errorf("%s: Retry-After is %q", name, got.Header.Get("Retry-After"))
		}
	}
	if got := try(w.Eva, 0); got.Status != 200 {
		t.Errorf("another user at the same address: %d %s", got.Status, got.Body)
	}
	if got := try(w.Ana, 1); got.Status != 200 {
		t.Errorf("the same user at another address: %d %s", got.Status, got.Body)
	}
	w.Clock.Move(guessWindow - 30*time.Second)
	got := try(w.Ana, 0)
	got.WantFailure(t, 429)
	if wait, err := strconv.Atoi(got.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 30 {
		t.Errorf("Retry-After is %q near the end", got.Header.Get("Retry-After"))
	}
	w.Clock.Move(30 * time.Second)
	if got := try(w.Ana, 0); got.Status != 200 {
		t.Errorf("after the window: %d %s", got.Status, got.Body)
	}
	if got := try(wrong, 0); got.Status != 401 {
		t.Errorf("a guess after the window: %d %s", got.Status, got.Body)
	}
}

// TestHostileGuessesFromOneAddress: an address that tries many e-mail addresses is not
// locked out, since others may be behind it, but has few tries of each from then on.
func TestHostileGuessesFromOneAddress(t *testing.T) {
	t.Parallel()
	w := apitest.Embedded(t)
	w.BehindProxy = true
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	logIn := func(who apitest.Login, header http.Header) int {
		return nobody.Attempt(apitest.NewRoute("POST", "/loginPartner", who.JSON(t)), header).Status
	}
	guess := func(email string) apitest.Login {
		return apitest.Login{Email: email, TokenApp: "a guess", Schema: w.Ana.Schema, TsName: w.Ana.TsName}
	}
	for range 10 {
		if status := logIn(guess(w.Eva.Email), from(0)); status != 401 {
			t.Errorf("a guess of Eva's token: %d", status)
		}
	}
	statuses := make([]int, 200)
	apitest.Concurrently(len(statuses), func(i int) {
		statuses[i] = logIn(guess(fmt.Sprintf("user-%d@example.com", i)), from(0))
	})
	for i, status := range statuses {
		if status != 401 {
			t.Errorf("e-mail address %d: %d", i, status)
		}
	}
	// What the client itself writes into the header is not the proxy's word.
	spoofed := http.Header{"X-Forwarded-For": {"192.0.2.7, " + from(0).Get("X-Forwarded-For")}}
	for name, header := range map[string]http.Header{"a client behind the address": from(0), "one that adds addresses": spoofed, "one elsewhere": from(1)} {
		if status := logIn(w.Ana, header); status != 200 {
			t.Errorf("%s, with the right token: %d", name, status)
		}
	}
	for i, want := range []int{401, 401, 429} {
		if status := logIn(guess("somebody@example.com"), spoofed); status != want {
			t.Errorf("guess %d of one e-mail address: %d, want %d", i, status, want)
		}
	}
	if status := logIn(w.Eva, from(0)); status != 429 {
		t.Errorf("an e-mail address that failed ten times: %d", status)
	}
	w.Clock.Move(time.Minute)
	if status := logIn(guess("somebody@example.com"), from(0)); status != 401 {
		t.Errorf("a minute later: %d", status)
	}
}

// TestStrangerBehindOurProxy: a stock proxy on this machine gives all clients its own
// address. A stranger's wrong logins lock out the e-mail address that they are for, and
// nobody else.
func TestStrangerBehindOurProxy(t *testing.T) {
	t.Parallel()
	w := apitest.Embedded(t)
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	for name, header := range map[string]http.Header{"without headers": nil, "with headers": from(0)} {
		statuses := make([]int, 101)
		apitest.Concurrently(len(statuses), func(i int) {
			guess := apitest.Login{Email: fmt.Sprintf("user-%d@example.com", i), TokenApp: "a guess", Schema: w.Ana.Schema, TsName: w.Ana.TsName}
			statuses[i] = nobody.Attempt(apitest.NewRoute("POST", "/loginPartner", guess.JSON(t)), header).Status
		})
		for i, status := range statuses {
			if status != 401 {
				t.Errorf("%s: wrong login %d: %d", name, i, status)
			}
		}
		nobody.Send("POST", "/loginPartner", w.Ana, header).Data(t)
	}
	for range 10 {
		guess := w.Eva
		guess.TokenApp = "a guess"
		nobody.Send("POST", "/loginPartner", guess, nil).WantFailure(t, 401)
	}
	nobody.Send("POST", "/loginPartner", w.Eva, nil).WantFailure(t, 429)
	nobody.Send("POST", "/loginPartner", w.Ana, nil).Data(t)
}

// TestAuditOfFailedLogins: one row a minute and address.
func TestAuditOfFailedLogins(t *testing.T) {
	t.Parallel()
	w := apitest.Embedded(t)
	w.BehindProxy = true
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	rows := func() int {
		return len(apitest.Must[[]record.Audit](t)(w.Records.LastAudits(t.Context(), "stranger", 100)))
	}
	for minute := range 2 {
		apitest.Concurrently(30, func(i int) {
			nobody.Attempt(apitest.NewRoute("POST", "/loginPartner", apitest.Login{Email: fmt.Sprint(minute, i), Schema: "stranger"}.JSON(t)), from(i%2))
		})
		if got, want := rows(), 2*(minute+1); got != want {
			t.Errorf("%d rows after 30 wrong logins a minute from 2 addresses, want %d", got, want)
		}
		w.Clock.Move(time.Minute)
	}
}

// TestHostileLoginBodies checks that malformed logins do not count as failed ones.
func TestHostileLoginBodies(t *testing.T) {
	w := apitest.Embedded(t)
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	for range 20 {
		for _, body := range []string{"", "{", "[]", `{"email":5}`, `{"email":"ana@example.com","tokenApp":{}}`, `{"email":["ana@example.com"],"tokenApp":"x"}`} {
			got := nobody.Post("/loginPartner", apitest.Raw(body))
			if got.WantFailure(t, 500); bytes.Contains(got.Body, []byte("example")) {
				t.Errorf("%s: %s", body, got.Body)
			}
		}
	}
	nobody.Post("/loginPartner", w.Ana).Data(t)
}
