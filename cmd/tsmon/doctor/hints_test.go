package doctor_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/doctor"
	"tsmon/release"
	"tsmon/signing"
	"tsmon/store/object"
	"tsmon/store/servertest"
)

// mends wants a finding with that mend.
func (c *clinic) mends(level doctor.Level, area, text, mend string) {
	c.t.Helper()
	if got := c.want(level, area, text); got != mend {
		c.t.Errorf("%s: the mend is %q, want %q", text, got, mend)
	}
}

// illiterate is a store that fails to list or to read.
type illiterate struct {
	object.Store
	list, get error
}

func (s illiterate) List(ctx context.Context, prefix, after string) iter.Seq2[object.Info, error] {
	if s.list == nil {
		return s.Store.List(ctx, prefix, after)
	}
	return func(yield func(object.Info, error) bool) { yield(object.Info{}, s.list) }
}

func (s illiterate) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	if s.get == nil {
		return s.Store.Get(ctx, key)
	}
	return nil, object.Info{}, s.get
}

// TestStorageHints: what a store denies is allowed, and nothing is wrong any more.
func TestStorageHints(t *testing.T) {
	c := newClinic(t)
	serving(t, c, goodCaching)
	failing := func(s illiterate) {
		c.open = func(ctx context.Context, storage string) (object.Store, error) {
			store, err := cli.OpenStore(ctx, storage)
			s.Store = store
			return s, err
		}
	}
	// follows: allow the credentials to list the bucket
	failing(illiterate{list: fs.ErrPermission})
	c.mends(doctor.Error, "storage", "permission denied", "allow the credentials to list the bucket")
	// follows: check storage, and the credentials and their rights
	failing(illiterate{get: errors.New("the gateway speaks another language")})
	c.mends(doctor.Error, "storage", "another language", "check storage, and the credentials and their rights")
	// follows: see storage
	c.mends(doctor.Error, "channels", "another language", "see storage")
	c.mends(doctor.Warning, "public address", "stable can't be compared with the store", "see storage")
	failing(illiterate{})
	c.want(doctor.OK, "storage", "lists what was written")
	c.want(doctor.OK, "channels", "stable shows 1.0.0")
	c.want(doctor.OK, "public address", "serves stable as it is in the store")
}

// TestDamagedManifest: of a manifest that is damaged in the store, the area of the
// channels says how to restore it.
func TestDamagedManifest(t *testing.T) {
	c := newClinic(t)
	path := filepath.Join(c.storage, "stable", "latest.json")
	var sound []byte
	serving(t, c, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(sound) })
	})
	var err error
	if sound, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	// follows: see channels
	c.mends(doctor.Warning, "public address", "serves something else than the store has, which is not to be believed", "see channels")
	c.mends(doctor.Error, "channels", "stable shows something that is no manifest", "tsmon channel repair stable")
	if err := os.WriteFile(path, sound, 0o644); err != nil { // what that command writes, as its own script shows
		t.Fatal(err)
	}
	c.want(doctor.OK, "channels", "stable shows 1.0.0")
	c.want(doctor.OK, "public address", "serves stable as it is in the store")
}

// slow is a store that says nothing of the checksums of bundles.
type slow struct{ object.Store }

