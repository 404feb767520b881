package objecttest

import (
	"bytes"
	"context"
	"io"
	"math"
	"strings"
	"testing"

	"tsmon/store/object"
)

// part reads a part of an object.
func part(ctx context.Context, s object.Store, key, etag string, offset, length int64) ([]byte, error) {
	r, err := s.GetRange(ctx, key, etag, offset, length)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// wantParts checks that each part has the object's bytes.
func wantParts(t *testing.T, s object.Store, key, etag string, data []byte, parts ...[2]int64) {
	t.Helper()
	for _, p := range parts {
		got, err := part(t.Context(), s, key, etag, p[0], p[1])
		if err != nil || !bytes.Equal(got, data[p[0]:p[0]+p[1]]) {
			t.Errorf("%d bytes from %d of %d: %d bytes, %v", p[1], p[0], len(data), len(got), err)
		}
	}
}

func ranges(t *testing.T, s object.Store) {
	data := sample(1000)
	info := mustCreate(t, s, "there/object", data)
	wantParts(t, s, "there/object", info.ETag, data, [2]int64{0, 1}, [2]int64{0, 1000}, [2]int64{1, 999}, [2]int64{500, 17}, [2]int64{999, 1}, [2]int64{0, 999})
	for _, p := range [][2]int64{
		{1000, 1}, {999, 2}, {0, 1001}, {5000, 1}, {0, 0}, {5, 0}, {1000, 0}, {-1, 1}, {-1, 2}, {5, -1}, {1001, -1},
		{math.MinInt64, 1}, {0, math.MinInt64}, {math.MaxInt64, 1}, {0, math.MaxInt64}, {math.MaxInt64, math.MaxInt64}, {1, math.MaxInt64},
	} {
		_, err := part(t.Context(), s, "there/object", info.ETag, p[0], p[1])
		wantError(t, err, object.ErrRange)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := part(ctx, s, "there/object", info.ETag, 0, 1)
	wantError(t, err, context.Canceled)
}

func rangesOfEmpty(t *testing.T, s object.Store) {
	info := mustCreate(t, s, "empty", nil)
	for _, length := range []int64{0, 1} {
		_, err := part(t.Context(), s, "empty", info.ETag, 0, length)
		wantError(t, err, object.ErrRange)
	}
}

func rangesOfChanged(t *testing.T, s object.Store) {
	first, second := sample(100), sample(100)
	before := mustSwap(t, s, pointer, "", first)
	opened, err := s.GetRange(t.Context(), pointer, before.ETag, 10, 50)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	after := mustSwap(t, s, pointer, before.ETag, second)
	for _, etag := range []string{before.ETag, "", strings.Repeat("0", 32), "*", after.ETag + "0", strings.ToUpper(before.ETag)} {
		_, err := part(t.Context(), s, pointer, etag, 10, 50)
		wantError(t, err, object.ErrChanged)
	}
	wantParts(t, s, pointer, after.ETag, second, [2]int64{10, 50})
	if got, err := io.ReadAll(opened); err == nil && !bytes.Equal(got, first[10:60]) {
		t.Error("a reader opened before the change returns neither the old bytes nor an error")
	}
}

// rangesOfLarge reads parts of an object that is written in several parts. Its ETag may have
// another form than that of a small object.
func rangesOfLarge(t *testing.T, s object.Store) {
	const size = object.StraightSize + 1000
	data := sample(size)
	info := mustCreate(t, s, "releases/1.0.0/bundle", data)
	wantParts(t, s, "releases/1.0.0/bundle", info.ETag, data,
		[2]int64{0, 10}, [2]int64{size - 1, 1}, [2]int64{object.StraightSize - 500, 1000}, [2]int64{3, size - 3})
	_, err := part(t.Context(), s, "releases/1.0.0/bundle", info.ETag, size-1, 2)
	wantError(t, err, object.ErrRange)
	_, err = part(t.Context(), s, "releases/1.0.0/bundle", "abc", 0, 1)
	wantError(t, err, object.ErrChanged)
}
