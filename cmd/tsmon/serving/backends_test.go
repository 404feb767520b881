package serving

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsmon/api/monitor/token"
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

// TestBrokerElsewhere: if the broker's default address is taken, the log names another one. If a
// configured address is taken, the start fails.
func TestBrokerElsewhere(t *testing.T) {
	taken, err := net.Listen("tcp", config.DefaultBroker)
	if err == nil { // else another program has it
		t.Cleanup(func() { _ = taken.Close() })
	}
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(&lines, nil))
	broker, url, err := openMessages(t.Context(), config.MQTT{}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	if text := lines.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, config.DefaultBroker) || !strings.Contains(text, strings.TrimPrefix(url, "mqtt://")) {
		t.Errorf("the broker is at %s; the log says %q", url, text)
	}
	if second, _, err := openMessages(t.Context(), config.MQTT{Listen: config.DefaultBroker}, log); err == nil {
		_ = second.Close()
		t.Error("a configured address that is taken was given up")
	}
}

// TestNoKeysYet: keys can be rotated only after a server has started once.
func TestNoKeysYet(t *testing.T) {
	c, err := config.Load("", []string{"TSMON_DATA=" + t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	const hint = "start `tsmon serve` once, which creates them"
	if _, err := rotateKey(t.Context(), c); cli.HintFor(err) != hint || !strings.Contains(err.Error(), "there are no keys of access tokens yet") {
		t.Errorf("%v, hint %q", err, cli.HintFor(err))
	}
	// follows: start `tsmon serve` once, which creates them
	if _, err := token.Open(c.Server.TokenKeys); err != nil {
		t.Fatal(err)
	}
	if kid, err := rotateKey(t.Context(), c); kid == "" || err != nil {
		t.Errorf("%q, %v", kid, err)
	}
}

// TestNoFolderForKeys: without a data folder and a secret there is no place for the keys.
func TestNoFolderForKeys(t *testing.T) {
	t.Setenv("HOME", "")
	c, err := config.Load("", []string{"TSMON_RECORDS=" + filepath.Join(t.TempDir(), "records.db"), "TSMON_STORAGE=" + t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	records, err := cli.OpenRecords(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := records.Close(); err != nil {
		t.Fatal(err)
	}
	const want = "server.token_keys (TSMON_TOKEN_KEYS) is not set, and there is no home folder for its default"
	if _, err := rotateKey(t.Context(), c); err == nil || err.Error() != want || cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("%v", err)
	}
}
