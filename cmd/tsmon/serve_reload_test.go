package main

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tsmon/store/servertest"
)

// TestServeReload: after SIGHUP a running server uses another configuration and another certificate.
// No request fails meanwhile, earlier requests are answered, and a mistake in the configuration
// changes nothing.
func TestServeReload(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file, cert, key := filepath.Join(folder, "tsmon.yaml"), filepath.Join(folder, "server.crt"), filepath.Join(folder, "server.key")
	configure := func(storage, rest string) {
		t.Helper()
		text := "storage: " + storage + "\nserver:\n  tls: {cert: server.crt, key: server.key}\n" + rest
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	servertest.Certificate(t, cert, key)
	configure("objects", "  updates: {token: first}\n")
	s := serve(t, filepath.Join(folder, "data"), []string{"TSMON_CONFIG=" + file})
	insecure := func() *http.Client {
		return &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	}
	s.http = insecure()
	says := func(token string) int {
		status, _ := s.ask("GET", "/updates/stable/latest.json", token, nil)
		return status
	}
	serial := func() string {
		t.Helper()
		response, err := insecure().Get(s.base + "/healthz") // on a connection of its own
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.TLS.PeerCertificates[0].SerialNumber.String()
	}
	if says("first") != 404 || says("second") != 401 {
		t.Fatalf("%d with the token, %d without it", says("first"), says("second"))
	}
	before := serial()

	// Requests all the time, and one whose body ends after the reload.
	var asked, failed atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if status, _ := s.ask("GET", "/healthz", "", nil); status != 200 {
				failed.Add(1)
			}
			asked.Add(1)
		}
	}()
	body, rest := io.Pipe()
	answered := make(chan int, 1)
	go func() {
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.base+"/loginPartner", body)
		if err != nil {
			t.Error(err)
		}
		r.Header.Set("Content-Type", "application/json")
		status, _ := s.do(r)
		answered <- status
	}()
	if _, err := rest.Write([]byte(`{"email":`)); err != nil {
		t.Fatal(err)
	}

	hangUp := func() {
		t.Helper()
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	servertest.Certificate(t, cert, key)
	configure("elsewhere", "  updates: {token: second}\n  log: {level: warn}\nchannels: {lab: {rings: true}}\n")
	hangUp()
	until(t, "the new token", func() bool { return says("second") == 404 })
	if says("first") != 401 {
		t.Errorf("the token of before: %d", says("first"))
	}
	if serial() == before {
		t.Error("the certificate is that of before")
	}
	until(t, "the settings that need a restart", func() bool { return strings.Contains(s.log.String(), `"settings":"storage"`) })
	for _, want := range []string{"server.updates.token", "channels.lab.rings", "channels.stable", "server.log.level", "the certificate"} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("the log does not say that %s changed:\n%s", want, s.log.String())
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "elsewhere")); !os.IsNotExist(err) {
		t.Errorf("the new storage is used: %v", err)
	}
	if _, err := rest.Write([]byte(`"ana@example.com"}`)); err != nil {
		t.Fatal(err)
	}
	rest.Close()
	if status := <-answered; status != 401 {
		t.Errorf("a request that began before: %d", status)
	}

	configure("objects", "  updates: {tokn: third}\n")
	hangUp()
	until(t, "the refusal", func() bool { return strings.Contains(s.log.String(), "not reloaded") })
	if says("second") != 404 {
		t.Errorf("after a mistake: %d", says("second"))
	}
	close(stop)
	<-stopped
	if asked.Load() == 0 || failed.Load() > 0 {
		t.Errorf("of %d requests %d failed", asked.Load(), failed.Load())
	}
	s.stop()
}
