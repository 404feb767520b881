package updates_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/updates"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/library"
	"tsmon/signing"
	"tsmon/store/object"
)

// plant replaces an object behind everybody's back.
func plant(tb testing.TB, w *apitest.World, key string, data []byte) {
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

// forged returns a signature with something else in its trusted comment.
func forged(tb testing.TB, signature, old, new string) string {
	tb.Helper()
	text := apitest.Must[[]byte](tb)(base64.StdEncoding.DecodeString(signature))
	if !bytes.Contains(text, []byte(old)) {
		tb.Fatalf("%s lacks %s", text, old)
	}
	return base64.StdEncoding.EncodeToString(bytes.ReplaceAll(text, []byte(old), []byte(new)))
}

// TestOlderManifest: the manifest of an older release, whose signatures are good, is not
// shown under the number of the present one.
func TestOlderManifest(t *testing.T) {
	w := apitest.Embedded(t)
	w.Options.PublicURL = "https://releases.example.com/app"
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	older, _ := w.Stored(t, "stable/latest.json")
	d.PublishVersion(t, "stable", "1.1.0")
	good, _ := w.Stored(t, "stable/latest.json")
	nobody := serveStill(t, w)
	nobody.Heads.Round(t.Context())
	plant(t, w, "stable/latest.json", changed(t, older, func(m *manifest.Manifest) { m.Sequence = 2 }))
	nobody.Heads.Round(t.Context())
	fresh := serveStill(t, w)
	fresh.Heads.Round(t.Context())
	for _, server := range []*apitest.Updates{nobody, fresh} {
		if got := server.Get("/updates/stable/latest.json"); got.Status != 200 || !bytes.Equal(got.Body, good) {
			t.Errorf("it is served: %d %.300s", got.Status, got.Body)
		}
	}
	wantAlarm(t, w, nobody, "stable/latest.json", 1)
}

// TestBadManifests puts what does not verify, or is not what the log shows, in the place
// of a manifest: the log's goes on being served, and everybody is told.
func TestBadManifests(t *testing.T) { testBadManifests(t, apitest.Embedded(t)) }

func testBadManifests(t *testing.T, w *apitest.World) {
	w.Options.PublicURL = "https://releases.example.com/app"
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	good, _ := w.Stored(t, "stable/latest.json")
	stranger := apitest.Must[signing.PrivateKey](t)(signing.GenerateKey())
	for name, bad := range map[string][]byte{
		"another key":     changed(t, good, resigned(t, stranger, "1.0.0")),
		"another version": changed(t, good, resigned(t, d.Key, "0.9.0")),
		"a forged version": changed(t, good, func(m *manifest.Manifest) {
			m.Version = "6.6.6"
			for name, p := range m.Platforms {
				p.Signature = forged(t, p.Signature, "1.0.0", "6.6.6")
				m.Platforms[name] = p
			}
		}),
		"changed notes":     changed(t, good, func(m *manifest.Manifest) { m.Notes = "by hand" }),
		"a critical one":    changed(t, good, func(m *manifest.Manifest) { m.Critical = true }),
		"a minimum version": changed(t, good, func(m *manifest.Manifest) { m.MinimumVersion = "1.0.0" }),
		"another file": changed(t, good, func(m *manifest.Manifest) {
			p := m.Platforms["linux-x86_64"]
			p.URL += ".exe"
			m.Platforms["linux-x86_64"] = p
		}),
		"no number":            changed(t, good, func(m *manifest.Manifest) { m.Sequence = 0 }),
		"a number ahead":       changed(t, good, func(m *manifest.Manifest) { m.Sequence++ }),
		"a number far ahead":   changed(t, good, func(m *manifest.Manifest) { m.Sequence = 1<<53 - 1 }),
		"one platform too few": changed(t, good, func(m *manifest.Manifest) { delete(m.Platforms, "linux-x86_64") }),
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
			plant(t, w, "stable/latest.json", good)
			nobody := serveStill(t, w)
			nobody.Heads.Round(t.Context())
			plant(t, w, "stable/latest.json", bad)
			for range 3 {
				nobody.Heads.Round(t.Context())
			}
			if got := nobody.Get("/updates/stable/latest.json"); got.Status != 200 || !bytes.Equal(got.Body, good) {
				t.Errorf("it is served: %d %.300s", got.Status, got.Body)
			}
			wantAlarm(t, w, nobody, "stable/latest.json", 1)
			if n := nobody.Metric(`tsmon_updates_bad_manifests_total{channel="stable"}`); n != "1" {
				t.Errorf("it is counted %s times", n)
			}

			// The log counts: also while it is so from the start, and for what comes next.
			fresh := serveStill(t, w)
			fresh.Heads.Round(t.Context())
			if got := fresh.Get("/updates/stable/latest.json"); got.Status != 200 || !bytes.Equal(got.Body, good) {
				t.Errorf("it is served by a new server: %d %.300s", got.Status, got.Body)
			}
			plant(t, w, "stable/latest.json", good)
			nobody.Heads.Round(t.Context())
			if got := nobody.Get("/updates/stable/latest.json"); got.Status != 200 || !bytes.Equal(got.Body, good) {
				t.Errorf("the good one again: %d %.300s", got.Status, got.Body)
			}
			wantUnverified(t, w, nobody, 0)
		})
	}
}

