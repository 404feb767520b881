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
