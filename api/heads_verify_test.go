//go:build unported

package api_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/signing"
	"tsmon/store/object"
)

// plant replaces an object behind everybody's back.
func (w *apitest.World) plant(tb testing.TB, key string, data []byte) {
	tb.Helper()
	info, err := w.Objects.Stat(tb.Context(), key)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		tb.Fatal(err)
	}
	apitest.Must[object.Info](tb)(w.Objects.Swap(tb.Context(), key, info.ETag, data, object.Attributes{}))
}

// changed is a manifest after a change to it.
func changed(tb testing.TB, data []byte, change func(*manifest.Manifest)) []byte {
	tb.Helper()
	m := apitest.Must[*manifest.Manifest](tb)(manifest.Decode(data))
	change(m)
	return apitest.Must[[]byte](tb)(m.Encode())
}

// resigned gives every platform the signature of another key, or of another
// version.
func resigned(tb testing.TB, key signing.PrivateKey, version string) func(*manifest.Manifest) {
	sig := apitest.Must[signing.Signature](tb)(key.Sign(signing.Digest{1}, signing.Comment{Version: version}))
	return func(m *manifest.Manifest) {
		for name, p := range m.Platforms {
			p.Signature = sig.String()
			m.Platforms[name] = p
		}
	}
}

// TestBadManifests puts what does not verify in the place of a manifest: the one
// before goes on being served, and everybody is told.
func TestBadManifests(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	good, _ := w.Stored(t, "stable/latest.json")
	stranger := apitest.Must[signing.PrivateKey](t)(signing.GenerateKey())
	for name, bad := range map[string][]byte{
		"another key":     changed(t, good, resigned(t, stranger, "1.0.0")),
		"another version": changed(t, good, resigned(t, d.Key, "0.9.0")),
		"no signature": changed(t, good, func(m *manifest.Manifest) {
			m.Platforms["linux-x86_64"] = manifest.Platform{URL: "https://example.com"}
		}),
		"no address": changed(t, good, func(m *manifest.Manifest) {
			m.Platforms["linux-x86_64"] = manifest.Platform{Signature: m.Platforms["linux-x86_64"].Signature}
		}),
		"no platform":       changed(t, good, func(m *manifest.Manifest) { m.Platforms = nil }),
		"no version":        changed(t, good, func(m *manifest.Manifest) { m.Version = "" }),
		"an unknown member": bytes.Replace(good, []byte(`"notes"`), []byte(`"nodes"`), 1),
		"a page":            []byte("<!DOCTYPE html>"),
		"half of it":        good[:len(good)/2],
		"more behind it":    append(bytes.Clone(good), '{'),
		"nothing":           {},
		"an empty object":   []byte("{}"),
		"too large":         append(bytes.Clone(good), bytes.Repeat([]byte(" "), manifest.MaxSize)...),
		"many problems":     []byte(`{"version":"1.0.0"` + strings.Repeat(`,"version":"1.0.0"`, 50_000) + "}"),
	} {
		t.Run(name, func(t *testing.T) {
			w.plant(t, "stable/latest.json", good)
			s, nobody := w.serveStill(t)
			s.heads.round(t.Context())
			w.plant(t, "stable/latest.json", bad)
			for range 3 {
				s.heads.round(t.Context())
			}
			if got := nobody.Get("/updates/stable/latest.json"); got.Status != 200 || !bytes.Equal(got.Body, good) {
				t.Errorf("it is served: %d %.300s", got.Status, got.Body)
			}
			w.wantAlarm(t, nobody, "stable/latest.json", 1)
			if n := nobody.Metric(`tsmon_updates_bad_manifests_total{channel="stable"}`); n != "1" {
				t.Errorf("it is counted %s times", n)
			}

			older := changed(t, good, func(m *manifest.Manifest) { m.Notes, m.Sequence = "by hand", 0 })
			w.plant(t, "stable/latest.json", older)
			s.heads.round(t.Context())
			if got := nobody.Get("/updates/stable/latest.json"); got.Status != 200 || !bytes.Equal(got.Body, older) {
				t.Errorf("the next one: %d %.300s", got.Status, got.Body)
			}
			w.wantCalm(t, nobody)
		})
	}
}

// serveStill serves a world without rounds of its own, and begins its log anew.
func (w *apitest.World) serveStill(t *testing.T) (*api.Server, apitest.Client) {
	t.Helper()
	w.Logged = &apitest.Logged{}
	w.Log = slog.New(slog.NewJSONHandler(w.Logged, nil))
	var s *api.Server
	server := apitest.ServeWith(t, w, func(made *api.Server, _ *http.Server) {
		s = made
		s.heads.begin.Do(func() {})
	})
	return s, apitest.Client{TB: t, Base: server.URL}
}

