package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServeOnly: a server of one side answers no requests of the other, and needs none of its back
// ends.
func TestServeOnly(t *testing.T) {
	t.Parallel()
	const updates, monitoring = "/updates/stable/linux/x86_64/1.0.0", "/getAllMenu"
	for only, want := range map[string]map[string]int{
		"updates":    {updates: 404, "/updates/stable/latest.json": 404, monitoring: 404, "/console/": 200, "/console/demo": 404, "/releases/overview": 200, "/readyz": 200, "/readyz?for=monitoring": 400, "/healthz": 200},
		"monitoring": {updates: 404, "/updates/report": 404, "/releases/overview": 404, monitoring: 401, "/console/": 200, "/readyz": 200, "/readyz?for=updates": 400, "/healthz": 200},
	} {
		data := filepath.Join(t.TempDir(), "data")
		s := serve(t, data, nil, "--only", only)
		for path, status := range want {
			if got, text := s.ask(http.MethodGet, path, "", nil); got != status {
				t.Errorf("--only %s: %s: %d %.200s", only, path, got, text)
			}
		}
		_, ready := s.ask(http.MethodGet, "/readyz", "", nil)
		if strings.Contains(string(ready), "messages") != (only == "monitoring") {
			t.Errorf("--only %s is ready by %s", only, ready)
		}
		if _, err := os.Stat(filepath.Join(data, "secrets.json")); os.IsNotExist(err) != (only == "updates") {
			t.Errorf("--only %s: secrets: %v", only, err)
		}
		s.stop()
	}
	for _, args := range [][]string{{"--only", "nothing"}, {"--only", "updates", "--demo"}} {
		if _, stderr, code := command(t, nil, "tsmon", append([]string{"serve", "--data", t.TempDir()}, args...)...); code != 2 {
			t.Errorf("%v: exit code %d\n%s", args, code, stderr)
		}
	}
}

// TestReadyFullDisk: if the disk of records or time series is full, monitoring is not ready, and
// updates are.
func TestReadyFullDisk(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"records.db", "series.db"} {
		data := filepath.Join(t.TempDir(), "data")
		s := serve(t, data, nil, "--demo") // a tenant, whose series are tried
		s.demoReady()
		until(t, "not ready because of "+file, func() bool {
			_ = os.Symlink("/dev/full", filepath.Join(data, file+".probe")) // which each try removes
			got, _ := s.ask(http.MethodGet, "/readyz?for=monitoring", "", nil)
			return got == http.StatusServiceUnavailable
		})
		if got, text := s.ask(http.MethodGet, "/readyz?for=updates", "", nil); got != http.StatusOK {
			t.Errorf("%s: updates: %d %s", file, got, text)
		}
		s.stop()
	}
}
