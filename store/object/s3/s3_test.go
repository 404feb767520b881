package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/minio/minio-go/v7"

	"tsmon/store/object"
	"tsmon/store/object/objecttest"
	"tsmon/store/servertest"
)

func open(t testing.TB, url string, limits Limits) *Store {
	t.Helper()
	s, err := Open(url, limits)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	server := servertest.StartMinIO(t)
	server.Setenv()
	objecttest.Suite(t, func(t *testing.T) object.Store {
		return open(t, server.URL("a prefix/of ñ+%/"+rand.Text()), Limits{})
	})
	t.Run("Root", func(t *testing.T) { testRoot(t, server) })
	t.Run("Missing", func(t *testing.T) { testMissing(t, server) })
	t.Run("Permission", func(t *testing.T) { testPermission(t, server) })
	t.Run("NothingLeft", func(t *testing.T) { testNothingLeft(t, server) })
	t.Run("Unfinished", func(t *testing.T) { testUnfinished(t, server) })
	t.Run("Headers", func(t *testing.T) { testHeaders(t, server) })
	t.Run("Foreign", func(t *testing.T) { testForeign(t, server) })
	t.Run("Down", func(t *testing.T) { testDown(t, server) })
}

func mustCreate(t testing.TB, s *Store, key string, r io.Reader, size int64) object.Info {
	t.Helper()
	info, err := s.Create(t.Context(), key, r, size, object.Attributes{ContentType: "text/plain", CacheControl: "no-cache"})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// testRoot uses the bucket itself as the store.
func testRoot(t *testing.T, server *servertest.MinIO) {
	bucket := "root-" + strings.ToLower(rand.Text()[:8])
	server.MakeBucket(bucket)
	s := open(t, strings.Replace(server.URL(""), server.Bucket, bucket, 1), Limits{})
	mustCreate(t, s, "a/b", strings.NewReader("x"), 1)
	var keys []string
	for info, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	if len(keys) != 1 || keys[0] != "a/b" {
		t.Errorf("listed: %q", keys)
	}
}

func testMissing(t *testing.T, server *servertest.MinIO) {
	s := open(t, strings.Replace(server.URL("some/prefix"), server.Bucket, "no-such-bucket", 1), Limits{})
	objecttest.Missing(t, s)
}

func testPermission(t *testing.T, server *servertest.MinIO) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
	wantEach(t, open(t, server.URL("x"), Limits{}), fs.ErrPermission)
	t.Setenv("AWS_ACCESS_KEY_ID", "nobody")
	wantEach(t, open(t, server.URL("x"), Limits{}), fs.ErrPermission)
}

// wantEach wants the same error of each method, and no secret in its text.
func wantEach(t *testing.T, s *Store, want error) {
	t.Helper()
	for name, err := range each(t.Context(), s) {
		if !errors.Is(err, want) {
			t.Errorf("%s: the error is %v, not %q", name, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "not-the-secret") {
			t.Errorf("%s: the error tells a secret: %v", name, err)
		}
	}
}

// each calls each method, all at once, and returns their errors.
func each(ctx context.Context, s *Store) map[string]error {
	calls := map[string]func() error{
		"Get":      func() error { _, _, err := s.Get(ctx, "a/b"); return err },
		"GetRange": func() error { _, err := s.GetRange(ctx, "a/b", "abc", 0, 1); return err },
		"Stat":     func() error { _, err := s.Stat(ctx, "a/b"); return err },
		"Checksum": func() error { _, err := s.Checksum(ctx, "a/b"); return err },
		"Create":   func() error { return tryCreate(ctx, s, "a/b", 3) },
		"Large":    func() error { return tryCreate(ctx, s, "a/c", partSize+1) },
		"Swap":     func() error { _, err := s.Swap(ctx, "a/b", "", nil, object.Attributes{}); return err },
		"SwapOver": func() error { _, err := s.Swap(ctx, "a/b", "abc", nil, object.Attributes{}); return err },
		"List": func() (last error) {
			for _, last = range s.List(ctx, "a/", "") {
			}
			return last
		},
	}
	errs := map[string]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for name, call := range calls {
		wg.Go(func() {
			err := call()
			mu.Lock()
			defer mu.Unlock()
			errs[name] = err
		})
	}
	wg.Wait()
	return errs
}

func tryCreate(ctx context.Context, s *Store, key string, size int64) error {
	_, err := s.Create(ctx, key, zeros(size), size, object.Attributes{})
	return err
}

// testNothingLeft checks that failed uploads leave no parts.
func testNothingLeft(t *testing.T, server *servertest.MinIO) {
	s := open(t, server.URL("left"), Limits{})
	const size = 3*partSize + 5
	broken := errors.New("broken")
	ctx, cancel := context.WithCancel(t.Context())
	for name, r := range map[string]io.Reader{
		"broken":    io.MultiReader(zeros(2*partSize), iotest.ErrReader(broken)),
		"short":     zeros(size - 1),
		"long":      zeros(size + 1),
		"last":      io.MultiReader(zeros(size), iotest.ErrReader(broken)),
		"cancelled": io.MultiReader(zeros(2*partSize), readerFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF }), zeros(partSize+5)),
	} {
		callCtx := t.Context()
		if name == "cancelled" {
			callCtx = ctx
		}
		if _, err := s.Create(callCtx, "a/"+name, r, size, object.Attributes{}); err == nil {
			t.Errorf("%s: there is no error", name)
		}
	}
	left, err := server.Client().ListMultipartUploads(t.Context(), server.Bucket, "", "", "", "", 100)
	if err != nil || len(left.Uploads) > 0 {
		t.Errorf("uploads are left: %+v, %v", left.Uploads, err)
	}
}

