package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
)

// TestUnknownClients: records that can't be read are a warning, which goes where the caller
// wants it; that somebody gave the move up is none.
func TestUnknownClients(t *testing.T) {
	file := filepath.Join(t.TempDir(), "records.db")
	if err := os.WriteFile(file, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	var warned []string
	known := cli.KnownClients{Config: &config.Config{Server: config.Server{Records: config.Secret(file)}}, Now: time.Now, Warn: func(text string) { warned = append(warned, text) }}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, count := range []func(context.Context, string) (map[string]int, error){known.ByVersion(), known.ByType()} {
		if clients, err := count(gone, "stable"); clients != nil || err != nil || len(warned) > 0 {
			t.Errorf("given up: %v, %v, %q", clients, err, warned)
		}
		if clients, err := count(t.Context(), "stable"); clients != nil || err != nil || len(warned) != 1 || !strings.Contains(warned[0], "the versions that clients of stable have are unknown: ") {
			t.Errorf("damaged: %v, %v, %q", clients, err, warned)
		}
		warned = nil
	}
}
