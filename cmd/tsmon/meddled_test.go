package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsmon/cmd/tsmon/cli"
	"tsmon/store/object"
)

// meddled is a store that runs a function right before a write.
type meddled struct {
	object.Store
	create func(key string, r io.Reader) io.Reader // returns what is uploaded
	swap   func(key string)
}

func (m *meddled) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	if m.create != nil {
		r = m.create(key, r)
	}
	return m.Store.Create(ctx, key, r, size, attrs)
}

func (m *meddled) Swap(ctx context.Context, key, etag string, data []byte, attrs object.Attributes) (object.Info, error) {
	if m.swap != nil {
		m.swap(key)
	}
	return m.Store.Swap(ctx, key, etag, data, attrs)
}

// fails runs the program on a meddled store, and checks its exit code and hint.
func (m *meddled) fails(t *testing.T, k *kit, code int, hint string, args ...string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	app := cli.New()
	app.Stdout, app.Stderr, app.Environ = &stdout, &stderr, append([]string{"HOME=" + t.TempDir()}, k.env...)
	app.OpenStore = func(context.Context, string) (object.Store, error) { return m, nil }
	got := app.Run(t.Context(), rootCommand(app), args)
	if got != code || !strings.HasSuffix(stderr.String(), "\nhint: "+hint+"\n") {
		t.Fatalf("exit code %d, want %d and the hint %q\n%s", got, code, hint, &stderr)
	}
}

// TestConflictHints: if somebody else moves the channel at the same time, following the hint works.
func TestConflictHints(t *testing.T) {
	t.Parallel()
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	k.must(t, "release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 100))
	theirs, ours := bundles(t, "1.1.0", 100), bundles(t, "1.2.0", 100)
	m := &meddled{Store: k.store}
	m.create = func(key string, r io.Reader) io.Reader {
		if key == "log/stable/0000000002.json" {
			k.must(t, "release", "publish", "--version", "1.1.0", theirs)
		}
		return r
	}
	publish := []string{"release", "publish", "--version", "1.2.0", ours}
	// follows: `tsmon channel log …` shows it; if you still want the move, run the command again
	m.fails(t, k, cli.ExitConflict, "`tsmon channel log stable` shows it; if you still want the move, run the command again", publish...)
	if log := k.must(t, "channel", "log", "stable"); !strings.Contains(log, "1.1.0") {
		t.Errorf("the log does not show who won:\n%s", log)
	}
	k.must(t, publish...)
	if got := k.verified(t, "stable"); got != "1.2.0" {
		t.Errorf("stable shows %s", got)
	}

	// Another writer leaves other bytes each time.
	m.create, m.swap = nil, func(key string) {
		if key != "stable/latest.json" {
			return
		}
		info, err := k.store.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.store.Swap(t.Context(), key, info.ETag, bytes.Repeat([]byte("\n"), int(info.Size%7)+1), object.Attributes{}); err != nil {
			t.Fatal(err)
		}
	}
	publish = []string{"release", "publish", "--version", "1.3.0", bundles(t, "1.3.0", 100)}
	// follows: somebody else keeps moving the channel: run the same command again
	m.fails(t, k, cli.ExitConflict, "somebody else keeps moving the channel: run the same command again", publish...)
	k.must(t, publish...)
	if got := k.verified(t, "stable"); got != "1.3.0" {
		t.Errorf("stable shows %s", got)
	}
}

// TestDamageHint: bytes that are damaged on the way to the disk are not published under a name. The
// same command again publishes.
func TestDamageHint(t *testing.T) {
	t.Parallel()
	const size = 1234567
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	damaged := ""
	m := &meddled{Store: k.store, create: func(key string, r io.Reader) io.Reader {
		if !strings.HasSuffix(key, ".AppImage.tar.gz") {
			return r
		}
		return io.MultiReader(r, readerFunc(func() { damaged = damage(t, k.storage, size) }))
	}}
	publish := []string{"release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", size, "App_1.0.0_amd64.AppImage.tar.gz")}
	// follows: run the same command again; if it fails again, the store or the network corrupts data
	m.fails(t, k, cli.ExitFailed, "run the same command again; if it fails again, the store or the network corrupts data", publish...)
	if damaged == "" {
		t.Fatal("nothing was damaged")
	}
	k.must(t, publish...)
	if got := k.verified(t, "stable"); got != "1.0.0" {
		t.Errorf("stable shows %s", got)
	}
}

// readerFunc is an empty reader that does something.
type readerFunc func()

func (f readerFunc) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// damage changes a byte of the file with a size, whatever its name, and returns its path.
func damage(t *testing.T, folder string, size int64) (path string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() != size {
			return err
		}
		path = at
		file, err := os.OpenFile(at, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = file.WriteAt([]byte("damaged"), size/2)
		if closing := file.Close(); err == nil {
			err = closing
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}