func (slow) Checksum(ctx context.Context, _ string) (uint64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// TestSlowChecksums: bundles that can't be compared in time are left to channel verify, which
// takes its time.
func TestSlowChecksums(t *testing.T) {
	c := newClinic(t)
	serving(t, c, goodCaching)
	c.limit = time.Second
	c.open = func(ctx context.Context, storage string) (object.Store, error) {
		store, err := cli.OpenStore(ctx, storage)
		return slow{store}, err
	}
	// follows: `tsmon channel verify …` reads them all
	c.mends(doctor.Warning, "channels", "the bundles of 1.0.0 were not compared with what was published within 500ms", "`tsmon channel verify stable` reads them all")
	p := &release.Publisher{Store: c.store(), PublicURL: c.environ["TSMON_PUBLIC_URL"], Keys: signing.Keyring{{PublicKey: c.key.Public()}}, Now: time.Now}
	report, err := p.Keeper().Verify(t.Context(), "stable")
	if err != nil || len(report.Findings) > 0 || len(report.Releases) != 1 {
		t.Errorf("%v %+v", err, report)
	}
}

// TestPrivateFolders: folders that anybody can read are found, until they are closed.
func TestPrivateFolders(t *testing.T) {
	c := newClinic(t)
	var closed atomic.Bool
	serving(t, c, func(next http.Handler) http.Handler {
		sound := goodCaching(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if closed.Load() && !strings.Contains(r.URL.Path, "/stable/latest.json") && !strings.Contains(r.URL.Path, "/releases/") {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			sound.ServeHTTP(w, r)
		})
	})
	folders := []string{"log/", "plans/", "segments/", "staged/", "uploads/"}
	for _, folder := range folders[1:] {
		if err := os.MkdirAll(filepath.Join(c.storage, folder, "x"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(c.storage, folder, "x", "y"), []byte("some"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range folders {
		// follows: / and releases/ alone, with the policy in the guide (release/README.md, Configure the storage)
		c.mends(doctor.Warning, "public address", "anybody can read "+folder+": ", "let everybody read stable/, beta/ and releases/ alone, with the policy in the guide (release/README.md, Configure the storage)")
	}
	closed.Store(true)
	if report := listed(c.examine()); strings.Contains(report, "anybody can read") {
		t.Error(report)
	}
}

// TestBundlesElsewhere: a release that was published for an address that is no longer
// served, and one after it.
func TestBundlesElsewhere(t *testing.T) {
	c := newClinic(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(gone.Close)
	c.publish(gone.URL)
	server := httptest.NewServer(goodCaching(http.FileServer(http.Dir(c.storage))))
	t.Cleanup(server.Close)
	c.environ["TSMON_PUBLIC_URL"] = server.URL
	// follows: publish a new version: its manifest has addresses below
	c.mends(doctor.Error, "public address", "it was published for another public_url", "publish a new version: its manifest has addresses below "+server.URL)
	c.address = server.URL + "/" + bundleKey
	c.move("1.1.0")
	c.want(doctor.OK, "public address", "serves 1 bundle of 1.1.0, in parts too")
}

// TestClosedBucket: a bucket that nobody may read is opened, or its server's token set.
func TestClosedBucket(t *testing.T) {
	c := newClinic(t)
	var public atomic.Bool
	server := serving(t, c, func(next http.Handler) http.Handler {
		sound := goodCaching(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !public.Load() && r.Header.Get("Authorization") != "Bearer hush" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			sound.ServeHTTP(w, r)
		})
	})
	c.open = func(ctx context.Context, _ string) (object.Store, error) { return cli.OpenStore(ctx, c.storage) }
	c.environ["TSMON_STORAGE"] = "s3://bucket/desktop?endpoint=" + server.URL
	// follows: / and releases/ in the bucket, and nothing else (`mc anonymous set download ALIAS/BUCKET/PREFIX/releases`), or set server.updates.token (TSMON_UPDATES_TOKEN) if the server there wants one
	const mend = "let everybody read stable/, beta/ and releases/ in the bucket, and nothing else (`mc anonymous set download ALIAS/BUCKET/PREFIX/releases`), or set server.updates.token (TSMON_UPDATES_TOKEN) if the server there wants one"
	c.mends(doctor.Error, "public address", "refuses to answer without credentials (status 403)", mend)
	c.environ["TSMON_UPDATES_TOKEN"] = "hush"
	c.want(doctor.OK, "public address", "serves stable as it is in the store")
	c.environ["TSMON_UPDATES_TOKEN"] = ""
	public.Store(true)
	c.want(doctor.OK, "public address", "serves stable as it is in the store")
}

// TestDatabaseHints: databases that are damaged, and put back.
func TestDatabaseHints(t *testing.T) {
	c := newClinic(t)
	for _, name := range []string{"records.db", "series.db"} {
		if err := os.WriteFile(filepath.Join(c.environ["TSMON_DATA"], name), []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// follows: put the database back from a backup, or correct server.records (TSMON_RECORDS)
	c.mends(doctor.Error, "server", "records.db", "put the database back from a backup, or correct server.records (TSMON_RECORDS)")
	// follows: put the database back from a backup, or correct server.series (TSMON_SERIES_URL)
	c.mends(doctor.Error, "server", "series.db", "put the database back from a backup, or correct server.series (TSMON_SERIES_URL)")
	c.environ["TSMON_RECORDS"] = filepath.Join(t.TempDir(), "records.db")
	c.want(doctor.OK, "server", "no records yet")
	for _, name := range []string{"records.db", "series.db"} { // from a backup of before there were any
		if err := os.WriteFile(filepath.Join(c.environ["TSMON_DATA"], name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.environ["TSMON_RECORDS"] = ""
	c.want(doctor.OK, "server", "the store of records answers")
	c.want(doctor.OK, "server", "the store of time series answers")
}

// TestOtherCertificate: a server whose certificate is not the configured one.
func TestOtherCertificate(t *testing.T) {
	c := newClinic(t)
	running := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status":"ok","backends":{}}`))
	}))
	folder, other := t.TempDir(), t.TempDir()
	startTLS(running, certificate(t, folder, 24*90*time.Hour))
	t.Cleanup(running.Close)
	certificate(t, other, 24*90*time.Hour)
	use := func(folder string) {
		c.environ["TSMON_TLS_CERT"], c.environ["TSMON_TLS_KEY"] = filepath.Join(folder, "c.pem"), filepath.Join(folder, "k.pem")
	}
	c.environ["TSMON_LISTEN"] = running.Listener.Addr().String()
	use(other)
	// follows: check that server.listen (TSMON_LISTEN) and the certificate are those of this machine
	c.mends(doctor.Warning, "server", "failed to verify certificate", "check that server.listen (TSMON_LISTEN) and the certificate are those of this machine")
	use(folder)
	c.want(doctor.OK, "server", "is ready for updates")
}

// TestPluginHint: an application without the updater plugin.
func TestPluginHint(t *testing.T) {
	c := newClinic(t)
	if err := os.Mkdir("src-tauri", 0o755); err != nil {
		t.Fatal(err)
	}
	const plain = "[package]\nname = \"app\"\n\n[dependencies]\ntauri = \"2\"\n"
	for path, text := range map[string]string{
		"src-tauri/tauri.conf.json": `{"version": "1.0.0", "identifier": "com.example.app", "bundle": {"active": true, "createUpdaterArtifacts": true}, "plugins": {"updater": {"pubkey": "` + publicKey + `", "dangerousInsecureTransportProtocol": true, "endpoints": ["` + c.environ["TSMON_PUBLIC_URL"] + `/stable/latest.json"]}}}`,
		"src-tauri/Cargo.toml":      plain,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// follows: run `tauri add updater`
	c.mends(doctor.Error, "application", "the application lacks the updater plugin", "run `tauri add updater`")
	added := plain + "\n[target.'cfg(not(any(target_os = \"android\", target_os = \"ios\")))'.dependencies]\ntauri-plugin-updater = \"2\"\n" // as it writes
	if err := os.WriteFile("src-tauri/Cargo.toml", []byte(added), 0o644); err != nil {
		t.Fatal(err)
	}
	c.want(doctor.OK, "application", "builds update bundles, and asks the configured channels")
}

// TestUnknownKey: a private key where no key is trusted.
func TestUnknownKey(t *testing.T) {
	vectors, err := filepath.Abs("../../../signing/testdata")
	if err != nil {
		t.Fatal(err)
	}
	if err := servertest.HideKeys(filepath.Join(vectors, "*", "*.key")); err != nil {
		t.Fatal(err)
	}
	c := newClinic(t)
	c.environ["TSMON_TRUSTED_KEYS"] = ""
	c.environ["TAURI_SIGNING_PRIVATE_KEY"] = filepath.Join(vectors, "minisign", "unencrypted.key")
	// follows: see trusted_keys
	c.mends(doctor.Warning, "keys", "the private key is that of 9409900376B24132", "see trusted_keys")
	if mend := c.want(doctor.Error, "keys", "no key is trusted"); !strings.HasPrefix(mend, "set trusted_keys (TSMON_TRUSTED_KEYS) to the pubkey of tauri.conf.json") {
		t.Error(mend)
	}
	c.environ["TSMON_TRUSTED_KEYS"] = publicKey
	c.want(doctor.OK, "keys", "the private key is that of 9409900376B24132, which is trusted")
}
