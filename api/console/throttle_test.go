package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// post sends JSON, and fails unless the server answers so.
func post(t *testing.T, address, token, body string, status int) {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	got.Body.Close()
	if got.StatusCode != status {
		t.Fatalf("%s: %d, want %d", address, got.StatusCode, status)
	}
}

// TestTokenThrottled: who has tried a wrong token too often reads when to try again, in
// either language, and gets in with the right one.
func TestTokenThrottled(t *testing.T) {
	const wrong = "not-the-token-of-it"
	r := newReleasing(t, consoleToken)
	r.serve()
	b := newBrowser(t, 1280, 800)
	b.do(chromedp.Navigate(r.base + "/console/"))
	b.until(`Boolean(document.querySelector("input[name=token]"))`)
	for range 10 {
		post(t, r.base+"/releases/overview", wrong, "", http.StatusUnauthorized)
	}
	b.fill("input[name=token]", wrong)
	b.click("Show")
	b.text("Too many wrong attempts. Try again in 5 min.")
	b.audit("throttled")
	b.shot("releases-throttled")
	b.click("es")
	b.text("Demasiados intentos fallidos. Intente de nuevo en 5 min.")
	b.click("en")
	b.eval(`document.querySelector("input[name=token]").value = ""`)
	b.enter(r, consoleToken)
}

// TestLoginThrottled: so does who has logged in wrongly too often.
func TestLoginThrottled(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.do(chromedp.Navigate(f.URL + "/console/"))
	b.text("Partner application token")
	for range 10 {
		post(t, f.URL+"/loginPartner", "", `{"email":"luis@example.com","tokenApp":"wrong","schemaName":"demo","ts_name":"ts_demo"}`, http.StatusUnauthorized)
	}
	for name, text := range map[string]string{"email": "luis@example.com", "tokenApp": "wrong", "schemaName": "demo", "ts_name": "ts_demo"} {
		b.do(chromedp.SetValue("[name="+name+"]", text))
	}
	b.do(chromedp.Click("form button[type=submit]"))
	b.text("Too many wrong attempts. Try again in 5 min.")
	b.shot("login-throttled")
	b.click("es")
	b.do(chromedp.Click("form button[type=submit]"))
	b.text("Demasiados intentos fallidos. Intente de nuevo en 5 min.")
}