// testUnfinished finds the uploads that a killed process left, and aborts them.
func testUnfinished(t *testing.T, server *servertest.MinIO) {
	s, other := open(t, server.URL("unfinished"), Limits{}), open(t, server.URL("elsewhere"), Limits{})
	begun := time.Now()
	for i := range 3 {
		for _, store := range []*Store{s, other} {
			key := fmt.Sprintf("releases/1.%d.0/bundle", i)
			id, err := store.begin(t.Context(), key, minio.PutObjectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			data := make([]byte, 5<<20)
			if _, err := store.core.PutObjectPart(t.Context(), store.bucket, store.path(key), id, 1, bytes.NewReader(data), int64(len(data)), minio.PutObjectPartOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := func(s *Store, prefix string) []object.Upload {
		t.Helper()
		found, err := s.Unfinished(t.Context(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	found := left(s, "releases/1.1.0/")
	if len(found) != 1 || found[0].Key != "releases/1.1.0/bundle" || found[0].Begun.Sub(begun).Abs() > time.Minute {
		t.Fatalf("found %+v", found)
	}
	for range 2 { // the second time there is nothing any more
		if err := s.Abort(t.Context(), found...); err != nil {
			t.Fatal(err)
		}
	}
	if ours, theirs := left(s, ""), left(other, ""); len(ours) != 2 || len(theirs) != 3 {
		t.Errorf("%d of 2 are left, and of the other store %d of 3", len(ours), len(theirs))
	}
	if err := errors.Join(s.Abort(t.Context(), left(s, "")...), other.Abort(t.Context(), left(other, "")...)); err != nil {
		t.Error(err)
	}
	if err := s.Abort(t.Context(), object.Upload{Key: "../x", ID: "1"}); !errors.Is(err, object.ErrBadKey) {
		t.Errorf("of no key: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
	if _, err := open(t, server.URL("unfinished"), Limits{}).Unfinished(t.Context(), ""); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("without the right: %v", err)
	}
}

func zeros(n int64) io.Reader {
	return io.LimitReader(readerFunc(func(p []byte) (int, error) { clear(p); return len(p), nil }), n)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// testHeaders checks the stored headers and checksums.
func testHeaders(t *testing.T, server *servertest.MinIO) {
	s := open(t, server.URL("headers"), Limits{})
	for _, size := range []int64{10, partSize + 10} {
		key := fmt.Sprint(size)
		mustCreate(t, s, key, zeros(size), size)
		o, err := server.Client().StatObject(t.Context(), server.Bucket, "headers/"+key, minio.StatObjectOptions{Checksum: true})
		if err != nil {
			t.Fatal(err)
		}
		if o.ContentType != "text/plain" || o.Metadata.Get("Cache-Control") != "no-cache" {
			t.Errorf("%d bytes: the headers are %v", size, o.Metadata)
		}
		if len(o.ChecksumCRC64NVME) != 12 || o.ChecksumMode != wholeObject {
			t.Errorf("%d bytes: the checksum is %q, %q", size, o.ChecksumCRC64NVME, o.ChecksumMode)
		}
	}
}

// testForeign reads what another program wrote, with no checksum kept.
func testForeign(t *testing.T, server *servertest.MinIO) {
	s := open(t, server.URL("foreign"), Limits{})
	opts := putOptions(object.Attributes{})
	for _, name := range []string{"foreign/a", "foreign/folder/"} {
		if _, err := server.Client().PutObject(t.Context(), server.Bucket, name, strings.NewReader("123456789"), 9, "", "", opts); err != nil {
			t.Fatal(err)
		}
	}
	if sum, err := s.Checksum(t.Context(), "a"); err != nil || sum != 0xae8b14860a799888 {
		t.Errorf("the checksum is %016x, %v", sum, err)
	}
	for info, err := range s.List(t.Context(), "", "") {
		if err != nil || info.Key != "a" {
			t.Errorf("listed: %+v, %v", info, err)
		}
	}
}

// testDown stops the server under a store that has used it, and starts it again.
func testDown(t *testing.T, server *servertest.MinIO) {
	s := open(t, server.URL("down"), Limits{Tries: 2})
	mustCreate(t, s, "a/c", strings.NewReader("abc"), 3)
	server.Stop()
	wantEach(t, s, object.ErrUnavailable)
	server.Start()
	if _, err := s.Stat(t.Context(), "a/c"); err != nil {
		t.Errorf("after the server came back: %v", err)
	}
}

func BenchmarkCreate(b *testing.B) {
	server := servertest.StartMinIO(b)
	server.Setenv()
	s := open(b, server.URL("bench"), Limits{})
	const size = 64 << 20
	b.SetBytes(size)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		key := fmt.Sprintf("releases/%d/bundle", i)
		mustCreate(b, s, key, zeros(size), size)
		b.StopTimer()
		if err := server.Client().RemoveObject(b.Context(), server.Bucket, "bench/"+key, minio.RemoveObjectOptions{}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