// wantAlarm wants one line in the log, a gauge of bad objects and /readyz to say
// that an object does not verify.
func (w *apitest.World) wantAlarm(t *testing.T, c apitest.Client, key string, bad int) {
	t.Helper()
	text := w.Logged.String()
	if n := strings.Count(text, `"level":"ERROR","msg":"an object of the store does not verify and is not shown","object":"`+key+`"`); n != 1 || len(text) > 20_000 {
		t.Errorf("it was logged %d times in %d bytes\n%.3000s", n, len(text), text)
	}
	if n := c.Metric("tsmon_updates_unverified"); n != fmt.Sprint(bad) {
		t.Errorf("%s objects do not verify, by the metrics", n)
	}
	w.Clock.Move(2 * time.Second)
	if got := c.Get("/readyz"); got.Status != 503 || !strings.Contains(string(got.Body), `"updates":"failing"`) || !strings.Contains(string(got.Body), `"objects":"ok"`) {
		t.Errorf("ready: %d %s", got.Status, got.Body)
	}
}

// wantCalm wants that nothing is wrong any more.
func (w *apitest.World) wantCalm(t *testing.T, c apitest.Client) {
	t.Helper()
	w.Clock.Move(2 * time.Second)
	if got := c.Get("/readyz"); got.Status != 200 || c.Metric("tsmon_updates_unverified") != "0" {
		t.Errorf("ready: %d %s", got.Status, got.Body)
	}
}

// TestNeverVerified: a channel that never had a manifest that verifies is there,
// but shows nothing, until it has one.
func TestNeverVerified(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	good, _ := w.Stored(t, "stable/latest.json")
	w.plant(t, "stable/latest.json", []byte("{}"))
	store := w.WatchObjects()
	s, nobody := w.serveStill(t)
	for range 3 {
		if got := nobody.Get("/updates/stable/latest.json").WantFailure(t, 503); !strings.Contains(got, "does not verify") {
			t.Error(got)
		}
		s.heads.round(t.Context())
	}
	w.wantAlarm(t, nobody, "stable/latest.json", 1)
	if n := store.Count("Get stable/latest.json"); n != 1 {
		t.Errorf("what does not verify was read %d times", n)
	}
	w.plant(t, "stable/latest.json", good)
	s.heads.round(t.Context())
	if got := nobody.Get("/updates/stable/latest.json"); !bytes.Equal(got.Body, good) {
		t.Errorf("%d %.300s", got.Status, got.Body)
	}
	w.wantCalm(t, nobody)
}

// TestNoKeys: a server that trusts no key looks at the form alone.
func TestNoKeys(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	w.Keys = nil
	good, _ := w.Stored(t, "stable/latest.json")
	stranger := apitest.Must[signing.PrivateKey](t)(signing.GenerateKey())
	strange := changed(t, good, resigned(t, stranger, "1.0.0"))
	w.plant(t, "stable/latest.json", strange)
	s, nobody := w.serveStill(t)
	if got := nobody.Get("/updates/stable/latest.json"); !bytes.Equal(got.Body, strange) {
		t.Errorf("%d %.300s", got.Status, got.Body)
	}
	w.plant(t, "stable/latest.json", []byte("{}"))
	s.heads.round(t.Context())
	if got := nobody.Get("/updates/stable/latest.json"); !bytes.Equal(got.Body, strange) {
		t.Errorf("%d %.300s", got.Status, got.Body)
	}
	record, _ := w.Stored(t, "releases/1.0.0/release.json")
	if got := nobody.Get("/updates/releases/1.0.0/release.json"); !bytes.Equal(got.Body, record) {
		t.Errorf("%d %.300s", got.Status, got.Body)
	}
}

// edited is a record after a change to it.
func edited(t *testing.T, data []byte, change func(*release.Record)) []byte {
	t.Helper()
	var r release.Record
	apitest.ReadJSON(t, data, &r)
	change(&r)
	return apitest.Must[[]byte](t)(json.Marshal(r))
}

