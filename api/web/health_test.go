package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsmon/api/web"
)

// ready asks a health for /readyz.
func ready(t *testing.T, health http.Handler) (status int, text string) {
	t.Helper()
	answer := httptest.NewRecorder()
	health.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
	var body struct{ Status string }
	if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil {
		t.Fatalf("%s: %v", answer.Body, err)
	}
	return answer.Code, body.Status
}

// TestReadinessTriesWrites has back ends refuse writes while they answer: a write is tried
// again after 30 s once it succeeds, and after a second while it fails.
func TestReadinessTriesWrites(t *testing.T) {
	now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	var full, part error
	tries := 0
	health := web.NewHealth([]web.Check{
		{Name: "records", Concern: "monitoring", Ask: func(context.Context) error { return nil }, Write: func(context.Context) error { tries++; return full }},
		{Name: "uploads", Concern: "monitoring", Partly: true, Write: func(context.Context) error { return part }},
	}, func() time.Time { return now }, slog.New(slog.NewTextHandler(io.Discard, nil)), prometheus.NewRegistry())
	refuses := errors.New("no space left on device")
	for i, step := range []struct {
		after      time.Duration
		full, part error
		status     int
		text       string
		tries      int
	}{
		{0, nil, nil, 200, "ok", 1},
		{29 * time.Second, refuses, refuses, 200, "ok", 1},
		{time.Second, refuses, nil, 503, "failing", 2},
		{time.Second, refuses, nil, 503, "failing", 3},
		{time.Second / 2, nil, nil, 503, "failing", 3},
		{time.Second, nil, nil, 200, "ok", 4},
		{30 * time.Second, nil, refuses, 200, "degraded", 5},
		{time.Second, nil, nil, 200, "ok", 5},
	} {
		now = now.Add(step.after)
		full, part = step.full, step.part
		if status, text := ready(t, health); status != step.status || text != step.text || tries != step.tries {
			t.Errorf("step %d: %d %s after %d tries, want %+v", i, status, text, tries, step)
		}
	}
}

// TestReadinessHangs has a back end hang that can't be interrupted, as a broken disk does:
// the answer comes all the same, and nothing asks it again until it is back.
func TestReadinessHangs(t *testing.T) {
	now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	hang, asked := make(chan struct{}), make(chan struct{}, 10)
	health := web.NewHealth([]web.Check{{Name: "records", Concern: "monitoring", Write: func(context.Context) error {
		asked <- struct{}{}
		<-hang
		return nil
	}}}, func() time.Time { return now }, slog.New(slog.NewTextHandler(io.Discard, nil)), prometheus.NewRegistry())
	for range 3 {
		if status, text := ready(t, health); status != 503 || text != "failing" || len(asked) != 1 {
			t.Errorf("%d %s, asked %d times", status, text, len(asked))
		}
		now = now.Add(time.Second)
	}
	close(hang)
	for deadline := time.Now().Add(30 * time.Second); ; now = now.Add(time.Second) {
		if status, _ := ready(t, health); status == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it stays failing")
		}
	}
}

// TestReadinessByConcern asks for each side of a server whose back ends fail in turn.
func TestReadinessByConcern(t *testing.T) {
	away := errors.New("away")
	for name, c := range map[string]struct {
		records, objects error
		status           map[string]int // by query
		text             string         // of the plain question
	}{
		"all answer":    {nil, nil, map[string]int{"": 200, "?for=updates": 200, "?for=monitoring": 200}, "ok"},
		"records away":  {away, nil, map[string]int{"": 200, "?for=updates": 200, "?for=monitoring": 503}, "degraded"},
		"objects away":  {nil, away, map[string]int{"": 200, "?for=updates": 503, "?for=monitoring": 200}, "degraded"},
		"none answers":  {away, away, map[string]int{"": 503, "?for=updates": 503, "?for=monitoring": 503}, "failing"},
		"unknown name":  {nil, nil, map[string]int{"?for=billing": 400, "": 200}, "ok"},
		"several names": {away, nil, map[string]int{"?for=updates&for=monitoring": 200, "": 200}, "degraded"},
	} {
		t.Run(name, func(t *testing.T) {
			log := slog.New(slog.NewTextHandler(io.Discard, nil))
			health := web.NewHealth([]web.Check{
				{Name: "records", Concern: "monitoring", Ask: func(context.Context) error { return c.records }},
				{Name: "series", Concern: "monitoring", Ask: func(context.Context) error { return nil }},
				{Name: "objects", Concern: "updates", Ask: func(context.Context) error { return c.objects }},
			}, time.Now, log, prometheus.NewRegistry())
			observer := web.NewObserver(log, prometheus.NewRegistry(), false)
			handler := observer.Observe(health)
			for query, want := range c.status {
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz"+query, nil))
				if answer.Code != want {
					t.Errorf("/readyz%s: %d, want %d: %s", query, answer.Code, want, answer.Body)
				}
				if query != "" {
					continue
				}
				var body struct{ Status string }
				if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil || body.Status != c.text {
					t.Errorf("status %q, want %q (%v)", body.Status, c.text, err)
				}
			}
		})
	}
}
