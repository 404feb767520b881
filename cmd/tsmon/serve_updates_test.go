package main

import (
	"net/http"
	"path/filepath"
	"testing"

	"tsmon/signing"
)

// TestServeUpdates starts a server whose updates are private and whose bundles
// are elsewhere, and then one that trusts another key.
func TestServeUpdates(t *testing.T) {
	t.Parallel()
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	k.must(t, "release", "publish", "--no-probe", "--version", "1.0.0", bundles(t, "1.0.0", 100))
	const token = "token-of-the-updates"
	s := serve(t, t.TempDir(), append(k.env, "TSMON_UPDATES_TOKEN="+token, "TSMON_UPDATES_REDIRECT=true", "TSMON_PUBLIC_URL=https://cdn.example.com/app", "TSMON_REFRESH=1s"))
	s.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	const bundle = "/updates/releases/1.0.0/App_universal.app.tar.gz"
	for path, want := range map[string]int{"/updates/stable/latest.json": 200, bundle + ".sig": 200, bundle: 302} {
		if status, _ := s.ask("GET", path, "", nil); status != 401 {
			t.Errorf("%s without the token: %d", path, status)
		}
		if status, text := s.ask("GET", path, token, nil); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	s.stop()

	other, err := signing.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	s = serve(t, t.TempDir(), append(k.env, "TSMON_TRUSTED_KEYS="+other.Public().String()))
	if status, text := s.ask("GET", "/updates/stable/latest.json", "", nil); status != 503 {
		t.Errorf("signed by another key: %d %s", status, text)
	}
	for _, path := range []string{"/readyz", "/readyz?for=updates"} { // an alarm is no unreadiness
		if status, text := s.ask("GET", path, "", nil); status != 200 {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	s.stop()
}
