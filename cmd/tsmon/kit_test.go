package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/api"
	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/release"
	"tsmon/store/object"
	"tsmon/store/servertest"
)

// kit is a storage, a server that serves it, and the environment of commands that use both.
type kit struct {
	storage string
	store   object.Store
	url     string // public_url
	env     []string
	keys    string
	rings   map[string]bool   // channels that keep rings, as the server knows them
	stop    func()            // ends the server
	minio   *servertest.MinIO // nil on a directory
}

// storages runs a test on a directory and, if it is available, on MinIO. fresh returns a new, empty
// storage for each call. Both run in parallel with other tests.
func storages(t *testing.T, test func(t *testing.T, fresh func(t *testing.T) *kit)) {
	t.Parallel()
	t.Run("dir", func(t *testing.T) {
		t.Parallel()
		w := apitest.Embedded(t)
		test(t, func(t *testing.T) *kit { return newKitOn(t, w, filepath.Join(t.TempDir(), "store"), nil) })
	})
	if testing.Short() {
		return // the race detector's run, which is slow
	}
	t.Run("minio", func(t *testing.T) {
		t.Parallel()
		server := servertest.SharedMinIO(t)
		n, w := 0, apitest.Embedded(t)
		test(t, func(t *testing.T) *kit {
			n++
			k := newKitOn(t, w, server.URL(fmt.Sprintf("desktop/%d", n)), server.Env())
			k.minio = server
			return k
		})
	})
}

func newKit(t *testing.T, storage string, env []string) *kit {
	t.Helper()
	return newKitOn(t, apitest.Embedded(t), storage, env)
}

// newKitOn makes a kit whose server has everything but its storage from w.
func newKitOn(t *testing.T, w *apitest.World, storage string, env []string) *kit {
	t.Helper()
	store, err := cli.OpenStore(t.Context(), storage)
	if err != nil {
		t.Fatal(err)
	}
	o := w.Options
	rings := map[string]bool{"stable": false, "beta": false}
	o.Objects, o.Store, o.Refresh, o.Rings = anyTime(store), storage, 10*time.Millisecond, rings
	if strings.HasPrefix(storage, "s3:") {
		o.Refresh = 50 * time.Millisecond // MinIO would do little else than answer
	}
	handler := api.New(o)
	server := httptest.NewServer(handler.Handler())
	stop := sync.OnceFunc(func() {
		server.Close()
		handler.Close()
	})
	t.Cleanup(stop)
	public, err := os.ReadFile("testdata/unencrypted.pub")
	if err != nil {
		t.Fatal(err)
	}
	_, keys, _ := strings.Cut(strings.TrimSpace(string(public)), "\n")
	key, err := filepath.Abs("testdata/unencrypted.key")
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{storage: storage, store: store, url: server.URL + "/updates", keys: keys, rings: rings, stop: stop}
	k.env = append([]string{"XDG_DATA_HOME=" + t.TempDir(), "TSMON_STORAGE=" + storage, "TSMON_PUBLIC_URL=" + k.url, "TSMON_TRUSTED_KEYS=" + keys, "TAURI_SIGNING_PRIVATE_KEY=" + key}, env...)
	return k
}

// tsmon runs the program.
func (k *kit) tsmon(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return command(t, k.env, "tsmon", args...)
}

// must runs a command in the test's process, which takes less time than one of its own,
// and wants success.
func (k *kit) must(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	app := cli.New()
	app.Stdin, app.Stdout, app.Stderr = strings.NewReader(""), &stdout, &stderr
	app.Environ = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, k.env...)
	for _, variable := range k.env {
		if later, ok := strings.CutPrefix(variable, "LATER="); ok {
			moveClocks(app, later, "")
		}
	}
	if code := app.Run(t.Context(), rootCommand(app), args); code != 0 {
		t.Fatalf("tsmon %s: exit code %d\n%s", strings.Join(args, " "), code, &stderr)
	}
	return stdout.String()
}

// reader is publisher for reading only. It accepts entries with any time.
func (k *kit) reader(t *testing.T) *release.Publisher {
	p := k.publisher(t)
	p.Store = anyTime(k.store)
	return p
}

