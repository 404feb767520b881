package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/doctor"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/signing"
	"tsmon/store/object"
	"tsmon/store/object/dir"
)

// publicKey is that of the vectors of package signing.
const publicKey = "RWQyQbJ2A5AJlDVY0WSoA33TGnpfwzD/SXmimPMPOb3xv+BdquqfHJ9c"

// clinic is an installation to examine: a folder, and what the environment says.
type clinic struct {
	key     *signing.PrivateKey // of all releases, made by the first move
	t       *testing.T
	storage string
	address string // of the published bundle
	environ map[string]string
	open    func(context.Context, string) (object.Store, error)
	now     func() time.Time
	check   func(config.Server) error
	limit   time.Duration
}

// newClinic returns a sound installation whose current folder has no project.
func newClinic(t *testing.T) *clinic {
	t.Helper()
	t.Chdir(t.TempDir())
	storage := filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(storage, 0o755); err != nil {
		t.Fatal(err)
	}
	return &clinic{t: t, storage: storage, open: cli.OpenStore, now: time.Now,
		check: func(config.Server) error { return nil },
		environ: map[string]string{
			"HOME": t.TempDir(), "TSMON_DATA": t.TempDir(), "TSMON_STORAGE": storage, "TSMON_TRUSTED_KEYS": publicKey,
			"TSMON_PUBLIC_URL": "http://127.0.0.1:9", "TSMON_LISTEN": "127.0.0.1:9",
		}}
}

func (c *clinic) examine() *doctor.Report {
	c.t.Helper()
	app := &cli.App{Stdout: io.Discard, Stderr: io.Discard, Now: c.now, OpenStore: c.open}
	for name, value := range c.environ {
		app.Environ = append(app.Environ, name+"="+value)
	}
	report := doctor.Run(c.t.Context(), doctor.Options{App: app, CheckServer: c.check, Limit: c.limit})
	for _, f := range report.Findings {
		if (f.Mend == "") != (f.Level == doctor.OK) {
			c.t.Errorf("%s, %s: %s: the mend is %q", f.Area, f.Level, f.What, f.Mend)
		}
	}
	return report
}

// want examines, and wants a finding of that level, area and text. It returns the mend.
func (c *clinic) want(level doctor.Level, area, text string) (mend string) {
	c.t.Helper()
	return c.wantIn(c.examine(), level, area, text)
}

// wantIn is want on a report.
func (c *clinic) wantIn(report *doctor.Report, level doctor.Level, area, text string) (mend string) {
	c.t.Helper()
	for _, f := range report.Findings {
		if f.Level == level && f.Area == area && strings.Contains(f.What, text) {
			if (f.Mend == "") != (level == doctor.OK) {
				c.t.Errorf("%s: the mend is %q", f.What, f.Mend)
			}
			return f.Mend
		}
	}
	c.t.Errorf("no %s of %s says %q among\n%s", level, area, text, listed(report))
	return ""
}

func listed(r *doctor.Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-7s %s: %s [%s] (%s)\n", f.Level, f.Area, f.What, f.Where, f.Mend)
	}
	return b.String()
}

const (
	bundleName = "App_1.0.0_amd64.AppImage.tar.gz"
	bundleKey  = "releases/1.0.0/" + bundleName
)

// publish puts a release with one bundle into the store, behind an address.
func (c *clinic) publish(publicURL string) {
	c.t.Helper()
	c.address = publicURL + "/" + bundleKey
	c.move("1.0.0")
}

func (c *clinic) store() object.Store {
	c.t.Helper()
	store, err := dir.Open(c.storage)
	if err != nil {
		c.t.Fatal(err)
	}
	return store
}

// move has stable show a version, with one bundle.
func (c *clinic) move(version string) {
	c.t.Helper()
	r := channels.Repository{Store: c.store(), PublicURL: strings.TrimSuffix(c.address, "/"+bundleKey)}
	log, err := r.Load(c.t.Context(), "stable")
	if err != nil {
		c.t.Fatal(err)
	}
	if c.key == nil {
		key, err := signing.GenerateKey()
		if err != nil {
			c.t.Fatal(err)
		}
		c.key = &key
	}
	digest, _, err := signing.HashReader(c.t.Context(), strings.NewReader("bundle"))
	if err != nil {
		c.t.Fatal(err)
	}
	signature, err := c.key.Sign(digest, signing.Comment{Time: time.Unix(1, 0), File: "App", Version: version})
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.store().Create(c.t.Context(), library.BundleKey(version, bundleName), strings.NewReader("bundle"), 6, object.Attributes{}); err != nil {
		c.t.Fatal(err)
	}
	if err := (library.Library{Store: c.store()}).Create(c.t.Context(), library.BundleKey(version, bundleName)+".sig", []byte(signature.String()), object.Attributes{}); err != nil {
		c.t.Fatal(err)
	}
	crc, err := c.store().Checksum(c.t.Context(), library.BundleKey(version, bundleName))
	if err != nil {
		c.t.Fatal(err)
	}
	record := &library.Record{Version: version, PubDate: time.Unix(1, 0).UTC(), Who: "test", Bundles: []library.Stored{library.StoredOf(bundle.Contents{
		Bundle: bundle.Bundle{Name: bundleName, Keys: []string{"linux-x86_64"}, Size: 6, Signature: &signature}, Digest: digest, CRC64: crc})}}
	data, err := record.Encode()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := (library.Library{Store: c.store()}).PutRecord(c.t.Context(), version, data); err != nil {
		c.t.Fatal(err)
	}
	record.Sum = library.SumOf(data)
	shown := record.Release()
	if _, err := r.Append(c.t.Context(), log, channels.Entry{Action: channels.Publish, Release: shown, When: time.Unix(1, 0), Who: "test"}); err != nil {
		c.t.Fatal(err)
	}
	if _, _, err := r.Repoint(c.t.Context(), &channels.Log{Channel: "stable"}); err != nil {
		c.t.Fatal(err)
	}
}

