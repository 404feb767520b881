package objecttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tsmon/store/object"
)

// order has keys in byte order, which is neither the order of names in a folder nor that of
// any language.
var order = []string{
	"A/a", "a b/x", "a!b", "a-b/x", "a.b", "a.b.c/x", "a/b", "a/b c", "a/b-", "a/b.json/x", "a/b0", "a/c/d/e", "a0", "aa/b",
	"b", "log/stable/0000000001.json", "log/stable/0000000002.json", "log/stable/0000000010.json",
	"releases/1.10.0/x", "releases/1.2.0/x", "ñ", "日本/x",
}

func createAll(t *testing.T, s object.Store, keys []string) {
	t.Helper()
	shuffled := slices.Clone(keys)
	slices.Reverse(shuffled)
	for _, key := range shuffled {
		mustCreate(t, s, key, []byte(key))
	}
}

func listOrder(t *testing.T, s object.Store) {
	if !slices.IsSorted(order) {
		t.Fatal("the expected keys are not in order")
	}
	if keys := mustList(t, s, "", ""); len(keys) > 0 {
		t.Errorf("an empty store lists %q", keys)
	}
	createAll(t, s, order)
	var got []string
	for info, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if info.Size != int64(len(info.Key)) || info.ModTime.IsZero() || info.ETag != "" {
			t.Errorf("List yields %+v", info)
		}
		got = append(got, info.Key)
	}
	if !slices.Equal(got, order) {
		t.Errorf("the list is %q", got)
	}
}

func listPrefixAfter(t *testing.T, s object.Store) {
	createAll(t, s, order)
	for _, prefix := range []string{
		"", "a", "a/", "a/b", "a/b.", "a/b.json/x", "a/b.json/x/", "a/c/d", "log/", "log/stable/00000000", "log/stable/1", "b", "b/",
		"releases/1.1", "ñ", "日本/", "z", "no/such/folder/", "/", "//", "a//", ".", "..", "../", ".tsmon/", "a/../b", "a\\", "\x00",
		strings.Repeat("k/", 500),
	} {
		for _, after := range append([]string{
			"", "a", "a/", "a/b", "a/b.json", "a/c", "a/zzz", "a.b.c/", "log/stable/0000000001.json", "log/stable/0000000001.jsoo",
			"log/stable/9", "\xff", "!", "../x", "zzz", "ñ",
		}, order...) {
			var want []string
			for _, key := range order {
				if strings.HasPrefix(key, prefix) && key > after {
					want = append(want, key)
				}
			}
			if got := mustList(t, s, prefix, after); !slices.Equal(got, want) {
				t.Errorf("prefix %q after %q lists %q instead of %q", prefix, after, got, want)
			}
		}
	}
}

func listFolders(t *testing.T, s object.Store) {
	createAll(t, s, order)
	for _, prefix := range []string{"", "a/", "log/", "no/such/folder/"} {
		var want, got []string
		for _, key := range order {
			rest, below := strings.CutPrefix(key, prefix)
			if folder, _, ok := strings.Cut(rest, "/"); ok && below && !slices.Contains(want, folder) {
				want = append(want, folder)
			}
		}
		for folder, err := range object.Folders(t.Context(), s, prefix) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, folder)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the folders below %q are %q instead of %q", prefix, got, want)
		}
	}
}

func listStops(t *testing.T, s object.Store) {
	createAll(t, s, order)
	for range s.List(t.Context(), "", "") {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	var last error
	for info, err := range s.List(ctx, "", "") {
		if last != nil {
			t.Fatalf("the list goes on after %v", last)
		}
		if last = err; err == nil {
			got = append(got, info.Key)
			cancel()
		}
	}
	if len(got) == len(order) || !errors.Is(last, context.Canceled) {
		t.Errorf("a cancelled list went on to %q and ended with %v", got, last)
	}
	_, err := listed(s.List(ctx, "", ""))
	wantError(t, err, context.Canceled)
}

// listMany lists more keys than fit into one answer of S3.
func listMany(t *testing.T, s object.Store) {
	const n, writers = 1050, 16
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprintf("log/beta/%010d.json", i)
	}
	for _, err := range atOnce(writers, func(w int) error {
		for i := w; i < n; i += writers {
			if err := tryCreate(t.Context(), s, want[i], []byte(want[i])); err != nil {
				return err
			}
		}
		return nil
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := mustList(t, s, "", ""); !slices.Equal(got, want) {
		t.Errorf("%d keys are listed instead of %d", len(got), n)
	}
	if got := mustList(t, s, "log/beta/", want[n-3]); !slices.Equal(got, want[n-2:]) {
		t.Errorf("the list after %s is %q", want[n-3], got)
	}
}
