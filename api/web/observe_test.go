package web_test

import (
	"bytes"
	"encoding/json"
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
