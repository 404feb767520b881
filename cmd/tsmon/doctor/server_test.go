package doctor_test

import (
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"tsmon/api/monitor/mqtt"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/doctor"
)

func writePEM(t *testing.T, path, kind string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// free returns an address at which nothing listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestBackends: what is not there yet is no error, what is configured and does not
// answer is one. Nothing is created, and no password is shown.
func TestBackends(t *testing.T) {
	c := newClinic(t)
	r := c.examine()
	for _, text := range []string{"no records yet", "no time series yet", "the broker is inside of `tsmon serve`", "nothing listens at http://127.0.0.1:9 now"} {
		c.wantIn(r, doctor.OK, "server", text)
	}
	if left, err := os.ReadDir(c.environ["TSMON_DATA"]); err != nil || len(left) > 0 {
		t.Errorf("created %v, %v", left, err)
	}

	c.environ["TSMON_RECORDS"] = "postgres://u:hush@" + free(t) + "/d?sslmode=disable"
	c.environ["TSMON_SERIES_URL"], c.environ["TSMON_SERIES_TOKEN"] = "http://"+free(t), "u:hush"
	c.environ["TSMON_MQTT_URL"] = "mqtt://u:hush@" + free(t)
	r = c.examine()
	for text, setting := range map[string]string{"ping": "TSMON_RECORDS", "the broker accepts no connections: failed to connect to mqtt://127.0.0.1:": "TSMON_MQTT_URL"} {
		if mend := c.wantIn(r, doctor.Error, "server", text); !strings.Contains(mend, setting) {
			t.Errorf("%s: %s", text, mend)
		}
	}
	if text := listed(r); r.Errors != 4 || strings.Contains(text, "hush") { // and the public address
		t.Error(text)
	}

	broker, err := mqtt.Listen(t.Context(), mqtt.BrokerOptions{Address: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	// follows: check the host, the port, the user and the password in server.mqtt.url (TSMON_MQTT_URL)
	c.environ["TSMON_MQTT_URL"] = "mqtt://" + broker.Addr()
	c.want(doctor.OK, "server", "the broker accepts connections")
}

// TestServerRules: what `tsmon serve` would refuse is an error with its hint.
func TestServerRules(t *testing.T) {
	c := newClinic(t)
	c.check = func(config.Server) error { return cli.WithHint(errors.New("without TLS"), "set TSMON_TLS_CERT") }
	if mend := c.want(doctor.Error, "server", "without TLS"); mend != "set TSMON_TLS_CERT" {
		t.Error(mend)
	}
}

// TestClock: the clock of an S3 server is read from its answers.
func TestClock(t *testing.T) {
	c := newClinic(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(server.Close)
	c.environ["TSMON_STORAGE"] = "s3://bucket/prefix?endpoint=" + url.QueryEscape(server.URL)
	for off, want := range map[time.Duration]struct {
		level doctor.Level
		text  string
	}{
		// follows: set the clock of this machine, or of the store, by NTP: `timedatectl set-ntp true`
		0:                {doctor.OK, "the clocks of this machine and of the store agree"},
		-2 * time.Minute: {doctor.Warning, "behind the store's"},
		20 * time.Minute: {doctor.Error, "ahead of the store's; S3 refuses requests"},
	} {
		c.now = func() time.Time { return time.Now().Add(off) }
		c.want(want.level, "storage", want.text)
	}
	c.now = time.Now
	if mend := c.want(doctor.Error, "storage", "permission denied"); !strings.Contains(mend, "AWS_ACCESS_KEY_ID") {
		t.Error(mend)
	}
}
