// Package objecttest holds the suite that every adapter of package object passes.
//
// The suite is hostile: readers that fail with their last byte, wrong sizes, writers
// that race for one key, contexts that are cancelled in the middle, invalid keys and
// prefixes.
package objecttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/minio/crc64nvme"

	"tsmon/store/object"
)

// Suite runs every test of the contract. open returns a new, empty, writable store for each
// test, or fails it.
func Suite(t *testing.T, open func(t *testing.T) object.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, object.Store)
	}{
		{"RoundTrips", roundTrips},
		{"Ranges", ranges},
		{"RangesOfEmpty", rangesOfEmpty},
		{"RangesOfChanged", rangesOfChanged},
		{"RangesOfLarge", rangesOfLarge},
		{"Absent", absentObjects},
		{"BadKeys", badKeys},
		{"OddKeys", oddKeys},
		{"CreateTaken", createTaken},
		{"CreateFailingReader", createFailingReader},
		{"CreateCancelled", createCancelled},
		{"CreateRace", createRace},
		{"CreateRaceLarge", createRaceLarge},
		{"Conditions", conditions},
		{"Swap", swap},
		{"SwapOtherETag", swapOtherETag},
		{"SwapBack", swapBack},
		{"SwapSizes", swapSizes},
		{"SwapRace", swapRace},
		{"SwapCreateRace", swapCreateRace},
		{"SwapChain", swapChain},
		{"ReadWhileSwapping", readWhileSwapping},
		{"Delete", deletes},
		{"DeleteMany", deleteMany},
		{"Now", now},
		{"ListOrder", listOrder},
		{"ListPrefixAfter", listPrefixAfter},
		{"ListFolders", listFolders},
		{"ListStops", listStops},
		{"ListMany", listMany},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// Missing tests a store whose bucket or root folder is missing: each method must return
// ErrNoStore instead of treating the store as empty.
func Missing(t *testing.T, s object.Store) {
	ctx := t.Context()
	calls := reads(ctx, s, "a/b")
	maps.Copy(calls, writes(ctx, s, "a/b"))
	calls["CreateLarge"] = func() error { return tryCreate(ctx, s, "a/c", sample(object.StraightSize+1)) }
	calls["List"] = func() error { _, err := listed(s.List(ctx, "", "")); return err }
	calls["ListPrefix"] = func() error { _, err := listed(s.List(ctx, "a/", "a/a")); return err }
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			err := call()
			wantError(t, err, object.ErrNoStore)
			if errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the error is fs.ErrNotExist too: %v", err)
			}
		})
	}
}

// reads returns calls of the methods that read an object.
func reads(ctx context.Context, s object.Store, key string) map[string]func() error {
	return map[string]func() error{
		"Get":      func() error { _, _, err := s.Get(ctx, key); return err },
		"GetRange": func() error { _, err := s.GetRange(ctx, key, "abc", 0, 1); return err },
		"Stat":     func() error { _, err := s.Stat(ctx, key); return err },
		"Checksum": func() error { _, err := s.Checksum(ctx, key); return err },
	}
}

// writes returns calls of the methods that write or delete an object.
func writes(ctx context.Context, s object.Store, key string) map[string]func() error {
	return map[string]func() error{
		"Create":   func() error { return tryCreate(ctx, s, key, sample(10)) },
		"Swap":     func() error { _, err := s.Swap(ctx, key, "", sample(10), object.Attributes{}); return err },
		"SwapOver": func() error { _, err := s.Swap(ctx, key, "abc", sample(10), object.Attributes{}); return err },
		"Delete":   func() error { return s.Delete(ctx, key) },
	}
}

// sample returns n bytes that differ from call to call.
func sample(n int) []byte {
	data := make([]byte, n)
	seed := rand.Uint64()
	for i := range data {
		seed = seed*6364136223846793005 + 1442695040888963407
		data[i] = byte(seed >> 56)
	}
	return data
}

func tryCreate(ctx context.Context, s object.Store, key string, data []byte) error {
	_, err := s.Create(ctx, key, bytes.NewReader(data), int64(len(data)), object.Attributes{})
	return err
}

func mustCreate(t *testing.T, s object.Store, key string, data []byte) object.Info {
	t.Helper()
	info, err := s.Create(t.Context(), key, bytes.NewReader(data), int64(len(data)),
		object.Attributes{ContentType: "application/octet-stream", CacheControl: "max-age=60"})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func mustSwap(t *testing.T, s object.Store, key, etag string, data []byte) object.Info {
	t.Helper()
	info, err := s.Swap(t.Context(), key, etag, data, object.Attributes{ContentType: "application/json"})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// wantContent checks with each reading method that an object holds data.
func wantContent(t *testing.T, s object.Store, key string, data []byte) {
	t.Helper()
	got, info := content(t, s, key)
	if !bytes.Equal(got, data) {
		t.Fatalf("%s has the wrong content: %d bytes, expected %d", key, len(got), len(data))
	}
	stat, err := s.Stat(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if !sameInfo(stat, info) {
		t.Errorf("Stat returns %+v and Get %+v", stat, info)
	}
	if info.Key != key || info.Size != int64(len(data)) || info.ETag == "" || info.ModTime.IsZero() {
		t.Errorf("Get returns %+v of %d bytes at %s", info, len(data), key)
	}
	sum, err := s.Checksum(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if want := checksum(data); sum != want {
		t.Errorf("Checksum returns %016x instead of %016x", sum, want)
	}
}

// sameInfo compares times to the second, which is the precision of HTTP.
func sameInfo(a, b object.Info) bool {
	sameTime := a.ModTime.Unix() == b.ModTime.Unix()
	a.ModTime = b.ModTime
	return sameTime && a == b
}

func checksum(data []byte) uint64 {
	h := crc64nvme.New()
	h.Write(data)
	return h.Sum64()
}

func content(t *testing.T, s object.Store, key string) ([]byte, object.Info) {
	t.Helper()
	r, info, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data, info
}

// wantAbsent checks with Stat and List that there is no object with the key.
func wantAbsent(t *testing.T, s object.Store, key string) {
	t.Helper()
	_, err := s.Stat(t.Context(), key)
	wantError(t, err, fs.ErrNotExist)
	for _, k := range mustList(t, s, "", "") {
		if k == key {
			t.Errorf("%s is listed", key)
		}
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, not %q", err, want)
	}
}

// listed collects the keys of a list and the error that ended it.
func listed(list iter.Seq2[object.Info, error]) (keys []string, err error) {
	for info, e := range list {
		if err != nil {
			return keys, errors.New("the list went on after its error: " + err.Error())
		}
		if err = e; err == nil {
			keys = append(keys, info.Key)
		}
	}
	return keys, err
}

func mustList(t *testing.T, s object.Store, prefix, after string) []string {
	t.Helper()
	keys, err := listed(s.List(t.Context(), prefix, after))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
