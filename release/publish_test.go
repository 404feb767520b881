package release

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/release/bundle"
	"tsmon/release/gate"
	"tsmon/release/library"
	"tsmon/signing"
	"tsmon/store/object"
	"tsmon/store/object/dir"
	"tsmon/store/object/objecttest"
)

// desk is a publisher on a directory, with the key that it trusts.
type desk struct {
	*Publisher
	key  signing.PrivateKey
	root string
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	root := filepath.Join(t.TempDir(), "store")
	store, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	key, err := signing.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{root: root, key: key}
	d.Publisher = &Publisher{
		Store: timed{store, func() time.Time { return d.Now() }}, PublicURL: "https://releases.example.com/app", Keys: signing.Keyring{{PublicKey: key.Public()}}, Who: "test", Now: time.Now,
		Policies: map[string]Policy{"stable": {}, "beta": {Follows: "stable", Prerelease: true}},
	}
	return d
}

// timed is a store with its own clock. In most tests it shows the time of the publisher.
type timed struct {
	object.Store
	now func() time.Time
}

func (s timed) Now(context.Context) (time.Time, error) { return s.now(), nil }

// options returns the options for publishing new bundles to stable.
func (d *desk) options(t testing.TB, version string, names ...string) PublishOptions {
	t.Helper()
	if len(names) == 0 {
		names = []string{"App_" + version + "_x64_en-US.msi.zip", "App_" + version + "_amd64.AppImage.tar.gz"}
	}
	folder := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(strings.Repeat(name+version, 500)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return d.gathered(t, version, folder)
}

func (d *desk) unlock() (signing.PrivateKey, error) { return d.key, nil }

func (d *desk) gathered(t testing.TB, version, folder string) PublishOptions {
	t.Helper()
	bundles, _, err := bundle.Gather(version, []string{folder}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return PublishOptions{Options: Options{Channel: "stable"}, Version: version, Bundles: bundles, Unlock: d.unlock}
}

func (d *desk) publish(t testing.TB, o PublishOptions) *Plan {
	t.Helper()
	report, err := d.Publish(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// hooked is a store that calls a function before it creates an object.
type hooked struct {
	object.Store
	create func(key string, r io.Reader) io.Reader
}

func (h *hooked) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	return h.Store.Create(ctx, key, h.create(key, r), size, attrs)
}

// midway returns r, with a call after its first bytes.
func midway(r io.Reader, call func()) io.Reader {
	return io.MultiReader(io.LimitReader(r, 100), readerFunc(func([]byte) (int, error) {
		call()
		return 0, io.EOF
	}), r)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestFileChangesWhileItIsSent: the bytes that are sent are those that were signed or verified.
func TestFileChangesWhileItIsSent(t *testing.T) {
	for _, signed := range []bool{false, true} {
		d := newDesk(t)
		o := d.options(t, "1.0.0")
		want := bundle.ErrChanged
		if signed {
			d.sign(t, o)
			o = d.gathered(t, "1.0.0", filepath.Dir(o.Bundles[0].Path))
		}
		store := d.Store
		d.Store = &hooked{store, func(key string, r io.Reader) io.Reader {
			if !strings.HasSuffix(key, ".zip") {
				return r
			}
			return midway(r, func() { appendTo(t, o.Bundles, ".zip") })
		}}
		before := objecttest.Tree(t, d.Store)
		_, err := d.Publish(t.Context(), o)
		if !errors.Is(err, want) {
			t.Errorf("signed %v: error %v, want %v", signed, err, want)
		}
		for key := range objecttest.Tree(t, d.Store) {
			if before[key] == "" && (strings.HasSuffix(key, ".zip") || strings.HasSuffix(key, ".json")) {
				t.Errorf("signed %v: %s stands in the store", signed, key)
			}
		}
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Mend != "let no other program write to the bundle, then run the command again" {
			t.Errorf("signed %v: %+v", signed, refusal)
		}
		// follows: let no other program write to the bundle, then run the command again
		d.Store = store
		if signed {
			d.sign(t, o)
		}
		d.publish(t, d.gathered(t, "1.0.0", filepath.Dir(o.Bundles[0].Path)))
		if got := d.shows(t, "stable"); got != "1.0.0" {
			t.Errorf("signed %v: stable shows %s", signed, got)
		}
	}
}

// sign writes the signatures of all bundles.
func (d *desk) sign(t testing.TB, o PublishOptions) {
	t.Helper()
	signer := bundle.Reader{Unlock: d.unlock, Version: o.Version, Now: time.Now, Transferred: d.Transferred}
	var paths []string
	for _, b := range o.Bundles {
		paths = append(paths, b.Path)
	}
	signed, err := signer.Sign(t.Context(), paths)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range signed {
		if err := os.WriteFile(s.Sig, []byte(s.Signature.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func appendTo(t testing.TB, bundles []bundle.Bundle, suffix string) {
	for _, b := range bundles {
		if !strings.HasSuffix(b.Path, suffix) {
			continue
		}
		file, err := os.OpenFile(b.Path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		file.WriteString("more")
		file.Close()
	}
}

// TestBytesChangedInPlace changes bytes, but not the size, after the signature was made.
func TestBytesChangedInPlace(t *testing.T) {
	d := newDesk(t)
	o := d.options(t, "1.0.0")
	d.sign(t, o)
	o = d.gathered(t, "1.0.0", filepath.Dir(o.Bundles[0].Path))
	data, err := os.ReadFile(o.Bundles[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(o.Bundles[0].Path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Publish(t.Context(), o); !errors.Is(err, signing.ErrSignature) {
		t.Errorf("error %v, want ErrSignature", err)
	}
	for key := range objecttest.Tree(t, d.Store) {
		if strings.HasSuffix(key, o.Bundles[0].Name) || strings.HasPrefix(key, "log/") || strings.HasSuffix(key, ".json") {
			t.Errorf("%s stands in the store", key)
		}
	}
}

func TestRepublishSendsNothing(t *testing.T) {
	d := newDesk(t)
	o := d.options(t, "1.0.0")
	first := d.publish(t, o)
	if !first.Changed || first.Sequence != 1 || len(first.Followers) != 1 {
		t.Errorf("first: %+v", first)
	}
	before := objecttest.Tree(t, d.Store)
	d.Store = &hooked{d.Store, func(key string, r io.Reader) io.Reader {
		t.Errorf("%s was sent again", key)
		return r
	}}
	again := d.publish(t, o)
	if again.Changed || again.Sequence != 1 || len(again.Followers) != 0 {
		t.Errorf("again: %+v", again)
	}
	sameTree(t, before, objecttest.Tree(t, d.Store))
}

func sameTree(t testing.TB, before, after map[string]string) {
	t.Helper()
	for key := range after {
		if before[key] != after[key] {
			t.Errorf("%s was written", key)
		}
	}
	for key := range before {
		if _, ok := after[key]; !ok {
			t.Errorf("%s is gone", key)
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, d *desk) PublishOptions
		want    error
	}{
		"below the head": {func(t *testing.T, d *desk) PublishOptions {
			d.publish(t, d.options(t, "1.1.0"))
			return d.options(t, "1.0.9")
		}, ErrBelowHead},
		"other bytes": {func(t *testing.T, d *desk) PublishOptions {
			d.publish(t, d.options(t, "1.0.0"))
			o := d.options(t, "1.0.0")
			appendTo(t, o.Bundles, ".zip")
			return d.gathered(t, "1.0.0", filepath.Dir(o.Bundles[0].Path))
		}, library.ErrOtherBytes},
		"other platforms": {func(t *testing.T, d *desk) PublishOptions {
			d.publish(t, d.options(t, "1.0.0"))
			return d.options(t, "1.0.0", "App_1.0.0_x64_en-US.msi.zip", "App_1.0.0_amd64.AppImage.tar.gz", "App_universal.app.tar.gz")
		}, library.ErrOtherBytes},
		"lost platform": {func(t *testing.T, d *desk) PublishOptions {
			d.publish(t, d.options(t, "1.0.0"))
			return d.options(t, "1.1.0", "App_1.1.0_x64_en-US.msi.zip")
		}, gate.ErrCoverage},
		"required platform": {func(t *testing.T, d *desk) PublishOptions {
			d.Policies["stable"] = Policy{Targets: []string{"darwin-aarch64"}}
			return d.options(t, "1.0.0")
		}, gate.ErrMissing},
		"pre-release": {func(t *testing.T, d *desk) PublishOptions { return d.options(t, "1.0.0-beta.1") }, ErrPrerelease},
		"unsigned": {func(t *testing.T, d *desk) PublishOptions {
			o := d.options(t, "1.0.0")
			o.Unlock = nil
			return o
		}, ErrUnsigned},
		"foreign key": {func(t *testing.T, d *desk) PublishOptions {
			o := d.options(t, "1.0.0")
			o.Unlock = newDesk(t).unlock
			return o
		}, signing.ErrUntrustedKey},
		"signature of another key": {func(t *testing.T, d *desk) PublishOptions {
			o := d.options(t, "1.0.0")
			newDesk(t).sign(t, o)
			return d.gathered(t, "1.0.0", filepath.Dir(o.Bundles[0].Path))
		}, signing.ErrUntrustedKey},
		"unknown channel": {func(t *testing.T, d *desk) PublishOptions {
			o := d.options(t, "1.0.0")
			o.Channel = "stabel"
			return o
		}, ErrConfig},
		"rolled back": {func(t *testing.T, d *desk) PublishOptions {
			d.publish(t, d.options(t, "1.0.0"))
			o := d.options(t, "1.1.0")
			d.publish(t, o)
			if _, err := d.Rollback(t.Context(), RollbackOptions{Options: Options{Channel: "stable", Why: "crash"}}); err != nil {
				t.Fatal(err)
			}
			return o
		}, ErrRolledBack},
		"tampered store": {func(t *testing.T, d *desk) PublishOptions {
			o := d.options(t, "1.0.0")
			d.publish(t, o)
			overwrite(t, filepath.Join(d.root, "releases/1.0.0", o.Bundles[0].Name))
			return o
		}, library.ErrStored},
		"bundle gone": {func(t *testing.T, d *desk) PublishOptions {
			o := d.options(t, "1.0.0")
			d.publish(t, o)
			if err := os.Remove(filepath.Join(d.root, "releases/1.0.0", o.Bundles[0].Name)); err != nil {
				t.Fatal(err)
			}
			return o
		}, library.ErrStored},
		"store without conditions": {func(t *testing.T, d *desk) PublishOptions {
			d.Store = &careless{d.Store}
			return d.options(t, "1.0.0")
		}, object.ErrUnconditional},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			o := c.prepare(t, d)
			before := objecttest.Tree(t, d.Store)
			_, err := d.Publish(t.Context(), o)
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			after := objecttest.Tree(t, d.Store)
			for _, key := range []string{"stable/latest.json", "beta/latest.json"} {
				if before[key] != after[key] {
					t.Errorf("%s was moved", key)
				}
			}
			if name != "store without conditions" {
				sameTree(t, before, after)
			}
		})
	}
}

// careless is a store that overwrites, whatever the condition.
type careless struct{ object.Store }

func (c *careless) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	info, err := c.Store.Create(ctx, key, r, size, attrs)
	if errors.Is(err, fs.ErrExist) {
		return c.Store.Stat(ctx, key)
	}
	return info, err
}

func overwrite(t testing.TB, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[0] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, s object.Store, key, content string) {
	t.Helper()
	if _, err := s.Create(t.Context(), key, strings.NewReader(content), int64(len(content)), object.Attributes{}); err != nil {
		t.Fatal(err)
	}
}

// TestInterruptedSigning: after an interruption the bundles were signed again, with another
// time. The objects in the store stay, and verify.
func TestInterruptedSigning(t *testing.T) {
	d := newDesk(t)
	o := d.options(t, "1.0.0")
	d.Now = func() time.Time { return time.Unix(1_700_000_000, 0) }
	store := d.Store
	stop := errors.New("stop")
	d.Store = &hooked{store, func(key string, r io.Reader) io.Reader {
		if strings.HasSuffix(key, "release.json") {
			return readerFunc(func([]byte) (int, error) { return 0, stop })
		}
		return r
	}}
	if _, err := d.Publish(t.Context(), o); !errors.Is(err, stop) {
		t.Fatalf("error %v, want the interruption", err)
	}
	before := objecttest.Tree(t, d.Store)
	d.Store, d.Now = store, time.Now
	report := d.publish(t, o)
	after := objecttest.Tree(t, d.Store)
	for key := range before {
		if before[key] != after[key] {
			t.Errorf("%s was written again", key)
		}
	}
	for _, b := range report.Bundles {
		if b.Signature != before["releases/1.0.0/"+b.Name+".sig"] {
			t.Errorf("the manifest's signature of %s is not the stored one", b.Name)
		}
	}
	if report, err := d.Keeper().Verify(t.Context(), "stable"); err != nil || len(report.Findings) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestRebuilt: an upload without a record does not use up the version, even if the build is
// repeated. No existing object is overwritten.
func TestRebuilt(t *testing.T) {
	d := newDesk(t)
	o := d.options(t, "1.0.0")
	name := o.Bundles[0].Name
	put(t, d.Store, "releases/1.0.0/"+name, "an earlier build")
	report := d.publish(t, o)
	stem := strings.TrimSuffix(name, ".AppImage.tar.gz")
	i := slices.IndexFunc(report.Bundles, func(b library.Stored) bool { return strings.HasPrefix(b.Name, stem) })
	if want := stem + "_" + report.Bundles[i].BLAKE2b[:8] + ".AppImage.tar.gz"; report.Bundles[i].Name != want {
		t.Errorf("stored as %s, want %s", report.Bundles[i].Name, want)
	}
	if tree := objecttest.Tree(t, d.Store); tree["releases/1.0.0/"+name] != "an earlier build" {
		t.Error("the earlier build was overwritten")
	}
	if again := d.publish(t, o); again.Changed {
		t.Errorf("again: %+v", again)
	}
	if report, err := d.Keeper().Verify(t.Context(), "stable"); err != nil || len(report.Findings) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestSameReleaseAtOnce: two publishers publish the same bundles at different times and under
// different names. The second adopts what the first has written.
func TestSameReleaseAtOnce(t *testing.T) {
	for _, at := range []string{".zip", ".zip.sig", "release.json"} {
		d := newDesk(t)
		o := d.options(t, "1.0.0")
		rival := *d.Publisher
		rival.Who, rival.Now = "rival", func() time.Time { return time.Now().Add(-time.Minute) }
		done := false
		d.Store = &hooked{d.Store, func(key string, r io.Reader) io.Reader {
			if strings.HasSuffix(key, at) && !done {
				done = true
				if _, err := rival.Publish(t.Context(), o); err != nil {
					t.Error(err)
				}
			}
			return r
		}}
		if plan := d.publish(t, o); plan.Changed || plan.Entry != nil || plan.Sequence != 1 {
			t.Errorf("overtaken at %s: %+v", at, plan)
		}
		if report, err := d.Keeper().Verify(t.Context(), "stable"); err != nil || len(report.Findings) > 0 {
			t.Errorf("overtaken at %s: %+v, %v", at, report, err)
		}
	}
}

func TestConflict(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	rival := *d.Publisher
	rival.Who = "rival"
	o := d.options(t, "1.2.0")
	done := false
	d.Store = &hooked{d.Store, func(key string, r io.Reader) io.Reader {
		if key == "log/stable/0000000002.json" && !done {
			done = true
			if _, err := rival.Publish(t.Context(), o); err != nil {
				t.Error(err)
			}
		}
		return r
	}}
	_, err := d.Publish(t.Context(), d.options(t, "1.1.0"))
	var conflict *channels.ConflictError
	if !errors.As(err, &conflict) || conflict.Winner.Who != "rival" || conflict.Winner.Version != "1.2.0" {
		t.Errorf("error %v, want a conflict won by the rival", err)
	}
}
