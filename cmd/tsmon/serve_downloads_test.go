package main

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServeDrainsDownloads: after SIGTERM a download goes on for TSMON_DRAIN_DOWNLOADS. One
// that takes longer is cut, and the log says so.
func TestServeDrainsDownloads(t *testing.T) {
	t.Parallel()
	const size = 19 << 20 // more than the buffers of a connection hold
	for name, c := range map[string]struct {
		downloads string
		cut       bool
	}{"in time": {"10m", false}, "too late": {"1s", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, filepath.Join(t.TempDir(), "data"), []string{"TSMON_DRAIN_DOWNLOADS=" + c.downloads}, "--demo")
			status, text := s.upload(s.demoReady(), strings.Repeat("agua", size/4))
			var uploaded struct{ Data struct{ URL string } }
			if err := json.Unmarshal(text, &uploaded); status != http.StatusOK || err != nil || uploaded.Data.URL == "" {
				t.Fatalf("%d %s: %v", status, text, err)
			}
			client := &http.Client{Timeout: 5 * time.Minute, Transport: &http.Transport{DisableCompression: true}}
			got, err := client.Get(uploaded.Data.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			read, err := io.CopyN(io.Discard, got.Body, 1000)
			if err == nil {
				err = s.cmd.Process.Signal(syscall.SIGTERM)
			}
			if err != nil || got.StatusCode != http.StatusOK {
				t.Fatalf("%d: %v", got.StatusCode, err)
			}
			until(t, "shutting down", func() bool { return strings.Contains(s.log.String(), "shutting down") })
			if c.cut {
				until(t, "the cut in the log", func() bool { return strings.Contains(s.log.String(), `"cut":true`) })
			}
			rest, err := io.Copy(io.Discard, got.Body)
			if whole := read+rest == size; whole == c.cut || c.cut == (err == nil) {
				t.Errorf("%d of %d bytes: %v", read+rest, size, err)
			}
			if err := s.cmd.Wait(); err != nil {
				t.Errorf("tsmon serve: %v", err)
			}
			if cut := strings.Contains(s.log.String(), `"cut":true`); cut != c.cut {
				t.Errorf("the log says that a download was cut: %v\n%s", cut, s.log.String())
			}
		})
	}
}
