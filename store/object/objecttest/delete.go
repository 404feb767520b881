package objecttest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"testing"

	"tsmon/store/object"
)

// deletes checks that only the named objects are deleted, and that their keys can be used
// again.
func deletes(t *testing.T, s object.Store) {
	for _, key := range []string{"a/b", "a/bc", "a/b.sig", "ab"} {
		mustCreate(t, s, key, sample(10))
	}
	large := sample(object.StraightSize + 1)
	mustCreate(t, s, "a/large", large)
	if err := s.Delete(t.Context(), "a/b", "a/missing", "missing", "a/large"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a/b", "a/large"} {
		_, err := s.Stat(t.Context(), key)
		wantError(t, err, fs.ErrNotExist)
	}
	infos, err := listed(s.List(t.Context(), "", ""))
	if err != nil || len(infos) != 3 {
		t.Errorf("the remaining objects are %v, error %v", infos, err)
	}
	for what, keys := range map[string][]string{"again": {"a/b"}, "the prefix of keys": {"a"}, "nothing": nil} {
		if err := s.Delete(t.Context(), keys...); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	again := sample(20)
	mustCreate(t, s, "a/b", again)
	data, _, err := object.ReadAll(t.Context(), s, "a/b", 100)
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("after it was created again the object has %d bytes, error %v", len(data), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, s.Delete(ctx, "a/b"), context.Canceled)
	if _, err := s.Stat(t.Context(), "a/b"); err != nil {
		t.Errorf("a cancelled call deleted it: %v", err)
	}
}

// deleteMany deletes more objects than one S3 request can.
func deleteMany(t *testing.T, s object.Store) {
	keys := make([]string, 1005)
	for i := range keys {
		keys[i] = fmt.Sprintf("many/%04d", i)
	}
	for _, i := range []int{0, 500, 1004} {
		mustCreate(t, s, keys[i], sample(1))
	}
	mustCreate(t, s, "many/x", sample(1))
	if err := s.Delete(t.Context(), keys...); err != nil {
		t.Fatal(err)
	}
	infos, err := listed(s.List(t.Context(), "many/", ""))
	if err != nil || len(infos) != 1 {
		t.Errorf("the remaining objects are %v, error %v", infos, err)
	}
}
