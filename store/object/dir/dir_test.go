package dir_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gofrs/flock"

	"tsmon/store/object"
	"tsmon/store/object/dir"
	"tsmon/store/object/objecttest"
)

func open(t testing.TB, root string) *dir.Store {
	t.Helper()
	s, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	objecttest.Suite(t, func(t *testing.T) object.Store { return open(t, t.TempDir()) })
}

func TestMissing(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	s := open(t, root)
	mustCreate(t, s, "key", "x")
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	objecttest.Missing(t, s)

	if err := os.WriteFile(root, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	objecttest.Missing(t, s)

	if err := os.Remove(root); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := create(t, s, "a/b", "x"); err != nil {
		t.Errorf("after the root came back: %v", err)
	}
}

// TestFirstWrite: while the first write creates the root, those who look see an empty store or
// the object, and never that there is no store.
func TestFirstWrite(t *testing.T) {
	for round := range 300 {
		s := open(t, filepath.Join(t.TempDir(), "root"))
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				for range 20 {
					for _, err := range s.List(t.Context(), "", "") {
						if err != nil {
							t.Errorf("round %d: %v", round, err)
							return
						}
					}
				}
			})
		}
		mustCreate(t, s, "key", "x")
		wait.Wait()
		if t.Failed() {
			return
		}
	}
}

func TestOpenNowhere(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{file, filepath.Join(file, "root")} {
		if _, err := dir.Open(root); !errors.Is(err, object.ErrNoStore) {
			t.Errorf("%s: %v", root, err)
		}
	}
}

// TestOpenMakesNothing: a store that was never written to is empty, and its
// folder comes with the first write.
func TestOpenMakesNothing(t *testing.T) {
	base := t.TempDir()
	s := open(t, filepath.Join(base, "a", "root"))
	if _, _, err := s.Get(t.Context(), "key"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("get: %v", err)
	}
	for info, err := range s.List(t.Context(), "", "") {
		t.Errorf("listed %v, %v", info, err)
	}
	if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
		t.Errorf("reading made %v, %v", left, err)
	}
	mustCreate(t, s, "key", "x")
	if info, err := s.Stat(t.Context(), "key"); err != nil || info.Size != 1 {
		t.Errorf("%v, %v", info, err)
	}
}

func create(t *testing.T, s *dir.Store, key, data string) (object.Info, error) {
	return s.Create(t.Context(), key, strings.NewReader(data), int64(len(data)), object.Attributes{})
}

