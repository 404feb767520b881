package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// reload sends SIGHUP and waits until the log says, in a line of its own, that settings
// changed. It returns what the line names.
func (s *served) reload() (changed string) {
	s.t.Helper()
	lines := func() (lines []string) {
		for line := range strings.Lines(s.log.String()) {
			if strings.Contains(line, `"reloaded"`) {
				lines = append(lines, line)
			}
		}
		return lines
	}
	before := len(lines())
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	until(s.t, "the reload", func() bool { return len(lines()) > before })
	var said struct{ Changed string }
	if err := json.Unmarshal([]byte(lines()[before]), &said); err != nil {
		s.t.Fatal(err)
	}
	return said.Changed
}

// TestReloadTrustedKeys: after a reload with another trusted key, a server shows no release of the
// former key, whether the configuration has the key itself or a file.
func TestReloadTrustedKeys(t *testing.T) {
	t.Parallel()
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	k.must(t, "release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 100))
	folder := t.TempDir()
	k.must(t, "keys", "generate", "--no-password", "-o", filepath.Join(folder, "other.key"))
	other, err := os.ReadFile(filepath.Join(folder, "other.key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	file, public := filepath.Join(folder, "tsmon.yaml"), filepath.Join(folder, "trusted.pub")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trust := func(key string) {
		t.Helper()
		write(file, "storage: "+k.storage+"\npublic_url: "+k.url+"\ntrusted_keys: ["+key+"]\n")
	}
	trust(k.keys)
	s := serve(t, filepath.Join(folder, "data"), []string{"TSMON_CONFIG=" + file, "TSMON_REFRESH=50ms"})
	shows := func(when string, want bool) {
		t.Helper()
		until(t, when, func() bool {
			status, text := s.ask("GET", "/updates/stable/latest.json", "", nil)
			return (status == http.StatusOK && bytes.Contains(text, []byte(`"1.0.0"`))) == want && status != 0
		})
	}
	shows("the release of a trusted key", true)
	for _, step := range []struct {
		what   string
		change func()
		shown  bool
	}{
		{"another key", func() { trust(strings.TrimSpace(string(other))) }, false},
		{"the key again", func() { trust(k.keys) }, true},
		{"a file of it", func() { write(public, k.keys); trust("trusted.pub") }, true},
		{"another key in the file", func() { write(public, string(other)) }, false},
		{"the key again in the file", func() { write(public, k.keys) }, true},
	} {
		step.change()
		if changed := s.reload(); !strings.Contains(changed, "trusted_keys") && step.what != "a file of it" {
			t.Errorf("%s: the log says that %q changed", step.what, changed)
		}
		shows(step.what, step.shown)
	}
	if changed := s.reload(); changed != "" {
		t.Errorf("nothing changed, and the log says %q", changed)
	}
	s.stop()
}

// TestReloadTokenKeys: SIGHUP reads the keys of access tokens from their file again, and from another
// file if the configuration names one.
func TestReloadTokenKeys(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	configure := func(keys string) {
		t.Helper()
		if err := os.WriteFile(path("tsmon.yaml"), []byte("server: {token_keys: "+keys+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("first.json")
	s := serve(t, path("data"), []string{"TSMON_CONFIG=" + path("tsmon.yaml")}, "--demo")
	d := s.demoReady()
	first := s.login(d)
	takes := func(when, token string, want int) {
		t.Helper()
		if status, text := s.ask("GET", "/getAllMenu", token, nil); status != want {
			t.Errorf("%s: %d %s", when, status, text)
		}
	}
	takes("at first", first, http.StatusOK)
	kept, err := os.ReadFile(path("first.json"))
	if err != nil {
		t.Fatal(err)
	}

	configure("second.json")
	if changed := s.reload(); !strings.Contains(changed, "server.token_keys") || !strings.Contains(changed, "the keys of access tokens") {
		t.Errorf("with another file the log says that %q changed", changed)
	}
	takes("with another file", first, http.StatusUnauthorized)
	second := s.login(d)
	takes("with another file", second, http.StatusOK)

	if err := os.WriteFile(path("second.json"), kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if changed := s.reload(); changed != "the keys of access tokens" {
		t.Errorf("with other keys in the file the log says that %q changed", changed)
	}
	takes("with other keys in the file", second, http.StatusUnauthorized)
	takes("with the first keys in the file", first, http.StatusOK)
	if changed := s.reload(); changed != "" {
		t.Errorf("nothing changed, and the log says %q", changed)
	}
	s.stop()
}

// TestReloadWarnsOnce: the log warns only once that a proxy forwards requests, even after a reload.
func TestReloadWarnsOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), nil)
	for range 2 {
		for range 2 {
			r, err := http.NewRequestWithContext(t.Context(), "GET", s.base+"/healthz", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Forwarded-For", "192.0.2.7")
			if status, text := s.do(r); status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
		}
		s.reload()
	}
	s.stop()
	if n := strings.Count(s.log.String(), "a proxy passes requests on"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
}