// anyTime is a store for reading entries that were written with clocks that tests moved.
func anyTime(s object.Store) object.Store {
	return timedStore(s, func() time.Time { return time.Now().AddDate(100, 0, 0) })
}

// publisher works on the storage inside the test process.
func (k *kit) publisher(t *testing.T) *release.Publisher {
	t.Helper()
	keys, err := cli.Keyring(config.TrustedKeys{{Key: k.keys}})
	if err != nil {
		t.Fatal(err)
	}
	p := &release.Publisher{PublicURL: k.url, Keys: keys, Now: time.Now, Who: "test",
		Policies:    map[string]release.Policy{"stable": {Rings: k.rings["stable"]}, "beta": {Follows: "stable", Prerelease: true}},
		Transferred: func(string, int, int64) {}, Step: func(string) {}}
	p.Store = timedStore(k.store, func() time.Time { return p.Now() })
	return p
}

// follow lets clients of every version follow a channel's manifest, as it lies in the
// store and, if that is ahead of it, as the server shows it, downloading and verifying
// what they are offered. It returns the version that the store shows.
func (k *kit) follow(t *testing.T, channel string, installed ...string) string {
	t.Helper()
	stored, err := channels.Repository{Store: k.store}.Shown(t.Context(), channel)
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Decode(stored)
	if err != nil {
		t.Fatalf("%s in the store does not validate: %v", channel, err)
	}
	bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(stored) }))
	defer bucket.Close()
	k.update(t, bucket.URL, m, installed)
	address := k.url + "/" + channel + "/latest.json"
	var served []byte
	var shown *manifest.Manifest
	until(t, "the server shows "+channel, func() bool {
		if served, err = (&updater.Updater{}).FetchManifest(t.Context(), address); err != nil {
			t.Fatal(err)
		}
		if shown, err = manifest.Decode(served); err != nil {
			t.Fatalf("%s does not validate: %v", address, err)
		}
		return shown.Sequence >= m.Sequence
	})
	switch {
	case shown.Sequence > m.Sequence: // the entry was written, and the manifest not yet
		k.update(t, address, shown, installed)
	case !bytes.Equal(served, stored):
		t.Errorf("%s is not what the store holds:\n%s\n%s", address, served, stored)
	}
	return m.Version
}

// update lets clients of every version install what a manifest at an address offers.
func (k *kit) update(t *testing.T, address string, m *manifest.Manifest, installed []string) {
	t.Helper()
	keys, err := cli.Keyring(config.TrustedKeys{{Key: k.keys}})
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range installed {
		for _, target := range m.Keys() {
			u := &updater.Updater{Endpoints: []string{address}, Keys: keys, RequireVersion: true, Client: manifest.Client{Version: version, Target: target}}
			result, err := u.Check(t.Context())
			if err != nil {
				t.Fatalf("client %s on %s: %v", version, target, err)
			}
			if result.Offer == nil {
				continue
			}
			if err := u.Download(t.Context(), result.Offer, filepath.Join(t.TempDir(), "update"), func(updater.Event) {}); err != nil {
				t.Fatalf("client %s on %s: %v", version, target, err)
			}
		}
	}
}

// verified checks that a channel is sound in the store, and returns its version.
func (k *kit) verified(t *testing.T, channel string) string {
	t.Helper()
	report, err := k.reader(t).Keeper().Verify(context.WithoutCancel(t.Context()), channel)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) > 0 {
		t.Fatalf("%s is not sound: %+v", channel, report.Findings)
	}
	return report.Version
}

// bundles creates a folder with the bundles of a version. Their content depends only on version and
// name.
func bundles(t testing.TB, version string, size int, names ...string) string {
	t.Helper()
	if len(names) == 0 {
		names = []string{"App_" + version + "_x64_en-US.msi.zip", "App_universal.app.tar.gz", "App_" + version + "_amd64.AppImage.tar.gz"}
	}
	folder := t.TempDir()
	for i, name := range names {
		var seed [32]byte
		copy(seed[:], fmt.Sprint(version, i))
		content := make([]byte, size)
		rand.NewChaCha8(seed).Read(content)
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}
