package fleet

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tsmon/store/record"
)

// hook is a webhook that answers the given statuses, and then 204.
type hook struct {
	*httptest.Server
	statuses chan int
	taken    chan taken
}

// taken is a request to a webhook.
type taken struct {
	http.Header
	body string
}

func newHook(t *testing.T, statuses ...int) *hook {
	t.Helper()
	h := &hook{statuses: make(chan int, 10), taken: make(chan taken, 2000)}
	for _, status := range statuses {
		h.statuses <- status
	}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		h.taken <- taken{r.Header, string(text)}
		select {
		case status := <-h.statuses:
			w.Header().Set("Location", "http://"+r.Host+"/elsewhere")
			w.WriteHeader(status)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// ids returns the events that the webhook got since the last call.
func (h *hook) ids() (all []string) {
	for {
		select {
		case m := <-h.taken:
			all = append(all, m.Get("Webhook-Id"))
		default:
			return all
		}
	}
}

// TestSign: the signature is that of the example in Standard Webhooks.
func TestSign(t *testing.T) {
	const id, seconds, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", `{"test": 2432232314}`
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	raw, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", string(raw)} {
		if got := (Webhook{Secret: secret}).sign(id, seconds, []byte(body)); got != want {
			t.Errorf("%s: %s", secret, got)
		}
	}
}

func TestPost(t *testing.T) {
	h := newHook(t, 302, 500)
	webhook := Webhook{Address: h.URL + "/hush", Secret: "sesame, open the door"}
	m := record.Message{ID: "stable.3.abc", Body: []byte(`{"text":"hi"}`)}
	for _, want := range []string{"it answered 302 Found", "it answered 500 Internal Server Error", ""} { // a redirection is not followed
		err := webhook.post(t.Context(), m, time.Unix(1700000000, 0))
		if got := <-h.taken; err == nil && want != "" || err != nil && err.Error() != want ||
			got.body != string(m.Body) || got.Get("Content-Type") != "application/json" || got.Get("Webhook-Id") != m.ID ||
			got.Get("Webhook-Timestamp") != "1700000000" || got.Get("Webhook-Signature") != webhook.sign(m.ID, "1700000000", m.Body) {
			t.Errorf("%v, %+v", err, got)
		}
	}
	webhook.Secret = ""
	if err := webhook.post(t.Context(), m, time.Now()); err != nil || (<-h.taken).Header["Webhook-Signature"] != nil {
		t.Errorf("without a secret: %v", err)
	}
}

// TestPostDown: errors don't contain the address, which is a secret, even if nothing answers.
func TestPostDown(t *testing.T) {
	h := newHook(t)
	h.Close()
	for _, address := range []string{h.URL + "/hush?token=hush", "http://127.0.0.1:1/hush", "http://[::1]:namedport/hush", "http://hush\x7f/"} {
		err := Webhook{Address: address}.post(context.Background(), record.Message{}, time.Now())
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v", err)
		}
	}
}
