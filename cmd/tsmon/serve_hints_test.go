package main

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsmon/api/monitor/mqtt"
	"tsmon/store/servertest"
)

// TestServeHints: if tsmon serve refuses to start, it works after doing what its hint says.
func TestServeHints(t *testing.T) {
	t.Parallel()
	const cors, images = "https://a.example.com", "https://pictures.example.com"
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "server.crt"), filepath.Join(folder, "server.key")
	servertest.Certificate(t, cert, key)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	broker, err := mqtt.Listen(t.Context(), mqtt.BrokerOptions{Address: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })

	for name, c := range map[string]struct {
		listen, mended   string // addresses, 127.0.0.1:0 if empty
		wrong, right     []string
		code             int
		hint             string
		path, head, want string // asked of the mended server; a header that it answers
	}{
		"origins": {wrong: []string{"TSMON_CORS_ORIGINS=" + cors + "/app"}, right: []string{"TSMON_CORS_ORIGINS=https://b.example.com," + cors}, code: 2,
			// follows: TSMON_CORS_ORIGINS takes exact origins, separated by commas
			hint: "TSMON_CORS_ORIGINS takes exact origins, separated by commas", head: "Access-Control-Allow-Origin", want: cors},
		"pictures": {wrong: []string{"TSMON_CONSOLE_IMAGES=" + images + "/img"}, right: []string{"TSMON_CONSOLE_IMAGES=https://b.example.com," + images}, code: 2,
			// follows: TSMON_CONSOLE_IMAGES takes exact origins, separated by commas
			hint: "TSMON_CONSOLE_IMAGES takes exact origins, separated by commas", path: "/console/", head: "Content-Security-Policy", want: images},
		"in the open": {listen: "0.0.0.0:0", mended: "0.0.0.0:0", right: []string{"TSMON_BEHIND_PROXY=true"}, code: 2,
			// follows: set TSMON_TLS_CERT and TSMON_TLS_KEY, or TSMON_BEHIND_PROXY=true if a proxy in front speaks TLS
			hint: "set TSMON_TLS_CERT and TSMON_TLS_KEY, or TSMON_BEHIND_PROXY=true if a proxy in front speaks TLS"},
		"broker in the open": {wrong: []string{"TSMON_MQTT_LISTEN=0.0.0.0:0"}, right: []string{"TSMON_MQTT_LISTEN=127.0.0.1:0"}, code: 2,
			// follows: listen on 127.0.0.1, or set TSMON_MQTT_URL to a broker such as Mosquitto
			hint: "listen on 127.0.0.1, or set TSMON_MQTT_URL to a broker such as Mosquitto", path: "/readyz?for=monitoring"},
		"broker elsewhere": {wrong: []string{"TSMON_MQTT_LISTEN=0.0.0.0:0"}, right: []string{"TSMON_MQTT_URL=mqtt://" + broker.Addr()}, code: 2,
			hint: "or set TSMON_MQTT_URL to a broker such as Mosquitto", path: "/readyz?for=monitoring"},
		"password of a broker": {wrong: []string{"TSMON_MQTT_URL=mqtts://user:ge%heim@" + broker.Addr()}, right: []string{"TSMON_MQTT_URL=mqtt://user:ge%25heim@" + broker.Addr()}, code: 2,
			// follows: write TSMON_MQTT_URL like mqtts://USER:PASSWORD@HOST:8883; special characters of the password as %XX
			hint: "write TSMON_MQTT_URL like mqtts://USER:PASSWORD@HOST:8883; special characters of the password as %XX", path: "/readyz?for=monitoring"},
		"address of a broker": {wrong: []string{"TSMON_MQTT_LISTEN=" + taken.Addr().String()}, right: []string{"TSMON_MQTT_LISTEN=127.0.0.1:0"}, code: 1,
			// follows: choose another address with TSMON_MQTT_LISTEN
			hint: "choose another address with TSMON_MQTT_LISTEN", path: "/readyz?for=monitoring"},
		"address": {listen: taken.Addr().String(), mended: "127.0.0.1:0", code: 1,
			// follows: choose another address with --listen
			hint: "choose another address with --listen"},
		"address without a host": {listen: "8081", mended: "127.0.0.1:0", code: 2,
			// follows: write HOST:PORT, such as 127.0.0.1:8080
			hint: "write HOST:PORT, such as 127.0.0.1:8080"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, listen := filepath.Join(t.TempDir(), "data"), "127.0.0.1:0"
			if c.listen != "" {
				listen = c.listen
			}
			_, stderr, code := command(t, append([]string{"TSMON_MQTT_LISTEN=127.0.0.1:0"}, c.wrong...), "tsmon", "serve", "--data", data, "--listen", listen)
			if code != c.code || !strings.Contains(stderr, "\nhint: ") || !strings.Contains(stderr, c.hint) || strings.Contains(stderr, "heim") {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			if c.mended != "" {
				listen = c.mended
			}
			s := serve(t, data, c.right, "--listen", listen)
			path := c.path
			if path == "" {
				path = "/healthz"
			}
			until(t, s.base+path, func() bool {
				status, header := s.answers(path, cors)
				return status == http.StatusOK && strings.Contains(header.Get(c.head), c.want)
			})
			s.stop()
		})
	}
}