// TestBadRecords puts what does not verify in the place of a release's record.
func TestBadRecords(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	const key = "releases/1.0.0/release.json"
	good, _ := w.Stored(t, key)
	stranger := apitest.Must[signing.PrivateKey](t)(signing.GenerateKey())
	sign := func(key signing.PrivateKey, comment signing.Comment) string {
		return apitest.Must[signing.Signature](t)(key.Sign(signing.Digest{1}, comment)).String()
	}
	for name, bad := range map[string][]byte{
		"another digest":     edited(t, good, func(r *release.Record) { r.Bundles[0].BLAKE2b = strings.Repeat("0", 128) }),
		"half a digest":      edited(t, good, func(r *release.Record) { r.Bundles[0].BLAKE2b = r.Bundles[0].BLAKE2b[:64] }),
		"no digest":          edited(t, good, func(r *release.Record) { r.Bundles[0].BLAKE2b = "x" }),
		"another key":        edited(t, good, func(r *release.Record) { r.Bundles[1].Signature = sign(stranger, signing.Comment{Version: "1.0.0"}) }),
		"another version":    edited(t, good, func(r *release.Record) { r.Bundles[1].Signature = sign(d.Key, signing.Comment{Version: "1.0.1"}) }),
		"another target":     edited(t, good, func(r *release.Record) { r.Bundles[0].Keys = []string{"windows-i686"} }),
		"another's record":   edited(t, good, func(r *release.Record) { r.Version = "1.0.1" }),
		"no signature":       edited(t, good, func(r *release.Record) { r.Bundles[2].Signature = "" }),
		"no bundle":          edited(t, good, func(r *release.Record) { r.Bundles = nil }),
		"a page":             []byte("<!DOCTYPE html>"),
		"half of it":         good[:len(good)/2],
		"another signature":  edited(t, good, func(r *release.Record) { r.Bundles[0].Signature = r.Bundles[1].Signature }),
		"too large":          append(bytes.Clone(good), bytes.Repeat([]byte(" "), maxRecord)...),
		"an array":           []byte("[]"),
		"nothing whatsoever": {},
	} {
		t.Run(name, func(t *testing.T) {
			w.plant(t, key, bad)
			s, nobody := w.serveStill(t)
			for range 3 {
				nobody.Get("/updates/"+key).WantFailure(t, 503)
				s.heads.round(t.Context())
			}
			w.wantAlarm(t, nobody, key, 1)
			w.plant(t, key, good)
			s.heads.round(t.Context())
			w.wantCalm(t, nobody)
			if got := nobody.Get("/updates/" + key); got.Status != 200 || !bytes.Equal(got.Body, good) {
				t.Errorf("%d %.300s", got.Status, got.Body)
			}
		})
	}
}

// TestAlarmsAreBounded: bad records are not remembered without bound, manifests
// are.
func TestAlarmsAreBounded(t *testing.T) {
	w := apitest.Embedded(t)
	s := w.still(t)
	for i := range 3 * maxAlarms {
		s.heads.alarms.raise(fmt.Sprintf("releases/1.0.%d/release.json", i), "etag", errors.New("bad"))
	}
	s.heads.alarms.raise("stable/latest.json", "etag", errors.New("bad"))
	if n := len(s.heads.alarms.bad); n != maxAlarms+1 || !s.heads.alarms.raised("stable/latest.json", "etag") {
		t.Errorf("%d alarms", n)
	}
	if err := s.heads.alarms.err(); err == nil || !strings.Contains(err.Error(), "stable/latest.json: bad") {
		t.Error(err)
	}
}

// TestLegacyRecord: a signature over the bytes themselves can't be verified by a
// digest; its key is.
func TestLegacyRecord(t *testing.T) {
	read := func(name string) string {
		return string(apitest.Must[[]byte](t)(os.ReadFile("../release/testdata/" + name)))
	}
	keys := apitest.Must[signing.Keyring](t)(signing.ParseKeyring([]string{read("minisign.pub")}))
	sig := apitest.Must[signing.Signature](t)(signing.ParseSignature(base64.StdEncoding.EncodeToString([]byte(read("bundle.tar.gz.legacy.minisig")))))
	b := release.Stored{Keys: []string{"linux-x86_64"}, BLAKE2b: strings.Repeat("0", 128), Signature: sig.String()}
	if err := checkBundle(b, "1.2.3", keys); err != nil {
		t.Error(err)
	}
	other := apitest.Must[signing.PrivateKey](t)(signing.GenerateKey())
	if err := checkBundle(b, "1.2.3", signing.Keyring{other.Public()}); !errors.Is(err, signing.ErrUntrustedKey) {
		t.Errorf("the error is %v", err)
	}
}

func FuzzCheckRecord(f *testing.F) {
	key, err := signing.GenerateKey()
	if err != nil {
		f.Fatal(err)
	}
	sig, err := key.Sign(signing.Digest{}, signing.Comment{Version: "1.0.0"})
	if err != nil {
		f.Fatal(err)
	}
	keys := signing.Keyring{key.Public()}
	f.Add([]byte(`{"version":"1.0.0","bundles":[{"name":"a","keys":["linux-x86_64"],"blake2b":"` + strings.Repeat("0", 128) + `","signature":"` + sig.String() + `"}]}`))
	f.Add([]byte(`{"version":"1.0.0","bundles":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if checkRecord(data, "1.0.0", keys) != nil {
			return
		}
		var r release.Record
		apitest.ReadJSON(t, data, &r)
		for _, b := range r.Bundles {
			if b.Signature != sig.String() || !strings.HasPrefix(b.BLAKE2b, strings.Repeat("0", 128)) {
				t.Errorf("accepted a bundle that nobody signed: %+v", b)
			}
		}
	})
}