// TestOldBundleAnnounced: a signature that names no version would let anybody who can
// write to the store announce an old bundle as a new one, with a log that goes on. Only a
// channel that is said to have such signatures shows them.
func TestOldBundleAnnounced(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		w := apitest.Embedded(t)
		w.Options.PublicURL = "https://releases.example.com/app"
		w.Unbound = map[string]bool{"stable": allowed}
		d := w.Desk(t)
		d.PublishVersion(t, "stable", "1.0.0")
		good, _ := w.Stored(t, "stable/latest.json")
		u := still(t, w)
		u.Heads.Round(t.Context())
		log := apitest.Must[*channels.Log](t)(channels.Repository{Store: w.Objects}.Load(t.Context(), "stable"))
		e := *log.Head()
		e.Release.Version = "9.9.9"
		e.Release.Platforms = maps.Clone(e.Release.Platforms)
		bare := apitest.Must[signing.Signature](t)(d.Key.Sign(signing.Digest{1}, signing.Comment{}))
		for name, b := range e.Release.Platforms {
			b.Signature = bare.String()
			e.Release.Platforms[name] = b
		}
		e.Action, e.When = channels.Publish, w.Now()
		apitest.Must[*channels.Log](t)(channels.Repository{Store: w.Objects}.Append(t.Context(), log, e))
		w.Clock.Move(time.Minute)
		u.Heads.Round(t.Context())
		got := u.Get("/updates/stable/latest.json")
		offered := u.Get("/updates/stable/linux/x86_64/1.0.0")
		switch {
		case !allowed && (!bytes.Equal(got.Body, good) || bytes.Contains(offered.Body, []byte("9.9.9"))):
			t.Errorf("an old bundle is announced: %.300s, %d %.300s", got.Body, offered.Status, offered.Body)
		case allowed && !bytes.Contains(got.Body, []byte("9.9.9")):
			t.Errorf("a channel that moves over shows %.300s", got.Body)
		}
		if !allowed {
			wantUnverified(t, w, u, 1)
		}
	}
}

// serveStill is still with an empty log.
func serveStill(t *testing.T, w *apitest.World) *apitest.Updates {
	t.Helper()
	w.Logged.Reset()
	return still(t, w)
}

// wantAlarm wants one line in the log and the gauge of bad objects to say that an
// object does not verify, and the server to be ready all the same.
func wantAlarm(t *testing.T, w *apitest.World, c *apitest.Updates, key string, bad int) {
	t.Helper()
	text := w.Logged.String()
	if n := strings.Count(text, `"level":"ERROR","msg":"an object of the store does not verify and is not shown","object":"`+key+`"`); n != 1 || len(text) > 20_000 {
		t.Errorf("it was logged %d times in %d bytes\n%.3000s", n, len(text), text)
	}
	wantUnverified(t, w, c, bad)
}