// heedless is a store that ignores the conditions of writes.
type heedless struct{ object.Store }

func (h heedless) Create(ctx context.Context, key string, r io.Reader, size int64, a object.Attributes) (object.Info, error) {
	if _, err := h.Stat(ctx, key); err != nil {
		return h.Store.Create(ctx, key, r, size, a)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return object.Info{}, err
	}
	return h.Swap(ctx, key, "", data, a)
}

func (h heedless) Swap(ctx context.Context, key, _ string, data []byte, a object.Attributes) (object.Info, error) {
	info, err := h.Stat(ctx, key)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	return h.Store.Swap(ctx, key, info.ETag, data, a)
}

// TestUnconditionalStore: a store that ignores conditions is an error; another one,
// as the mend says, is not.
func TestUnconditionalStore(t *testing.T) {
	c := newClinic(t)
	c.open = func(ctx context.Context, storage string) (object.Store, error) {
		store, err := cli.OpenStore(ctx, storage)
		if err != nil || strings.HasSuffix(storage, "other") {
			return store, err
		}
		return heedless{store}, nil
	}
	mend := c.want(doctor.Error, "storage", "the store ignores If-None-Match or If-Match")
	if !strings.Contains(mend, "use a store that honours If-None-Match") {
		t.Error(mend)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	// follows: use a store that honours If-None-Match on PUT, such as MinIO or S3
	c.environ["TSMON_STORAGE"] = other
	c.want(doctor.OK, "storage", "honours conditional writes")
}

// TestStorageFaults: what the store refuses comes with the mend of its error, and
// the other areas are examined all the same.
func TestStorageFaults(t *testing.T) {
	c := newClinic(t)
	for name, cause := range map[string]error{
		"check the credentials": fs.ErrPermission,
		"create a bucket":       object.ErrNoStore,
		"make room":             object.ErrFull,
		"is up and reachable":   object.ErrUnavailable,
	} {
		c.open = func(ctx context.Context, storage string) (object.Store, error) {
			store, err := cli.OpenStore(ctx, storage)
			return refusing{store, cause}, err
		}
		if mend := c.want(doctor.Error, "storage", cause.Error()); !strings.Contains(mend, name) {
			t.Errorf("%v: %s", cause, mend)
		}
		c.want(doctor.OK, "keys", "trusted: ")
		// follows: check the credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) and their rights, or the permissions of the folder
		// follows: check storage; create a bucket with the store's own tools, such as mc mb
		// follows: make room in the store, then run the same command again
		// follows: check that the endpoint in storage is up and reachable, then run the same command again
		c.open = cli.OpenStore
		c.want(doctor.OK, "storage", "writes, and reads what was written")
	}
}

// refusing is a store that takes no writes.
type refusing struct {
	object.Store
	cause error
}

func (r refusing) Swap(context.Context, string, string, []byte, object.Attributes) (object.Info, error) {
	return object.Info{}, r.cause
}

// TestForgetfulStore: a store that returns old content, or lists nothing, is found.
func TestForgetfulStore(t *testing.T) {
	c := newClinic(t)
	c.open = func(ctx context.Context, storage string) (object.Store, error) {
		store, err := cli.OpenStore(ctx, storage)
		return forgetful{store}, err
	}
	c.want(doctor.Error, "storage", "an object that was just written is not listed")
	c.open = func(ctx context.Context, storage string) (object.Store, error) {
		store, err := cli.OpenStore(ctx, storage)
		return stale{store}, err
	}
	c.want(doctor.Error, "storage", "the store returned different bytes than were just written")
	// follows: use a store that is consistent: what was written has to be read from then on
	// follows: use a store whose listings are consistent, such as MinIO or S3
	c.open = cli.OpenStore
	c.want(doctor.OK, "storage", "lists what was written")
}

type forgetful struct{ object.Store }

func (forgetful) List(context.Context, string, string) iter.Seq2[object.Info, error] {
	return func(func(object.Info, error) bool) {}
}

type stale struct{ object.Store }

func (s stale) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	_, info, err := s.Store.Get(ctx, key)
	return io.NopCloser(strings.NewReader("{}")), info, err
}