func mustCreate(t *testing.T, s *dir.Store, key, data string) object.Info {
	t.Helper()
	info, err := create(t, s, key, data)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// TestNothingLeft checks that failed writes leave nothing in the private folder.
func TestNothingLeft(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	mustCreate(t, s, "a/b", "x")
	ctx, cancel := context.WithCancel(t.Context())
	create := func(r io.Reader, size int64) {
		if _, err := s.Create(ctx, "new/c", r, size, object.Attributes{}); err == nil {
			t.Error("there is no error")
		}
	}
	create(strings.NewReader("short"), 6)
	create(strings.NewReader("long"), 3)
	create(iotest.ErrReader(errors.New("broken")), 3)
	create(io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(errors.New("broken"))), 3)
	create(readerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }), 1<<20)
	left, err := filepath.Glob(filepath.Join(root, ".tsmon", "temp-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %q, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(root, "new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a failed Create made a folder: %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestSweep(t *testing.T) {
	root := t.TempDir()
	private := filepath.Join(root, ".tsmon")
	if err := os.Mkdir(private, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"temp-old": 25 * time.Hour, "clock-old": 25 * time.Hour, "temp-new": 23 * time.Hour, "lock-old": 9999 * time.Hour} {
		name = filepath.Join(private, name)
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	open(t, root)
	entries, err := os.ReadDir(private)
	if err != nil || len(entries) != 2 || entries[0].Name() != "lock-old" || entries[1].Name() != "temp-new" {
		t.Errorf("there remain %v, %v", entries, err)
	}
}

func TestInTheWay(t *testing.T) {
	s := open(t, t.TempDir())
	mustCreate(t, s, "a/b/c", "x")
	for _, key := range []string{"a", "a/b", "a/b/c/d", "a/b/c/d/e", strings.Repeat("k", 300)} {
		if _, err := create(t, s, key, "y"); !errors.Is(err, object.ErrBadKey) {
			t.Errorf("create %s: %v", key, err)
		}
		if _, err := s.Swap(t.Context(), key, "", []byte("y"), object.Attributes{}); !errors.Is(err, object.ErrBadKey) {
			t.Errorf("swap %s: %v", key, err)
		}
		if _, err := s.Stat(t.Context(), key); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("stat %s: %v", key, err)
		}
	}
}

// TestLinks plants symbolic links where objects and folders would be.
func TestLinks(t *testing.T) {
	base := t.TempDir()
	outside, root := filepath.Join(base, "outside"), filepath.Join(base, "root")
	for _, d := range []string{outside, root, filepath.Join(root, "inner")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"folder": outside, "relative": "../outside", "object": filepath.Join(outside, "secret"), "dangling": "nowhere", ".tsmon": outside,
	} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := open(t, root)
	for _, key := range []string{"folder/secret", "relative/secret", "object", "dangling"} {
		if r, _, err := s.Get(t.Context(), key); err == nil {
			r.Close()
			t.Errorf("%s can be read", key)
		}
	}
	for _, key := range []string{"folder/new", "relative/new", "object", "dangling", "inner/new"} {
		if _, err := create(t, s, key, "x"); err == nil {
			t.Errorf("%s can be written", key)
		}
		if _, err := s.Swap(t.Context(), key, "", []byte("x"), object.Attributes{}); err == nil {
			t.Errorf("%s can be swapped", key)
		}
	}
	for info, err := range s.List(t.Context(), "", "") {
		t.Errorf("listed: %v, %v", info, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside are %v, %v", entries, err)
	}
}

func TestLockWait(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	info := mustCreate(t, s, "a/b", "x")
	next, err := s.Swap(t.Context(), "a/b", info.ETag, []byte("y"), object.Attributes{})
	if err != nil {
		t.Fatal(err)
	}
	locks, err := filepath.Glob(filepath.Join(root, ".tsmon", "lock-*"))
	if err != nil || len(locks) != 1 {
		t.Fatalf("locks: %q, %v", locks, err)
	}
	held := flock.New(locks[0])
	if err := held.Lock(); err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Swap(ctx, "a/b", next.ETag, []byte("z"), object.Attributes{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a deadline: %v", err)
	}
	s.LockWait = 50 * time.Millisecond
	if _, err := s.Swap(t.Context(), "a/b", next.ETag, []byte("z"), object.Attributes{}); !errors.Is(err, object.ErrUnavailable) {
		t.Errorf("while locked: %v", err)
	}
}

// TestLargeETag wants the ETag of a large file from its metadata, not its bytes.
func TestLargeETag(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	name := filepath.Join(root, "large")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 1<<40); err != nil {
		t.Fatal(err)
	}
	before, err := s.Stat(t.Context(), "large")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, time.Time{}, before.ModTime.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	after, err := s.Stat(t.Context(), "large")
	if err != nil || after.ETag == before.ETag {
		t.Errorf("%+v, then %+v, %v", before, after, err)
	}
}

// TestTruncated cuts a file while it, or a part of it, is being read.
func TestTruncated(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	info := mustCreate(t, s, "a/b", strings.Repeat("x", 10_000))
	whole, _, err := s.Get(t.Context(), "a/b")
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	part, err := s.GetRange(t.Context(), "a/b", info.ETag, 4000, 2000)
	if err != nil {
		t.Fatal(err)
	}
	defer part.Close()
	if err := os.Truncate(filepath.Join(root, "a", "b"), 5000); err != nil {
		t.Fatal(err)
	}
	for _, r := range []io.Reader{whole, part} {
		if _, err := io.ReadAll(r); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("reading what was cut gives %v", err)
		}
	}
}

func BenchmarkCreate(b *testing.B) {
	for _, size := range []int64{1 << 10, 64 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			root := b.TempDir()
			s := open(b, root)
			data := make([]byte, size)
			b.SetBytes(size)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key := fmt.Sprintf("releases/%d/bundle", i)
				if _, err := s.Create(b.Context(), key, bytes.NewReader(data), size, object.Attributes{}); err != nil {
					b.Fatal(err)
				}
				if err := os.Truncate(filepath.Join(root, key), 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
