package serving

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
)

// TestUnreadableDatabase: a database that can't be opened ends serve with an error
// that names the file.
func TestUnreadableDatabase(t *testing.T) {
	for _, name := range []string{"records.db", "series.db"} {
		data := t.TempDir()
		file := filepath.Join(data, name)
		if err := os.WriteFile(file, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load("", []string{"TSMON_DATA=" + data, "TSMON_MQTT_LISTEN=127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		b, err := openBackends(t.Context(), cli.New(), c, "", slog.New(slog.DiscardHandler))
		if err == nil {
			_ = b.Close()
		}
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