// answers requests a path as a page of another origin would.
func (s *served) answers(path, origin string) (status int, header http.Header) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.base+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Origin", origin)
	response, err := s.http.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, response.Header
}

// TestServeFileHints: files that tsmon serve refuses are fixed as its hints say.
func TestServeFileHints(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	secrets, cert, key := filepath.Join(data, "secrets.json"), filepath.Join(data, "server.crt"), filepath.Join(data, "server.key")
	serve(t, data, nil).stop()
	refused := func(hint string, env ...string) {
		t.Helper()
		_, stderr, code := command(t, append(env, "TSMON_MQTT_LISTEN=127.0.0.1:0"), "tsmon", "serve", "--data", data, "--listen", "127.0.0.1:0")
		if code != 1 || !strings.HasSuffix(stderr, "hint: "+hint+"\n") {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
	}
	if err := os.Chmod(secrets, 0o644); err != nil {
		t.Fatal(err)
	}
	// follows: chmod
	refused("chmod 600 " + secrets)
	if _, stderr, code := command(t, nil, "chmod", "600", secrets); code != 0 {
		t.Fatal(stderr)
	}
	serve(t, data, nil).stop()

	if err := os.WriteFile(secrets, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	// follows: move it away: the server creates a new one
	refused("move it away: the server creates a new one")
	if err := os.Rename(secrets, secrets+".old"); err != nil {
		t.Fatal(err)
	}
	serve(t, data, nil).stop()
	if text, err := os.ReadFile(secrets); err != nil || !strings.Contains(string(text), "write_token") {
		t.Errorf("%s, %v", text, err)
	}

	for _, file := range []string{cert, key} {
		if err := os.WriteFile(file, []byte("DER"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// follows: TSMON_TLS_CERT and TSMON_TLS_KEY name PEM files
	env := []string{"TSMON_TLS_CERT=" + cert, "TSMON_TLS_KEY=" + key}
	refused("TSMON_TLS_CERT and TSMON_TLS_KEY name PEM files", env...)
	servertest.Certificate(t, cert, key)
	s := serve(t, data, env)
	if !strings.HasPrefix(s.base, "https://") {
		t.Errorf("it serves %s", s.base)
	}
	s.stop()
}

// TestServeMetricsListen: metrics are shown at an address of their own, and nowhere else.
func TestServeMetricsListen(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	data := filepath.Join(t.TempDir(), "data")
	env := []string{"TSMON_MQTT_LISTEN=127.0.0.1:0", "TSMON_METRICS_LISTEN=" + taken.Addr().String()}
	// follows: choose another address with TSMON_METRICS_LISTEN
	_, stderr, code := command(t, env, "tsmon", "serve", "--data", data, "--listen", "127.0.0.1:0")
	if code != 1 || !strings.HasSuffix(stderr, "hint: choose another address with TSMON_METRICS_LISTEN\n") {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	taken.Close()
	s := serve(t, data, env)
	for address, want := range map[string]int{
		"http://" + taken.Addr().String() + "/metrics": http.StatusOK,
		"http://" + taken.Addr().String() + "/healthz": http.StatusNotFound,
		s.base + "/metrics":                            http.StatusForbidden,
	} {
		response, err := s.http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %d, want %d", address, response.StatusCode, want)
		}
	}
	s.stop()
}
