package fleet

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tsmon/release"
)

// hook is a webhook that answers the given statuses, and then 204.
type hook struct {
	*httptest.Server
	statuses chan int
	bodies   chan string
}

func newHook(t *testing.T, statuses ...int) *hook {
	t.Helper()
	h := &hook{statuses: make(chan int, 10), bodies: make(chan string, 10)}
	for _, status := range statuses {
		h.statuses <- status
	}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		h.bodies <- r.Header.Get("Content-Type") + " " + string(text)
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

func postTo(ctx context.Context, t *testing.T, address string) string {
	t.Helper()
	trip := Trip{Channel: "stable", Version: "1.1.0", Sequence: 2, Failed: 12, Tried: 60, Why: "12 of 60 clients failed"}
	report := &release.Report{Sequence: 3, Warnings: []string{"beta shows 1.1.0 too"}}
	var log strings.Builder
	hook := &Webhook{Address: address, Pauses: []time.Duration{0, time.Millisecond, time.Millisecond, time.Millisecond}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	hook.Post(ctx, halted(trip, report, time.Unix(0, 0)))
	return log.String()
}

func TestWebhook(t *testing.T) {
	h := newHook(t, 500, 302)
	if log := postTo(t.Context(), t, h.URL+"/hush"); !strings.Contains(log, "webhook posted") || strings.Contains(log, "hush") {
		t.Error(log)
	}
	close(h.bodies)
	n := 0
	for body := range h.bodies {
		n++
		for _, want := range []string{"application/json {", `"event":"rollout_halted"`, `"channel":"stable"`, `"version":"1.1.0"`, `"sequence":3`, `"failed":12`, `"tried":60`,
			`"reason":"12 of 60 clients failed"`, `"warnings":["beta shows 1.1.0 too"]`, `"time":"1970-01-01T00:00:00Z"`, `"text":"The rollout`} {
			if !strings.Contains(body, want) {
				t.Errorf("%s lacks %s", body, want)
			}
		}
	}
	if n != 3 { // a redirection is not followed
		t.Errorf("it was posted %d times", n)
	}
}

// TestWebhookDown: the address is a secret, also where nothing answers.
func TestWebhookDown(t *testing.T) {
	h := newHook(t)
	h.Close()
	for _, address := range []string{h.URL + "/hush?token=hush", "http://127.0.0.1:1/hush", "http://[::1]:namedport/hush", "http://hush\x7f/"} {
		log := postTo(t.Context(), t, address)
		if strings.Contains(log, "hush") || !strings.Contains(log, "webhook given up") || strings.Count(log, "webhook failed") != len(defaultPauses) {
			t.Errorf("%s", log)
		}
	}
	if log := postTo(t.Context(), t, ""); log != "" {
		t.Errorf("without an address: %s", log)
	}
}

// TestWebhookAtTheEnd: a server that ends tells it once more, and then gives up.
func TestWebhookAtTheEnd(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if log := postTo(ended, t, newHook(t).URL); !strings.Contains(log, "webhook posted") {
		t.Error(log)
	}
	h := newHook(t, 500, 500)
	if log := postTo(ended, t, h.URL); !strings.Contains(log, "webhook given up") || len(h.bodies) != 1 {
		t.Errorf("%d times: %s", len(h.bodies), log)
	}
}
