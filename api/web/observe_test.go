package web_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"tsmon/api/web"
)

// TestAccessLog: a line has the path, which is bounded, no part of the query, and the
// duration in a member that names its unit.
func TestAccessLog(t *testing.T) {
	for path, want := range map[string]string{
		"/updates/stable/latest.json?token=secret": "/updates/stable/latest.json",
		"/updates/" + strings.Repeat("x", 10_000):  "/updates/" + strings.Repeat("x", 200-len("/updates/")) + "…",
		"/a%0Ab": "/a\nb",
	} {
		var log bytes.Buffer
		observer := web.NewObserver(slog.New(slog.NewJSONHandler(&log, nil)), prometheus.NewRegistry(), false)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		observer.Finish(observer.Begin(httptest.NewRecorder(), r), r, "/updates/*")
		var line struct {
			Path, Took string
			TookMs     *float64 `json:"took_ms"`
		}
		if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Path != want || line.TookMs == nil || *line.TookMs < 0 || *line.TookMs > 60_000 {
			t.Errorf("%.50s: %v %.500s", path, err, log.String())
		}
		if strings.Contains(log.String(), "secret") {
			t.Errorf("the query is logged: %s", log.String())
		}
	}
}

// TestCut: an answer is logged as cut that ends before its length, and so before its first
// byte too, but not one that has no body.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		method string
		status int
		body   string
		cut    bool
	}{
		{"GET", 200, "whole", false}, {"GET", 200, "who", true}, {"GET", 206, "", true}, {"GET", 0, "", true},
		{"HEAD", 200, "", false}, {"GET", 304, "", false},
	} {
		var lines bytes.Buffer
		handler := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			if c.status != 0 {
				w.WriteHeader(c.status)
			}
			if c.body != "" {
				_, _ = io.WriteString(w, c.body)
			}
		}
		o := web.NewObserver(slog.New(slog.NewJSONHandler(&lines, nil)), prometheus.NewRegistry(), false)
		o.Observe(http.HandlerFunc(handler)).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(c.method, "/uploads/a", nil))
		if strings.Contains(lines.String(), `"cut":true`) != c.cut || lines.Len() == 0 {
			t.Errorf("%+v: %s", c, lines.String())
		}
	}
}
