package releasing

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/release"
	"tsmon/signing"
)

// transportFunc is a server inside the process.
type transportFunc func(r *http.Request) (status int, body []byte)

func (a transportFunc) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := a(r)
	recorder := httptest.NewRecorder()
	recorder.WriteHeader(status)
	_, _ = recorder.Write(body)
	return recorder.Result(), nil
}

// manifests are two states of a channel whose only bundle is served at /bundle.
func manifests(t *testing.T) (old, current manifest.Manifest, keys signing.Keyring) {
	t.Helper()
	key, err := signing.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	at := func(version string, sequence uint64) manifest.Manifest {
		digest, _, err := signing.HashReader(t.Context(), strings.NewReader("bundle"))
		if err != nil {
			t.Fatal(err)
		}
		sig, err := key.Sign(digest, signing.Comment{File: "App_amd64.AppImage.tar.gz", Version: version})
		if err != nil {
			t.Fatal(err)
		}
		return manifest.Manifest{Version: version, Sequence: sequence, PubDate: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
			Platforms: map[string]manifest.Platform{"linux-x86_64": {Signature: sig.String(), URL: "https://h/App_amd64.AppImage.tar.gz"}}}
	}
	return at("1.0.0", 1), at("1.1.0", 2), signing.Keyring{{PublicKey: key.Public()}}
}

func encoded(t *testing.T, m manifest.Manifest) []byte {
	t.Helper()
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestProbeGetsPastCaches: a cache that honours no-cache, or one that keeps a copy
// for each query, is asked once; one that honours neither costs a few seconds and is
// no failure.
func TestProbeGetsPastCaches(t *testing.T) {
	old, current, keys := manifests(t)
	stale, fresh := encoded(t, old), encoded(t, current)
	for _, c := range []struct {
		name   string
		cached func(r *http.Request) bool // the cache answers by itself
		unseen bool
	}{
		{"no-cache", func(r *http.Request) bool { return r.Header.Get("Cache-Control") != "no-cache" }, false},
		{"query", func(r *http.Request) bool { return r.URL.RawQuery == "" }, false},
		{"neither", func(*http.Request) bool { return true }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := transportFunc(func(r *http.Request) (int, []byte) {
					switch {
					case !strings.HasSuffix(r.URL.Path, "/latest.json"):
						return 200, []byte("bundle")
					case c.cached(r):
						return 200, stale
					}
					return 200, fresh
				})
				begin := time.Now()
				err := probe(&http.Client{Transport: server}, "", keys, false)(t.Context(), "https://h/stable/latest.json", current, true)
				took := time.Since(begin)
				switch {
				case !c.unseen && (err != nil || took > 0):
					t.Errorf("after %s: %v", took, err)
				case c.unseen && (!errors.Is(err, release.ErrUnseen) || !errors.Is(err, updater.ErrStale) || took != probePatience):
					t.Errorf("after %s: %v, want ErrUnseen after %s", took, err, probePatience)
				}
			})
		})
	}
}

// TestProbeWithoutToken: the error names the token, not caches.
func TestProbeWithoutToken(t *testing.T) {
	_, current, keys := manifests(t)
	body := encoded(t, current)
	server := transportFunc(func(r *http.Request) (int, []byte) {
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			return http.StatusUnauthorized, nil
		case strings.HasSuffix(r.URL.Path, "/latest.json"):
			return 200, body
		}
		return 200, []byte("bundle")
	})
	for token, want := range map[string]string{"secret": "", "": "TSMON_UPDATES_TOKEN", "wrong": "refuses the configured token"} {
		err := probe(&http.Client{Transport: server}, token, keys, false)(t.Context(), "https://h/stable/latest.json", current, true)
		if token == "secret" && err != nil || token != "secret" && (!errors.Is(err, release.ErrUnseen) || !strings.Contains(err.Error(), want)) {
			t.Errorf("token %q: %v, want %q", token, err, want)
		}
	}
}

// TestProbeWithoutQuery: a server that refuses unknown queries is asked without one.
func TestProbeWithoutQuery(t *testing.T) {
	_, current, keys := manifests(t)
	body := encoded(t, current)
	server := transportFunc(func(r *http.Request) (int, []byte) {
		switch {
		case r.URL.RawQuery != "":
			return http.StatusForbidden, nil
		case strings.HasSuffix(r.URL.Path, "/latest.json"):
			return 200, body
		}
		return 200, []byte("bundle")
	})
	if err := probe(&http.Client{Transport: server}, "", keys, false)(t.Context(), "https://h/stable/latest.json", current, true); err != nil {
		t.Error(err)
	}
}

// TestReadable: status 403 alone says that clients may not read a file, and not where only
// the query is refused, which keeps caches from remembering what was missing.
func TestReadable(t *testing.T) {
	for name, c := range map[string]struct {
		query, plain int // statuses
		asked        int
		readable     bool
	}{
		"there":         {200, 200, 1, true},
		"missing":       {404, 404, 1, true},
		"broken":        {500, 500, 1, true},
		"a token":       {401, 401, 1, true},
		"hidden":        {403, 403, 2, false},
		"no queries":    {403, 200, 2, true},
		"none, missing": {403, 404, 2, true},
	} {
		asked := 0
		server := transportFunc(func(r *http.Request) (int, []byte) {
			if asked++; r.URL.Query().Has("fresh") {
				return c.query, nil
			}
			return c.plain, nil
		})
		err := readable(&http.Client{Transport: server})(t.Context(), "https://h/stable/latest.json")
		if (err == nil) != c.readable || asked != c.asked {
			t.Errorf("%s: %v after %d requests", name, err, asked)
		}
		if err != nil && !strings.Contains(err.Error(), "https://h/stable/latest.json answers with status 403") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