// TestSideBySide: doctors that examine one store at once do not report each other.
func TestSideBySide(t *testing.T) {
	c := newClinic(t)
	reports := make([]*doctor.Report, 4)
	var all sync.WaitGroup
	for i := range reports {
		all.Go(func() { reports[i] = c.examine() })
	}
	all.Wait()
	for _, r := range reports {
		for _, f := range r.Findings {
			if f.Area == "storage" && f.Level != doctor.OK {
				t.Errorf("%+v", f)
			}
		}
	}
	files, err := os.ReadDir(filepath.Join(c.storage, "staged", "doctor"))
	if err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

// TestMissingFolder: looking at a folder that is not there does not create it.
func TestMissingFolder(t *testing.T) {
	c := newClinic(t)
	c.environ["TSMON_STORAGE"] = filepath.Join(t.TempDir(), "none")
	c.want(doctor.Warning, "storage", "there is no such folder yet")
	if _, err := os.Stat(c.environ["TSMON_STORAGE"]); !errors.Is(err, fs.ErrNotExist) {
		t.Error("it was created")
	}
	// follows: check storage (TSMON_STORAGE); if it is right, create the folder with mkdir -p, then run `tsmon doctor` again
	if err := os.MkdirAll(c.environ["TSMON_STORAGE"], 0o755); err != nil {
		t.Fatal(err)
	}
	c.want(doctor.OK, "storage", "writes, and reads what was written")
}

// TestImpossibleFolder: a folder that is missing and can't be created is an error, and nothing
// is left behind. So is one below a file.
func TestImpossibleFolder(t *testing.T) {
	c := newClinic(t)
	above := t.TempDir()
	link, file := filepath.Join(above, "link"), filepath.Join(above, "file")
	if err := os.Symlink(filepath.Join(above, "gone"), link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.environ["TSMON_STORAGE"] = filepath.Join(link, "store", "deep")
	c.want(doctor.Error, "storage", "there is no such folder, and it can't be created: create a folder in "+link)
	c.environ["TSMON_STORAGE"] = link
	c.want(doctor.Error, "storage", "create a folder in "+link)
	c.environ["TSMON_STORAGE"] = filepath.Join(file, "store")
	// follows: name a folder in storage (TSMON_STORAGE), or a place where one can be created
	if mend := c.want(doctor.Error, "configuration", "there is no folder "+filepath.Join(file, "store")); strings.Contains(mend, "bucket") {
		t.Errorf("the mend is %q", mend)
	}
	if found, err := os.ReadDir(above); len(found) != 2 || err != nil {
		t.Errorf("left behind: %v, %v", found, err)
	}
	// follows: correct storage (TSMON_STORAGE), or create the folder as a user who may
	c.environ["TSMON_STORAGE"] = filepath.Join(above, "store", "deep")
	c.want(doctor.Warning, "storage", "the first publish creates it")
}

// TestHanging: an area that does not end in time is reported, the others are, too.
func TestHanging(t *testing.T) {
	c := newClinic(t)
	c.limit = 100 * time.Millisecond
	ended := make(chan struct{})
	c.check = func(config.Server) error { <-ended; return nil }
	r := c.examine()
	// follows: run `tsmon doctor` again; if it happens again, something that the configuration names answers too slowly
	mend := c.wantIn(r, doctor.Error, "server", "not examined within 100ms")
	c.wantIn(r, doctor.OK, "keys", "trusted: ")
	if !strings.HasPrefix(mend, "run `tsmon doctor` again") {
		t.Error(mend)
	}
	close(ended)
	c.limit = time.Minute
	c.want(doctor.OK, "server", "no records yet")
}

// TestWrongConfiguration: nothing else is examined.
func TestWrongConfiguration(t *testing.T) {
	c := newClinic(t)
	c.environ["TSMON_REFRESH"] = "often"
	c.want(doctor.Error, "configuration", "TSMON_REFRESH is not a duration")
	if r := c.examine(); len(r.Findings) != 2 || r.Errors != 1 || r.Warnings != 1 {
		t.Error(listed(r))
	}
	if _, err := os.Stat(filepath.Join(c.storage, "staged")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the storage was examined")
	}
	// follows: correct the configuration, then run `tsmon doctor` again
	c.mends(doctor.Warning, "configuration", "nothing else was checked", "correct the configuration, then run `tsmon doctor` again")
	c.environ["TSMON_REFRESH"] = "5s"
	c.want(doctor.OK, "server", "no records yet")
	// follows: correct it; `tsmon help` and README.md show what a configuration has
	c.environ["TSMON_REFRESH"] = "1s"
	c.want(doctor.OK, "keys", "trusted: ")
}