// wantUnverified wants the gauge to count so many bad objects, and the server to be
// ready.
func wantUnverified(t *testing.T, w *apitest.World, c *apitest.Updates, bad int) {
	t.Helper()
	if n := c.Alarms(); n != bad {
		t.Errorf("%d objects do not verify according to the metrics, want %d", n, bad)
	}
	w.Clock.Move(2 * time.Second) // the back ends are asked once a second
	for _, path := range []string{"/readyz", "/readyz?for=updates"} {
		if got := c.Get(path); got.Status != 200 || !strings.Contains(string(got.Body), `"objects":"ok"`) {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
}

// TestReadyAfterAKeyWasRemoved: anybody can ask for the record of a release that only
// a removed key signed. That raises an alarm, and the server stays ready.
func TestReadyAfterAKeyWasRemoved(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	w.Keys = nil
	d := w.Desk(t) // with another key, which alone is trusted now
	d.PublishVersion(t, "beta", "2.0.0")
	server := w.Serve(t)
	c := apitest.Client{TB: t, Base: server.URL}
	c.Get("/updates/releases/1.0.0/release.json").WantFailure(t, 503)
	if c.Alarms() == 0 {
		t.Error("there is no alarm")
	}
	for _, path := range []string{"/readyz", "/readyz?for=updates", "/readyz?for=monitoring"} {
		if got := c.Get(path); got.Status != 200 {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	if got := c.Get("/updates/beta/latest.json"); got.Status != 200 {
		t.Errorf("what the other key signed: %d %s", got.Status, got.Body)
	}
}

// TestReadyAfterAKeyEnded: what a key signed that newer applications lack stays good.
func TestReadyAfterAKeyEnded(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	w.Keys[0].Until = "1.5.0"
	d := w.Desk(t)
	d.PublishVersion(t, "beta", "2.0.0")
	c := w.ServeUpdates(t)
	for _, path := range []string{"/updates/releases/1.0.0/release.json", "/updates/stable/latest.json", "/updates/beta/latest.json", "/updates/releases/2.0.0/release.json"} {
		if got := c.Get(path); got.Status != 200 {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	if got := linux(c.Client, "0.9.0", "").Version(t); got != "1.0.0" {
		t.Errorf("a client is offered %s", got)
	}
	wantUnverified(t, w, c, 0)
}

// TestNeverVerified: a channel that never had a manifest that verifies is there,
// but shows nothing, until it has one.
func TestNeverVerified(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	good, _ := w.Stored(t, "stable/latest.json")
	plant(t, w, "stable/latest.json", []byte("{}"))
	store := w.WatchObjects()
	nobody := serveStill(t, w)
	for range 3 {
		if got := nobody.Get("/updates/stable/latest.json").WantFailure(t, 503); !strings.Contains(got, "does not verify") {
			t.Error(got)
		}
		nobody.Heads.Round(t.Context())
	}
	wantAlarm(t, w, nobody, "stable/latest.json", 1)
	if n := store.Count("Get stable/latest.json"); n != 1 {
		t.Errorf("what does not verify was read %d times", n)
	}
	plant(t, w, "stable/latest.json", good)
	nobody.Heads.Round(t.Context())
	if got := nobody.Get("/updates/stable/latest.json"); !bytes.Equal(got.Body, good) {
		t.Errorf("%d %.300s", got.Status, got.Body)
	}
	wantUnverified(t, w, nobody, 0)
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
	plant(t, w, "other/latest.json", strange) // without a log
	nobody := serveStill(t, w)
	if got := nobody.Get("/updates/other/latest.json"); !bytes.Equal(got.Body, strange) {
		t.Errorf("%d %.300s", got.Status, got.Body)
	}
	plant(t, w, "other/latest.json", []byte("{}"))
	nobody.Heads.Round(t.Context())
	if got := nobody.Get("/updates/other/latest.json"); !bytes.Equal(got.Body, strange) {
		t.Errorf("%d %.300s", got.Status, got.Body)
	}
	record, _ := w.Stored(t, "releases/1.0.0/release.json")
	if got := nobody.Get("/updates/releases/1.0.0/release.json"); !bytes.Equal(got.Body, record) {
		t.Errorf("%d %.300s", got.Status, got.Body)
	}
}

// edited is a record after a change to it.
func edited(t *testing.T, data []byte, change func(*library.Record)) []byte {
	t.Helper()
	var r library.Record
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
		"another digest":     edited(t, good, func(r *library.Record) { r.Bundles[0].BLAKE2b = strings.Repeat("0", 128) }),
		"half a digest":      edited(t, good, func(r *library.Record) { r.Bundles[0].BLAKE2b = r.Bundles[0].BLAKE2b[:64] }),
		"no digest":          edited(t, good, func(r *library.Record) { r.Bundles[0].BLAKE2b = "x" }),
		"another key":        edited(t, good, func(r *library.Record) { r.Bundles[1].Signature = sign(stranger, signing.Comment{Version: "1.0.0"}) }),
		"another version":    edited(t, good, func(r *library.Record) { r.Bundles[1].Signature = sign(d.Key, signing.Comment{Version: "1.0.1"}) }),
		"another target":     edited(t, good, func(r *library.Record) { r.Bundles[0].Keys = []string{"windows-i686"} }),
		"another's record":   edited(t, good, func(r *library.Record) { r.Version = "1.0.1" }),
		"no signature":       edited(t, good, func(r *library.Record) { r.Bundles[2].Signature = "" }),
		"no bundle":          edited(t, good, func(r *library.Record) { r.Bundles = nil }),
		"discarded":          edited(t, good, func(r *library.Record) { r.Bundles, r.Discarded = nil, true }),
		"a page":             []byte("<!DOCTYPE html>"),
		"half of it":         good[:len(good)/2],
		"another signature":  edited(t, good, func(r *library.Record) { r.Bundles[0].Signature = r.Bundles[1].Signature }),
		"too large":          append(bytes.Clone(good), bytes.Repeat([]byte(" "), updates.MaxRecord)...),
		"an array":           []byte("[]"),
		"nothing whatsoever": {},
	} {
		t.Run(name, func(t *testing.T) {
			plant(t, w, key, bad)
			nobody := serveStill(t, w)
			for range 3 {
				nobody.Get("/updates/"+key).WantFailure(t, 503)
				nobody.Heads.Round(t.Context())
			}
			wantAlarm(t, w, nobody, key, 1)
			plant(t, w, key, good)
			nobody.Heads.Round(t.Context())
			wantUnverified(t, w, nobody, 0)
			if got := nobody.Get("/updates/" + key); got.Status != 200 || !bytes.Equal(got.Body, good) {
				t.Errorf("%d %.300s", got.Status, got.Body)
			}
		})
	}
}

// TestLaterRecords: a release that was discarded and published again has several
// records. The mark between them is no alarm.
func TestLaterRecords(t *testing.T) {
	w := apitest.Embedded(t)
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	good, _ := w.Stored(t, "releases/1.0.0/release.json")
	mark := edited(t, good, func(r *library.Record) { r.Bundles, r.Discarded = nil, true })
	plant(t, w, "releases/1.0.0/release-2.json", mark)
	plant(t, w, "releases/1.0.0/release-3.json", good)
	plant(t, w, "releases/1.0.0/release-4.json", mark[:len(mark)/2])
	nobody := serveStill(t, w)
	nobody.Heads.Round(t.Context())
	nobody.Get("/updates/releases/1.0.0/release-2.json").WantFailure(t, 404)
	wantUnverified(t, w, nobody, 0)
	if got := nobody.Get("/updates/releases/1.0.0/release-3.json"); !bytes.Equal(got.Body, good) {
		t.Errorf("%d %.300s", got.Status, got.Body)
	}
	nobody.Get("/updates/releases/1.0.0/release-4.json").WantFailure(t, 503)
	wantAlarm(t, w, nobody, "releases/1.0.0/release-4.json", 1)
}

// TestSupersededRecord: where another record is the one that the log names, the one before it
// is not there, whatever it says, and that is no alarm. A server that begins with it looks at
// the logs first.
func TestSupersededRecord(t *testing.T) {
	w := apitest.Embedded(t)
	w.Refresh = 20 * time.Millisecond
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	good, _ := w.Stored(t, "releases/1.0.0/release.json")
	plant(t, w, "releases/1.0.0/release.json", edited(t, good, func(r *library.Record) { r.Notes = "evil" }))
	u := w.ServeUpdates(t)
	u.Get("/updates/releases/1.0.0/release.json").WantFailure(t, 503)
	wantUnverified(t, w, u, 1)
	plant(t, w, "releases/1.0.0/release-2.json", good)
	u.Get("/updates/releases/1.0.0/release.json").WantFailure(t, 404)
	wantUnverified(t, w, u, 0)
	if got := u.Get("/updates/releases/1.0.0/release-2.json"); !bytes.Equal(got.Body, good) {
		t.Errorf("%d %.300s", got.Status, got.Body)
	}
}

// TestAlarmsAreBounded: bad records are not remembered without bound, manifests
// are.
func TestAlarmsAreBounded(t *testing.T) {
	w := apitest.Embedded(t)
	heads := still(t, w).Heads
	for i := range 3 * updates.MaxAlarms {
		heads.Raise(fmt.Sprintf("releases/1.0.%d/release.json", i), "etag", errors.New("bad"))
	}
	heads.Raise("stable/latest.json", "etag", errors.New("bad"))
	if n := heads.Alarms(); n != updates.MaxAlarms+1 || !heads.Raised("stable/latest.json", "etag") {
		t.Errorf("%d alarms", n)
	}
}

// TestLegacyRecord: a signature over the bytes themselves can't be verified by a
// digest; its key is.
func TestLegacyRecord(t *testing.T) {
	read := func(name string) string {
		return string(apitest.Must[[]byte](t)(os.ReadFile("../../release/testdata/" + name)))
	}
	keys := apitest.Must[signing.Keyring](t)(signing.ParseKeyring([]signing.KeyText{{Key: read("minisign.pub")}}))
	sig := apitest.Must[signing.Signature](t)(signing.ParseSignature(base64.StdEncoding.EncodeToString([]byte(read("bundle.tar.gz.legacy.minisig")))))
	b := library.Stored{Keys: []string{"linux-x86_64"}, BLAKE2b: strings.Repeat("0", 128), Signature: sig.String()}
	if err := updates.CheckBundle(b, "1.2.3", keys); err != nil {
		t.Error(err)
	}
	other := apitest.Must[signing.PrivateKey](t)(signing.GenerateKey())
	if err := updates.CheckBundle(b, "1.2.3", signing.Keyring{{PublicKey: other.Public()}}); !errors.Is(err, signing.ErrUntrustedKey) {
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
	keys := signing.Keyring{{PublicKey: key.Public()}}
	f.Add([]byte(`{"version":"1.0.0","bundles":[{"name":"a","keys":["linux-x86_64"],"blake2b":"` + strings.Repeat("0", 128) + `","signature":"` + sig.String() + `"}]}`))
	f.Add([]byte(`{"version":"1.0.0","bundles":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if updates.CheckRecord(data, "1.0.0", keys) != nil {
			return
		}
		var r library.Record
		apitest.ReadJSON(t, data, &r)
		for _, b := range r.Bundles {
			if len(b.Keys) > 0 && (b.Signature != sig.String() || !strings.HasPrefix(b.BLAKE2b, strings.Repeat("0", 128))) {
				t.Errorf("accepted a bundle that nobody signed: %+v", b)
			}
		}
	})
}
