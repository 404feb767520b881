package doctor_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/doctor"
)

// TestKeyMends: what doctor says about the application's key is done, and it finds
// nothing wrong any more.
func TestKeyMends(t *testing.T) {
	c := newClinic(t)
	if err := os.Mkdir("src-tauri", 0o755); err != nil {
		t.Fatal(err)
	}
	project := func(pubkey string) {
		t.Helper()
		text := `{"version": "1.0.0", "identifier": "com.example.app", "bundle": {"active": true, "createUpdaterArtifacts": true}, "plugins": {"updater": {"pubkey": "` + pubkey + `", "endpoints": ["` + c.environ["TSMON_PUBLIC_URL"] + `/stable/latest.json"]}}}`
		if err := os.WriteFile("src-tauri/tauri.conf.json", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(level doctor.Level, area, text, mend string) {
		t.Helper()
		if got := c.want(level, area, text); !strings.Contains(got, mend) {
			t.Errorf("the mend is %q, want %q", got, mend)
		}
	}
	const is = "the application's key 9409900376B24132 is trusted"
	project("")
	c.environ["TSMON_TRUSTED_KEYS"] = ""
	// follows: `tsmon keys generate --output ~/.tauri/app.key` makes a key and prints the line for plugins.updater
	wants(doctor.Error, "application", "plugins.updater.pubkey is missing", "`tsmon keys generate --output ~/.tauri/app.key` makes a key")
	project("app.key.pub")
	c.environ["TSMON_TRUSTED_KEYS"] = publicKey
	wants(doctor.Error, "keys", "public key", "")
	project(publicKey)
	c.want(doctor.OK, "keys", is)

	// follows: correct from and until of the key in trusted_keys, or build with the key that they say; `tsmon keys rotate --to FILE` plans the change of a key
	c.environ["TSMON_TRUSTED_KEYS"] = "[{key: " + publicKey + ", from: 2.0.0}]"
	wants(doctor.Error, "keys", "which trusted_keys does not give to its version", "correct from and until of the key in trusted_keys")
	c.environ["TSMON_TRUSTED_KEYS"] = "[{key: " + publicKey + ", from: 1.0.0}]"
	c.want(doctor.OK, "keys", is)
}

// TestServerMends: a server that was wrong or not ready, and then is.
func TestServerMends(t *testing.T) {
	c := newClinic(t)
	// follows: correct it
	c.check = func(config.Server) error { return errors.New("a limit is negative") }
	if mend := c.want(doctor.Error, "server", "a limit is negative"); mend != "correct it" {
		t.Error(mend)
	}
	c.check = func(config.Server) error { return nil }
	var ready atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if ready.Load() {
			_, _ = w.Write([]byte(`{"status":"ok","backends":{}}`))
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"status":"failing","backends":{"records":"failing"}}`))
	}))
	t.Cleanup(server.Close)
	c.environ["TSMON_LISTEN"] = server.Listener.Addr().String()
	// follows: the log of `tsmon serve` says why
	if mend := c.want(doctor.Error, "server", "the server is not ready: records"); mend != "the log of `tsmon serve` says why" {
		t.Error(mend)
	}
	ready.Store(true)
	c.want(doctor.OK, "server", "is ready for updates")
}

// TestCachedBundle: a cache that has another bundle is found, until it is cleared.
func TestCachedBundle(t *testing.T) {
	c := newClinic(t)
	var cleared atomic.Bool
	serving(t, c, func(next http.Handler) http.Handler {
		return goodCaching(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/releases/") && !cleared.Load() {
				w.Header().Set("Content-Range", "bytes 0-0/5")
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write([]byte("b"))
				return
			}
			next.ServeHTTP(w, r)
		}))
	})
	// follows: clear the cache there; no bundle changes under its name
	if mend := c.want(doctor.Error, "public address", "is 5 bytes long there, and 6 in the store"); !strings.Contains(mend, "clear the cache there") {
		t.Error(mend)
	}
	cleared.Store(true)
	if r := c.examine(); r.Errors > 0 {
		t.Error(listed(r))
	}
}
