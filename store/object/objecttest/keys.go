package objecttest

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"tsmon/store/object"
)

// BadKeys are strings that are not valid keys.
var BadKeys = []string{
	"", ".", "..", "/", "/a", "a/", "a//b", "./a", "a/.", "a/..", "a/../b", "../a", "a/../../b",
	".hidden", "a/.hidden", ".tsmon/temp", "a\\b", "..\\a", "c:a", "a\x00b", "a\nb", "a\x7fb",
	"a\u0085b", "a\xffb", "\xed\xa0\x80", strings.Repeat("k", 901),
}

func badKeys(t *testing.T, s object.Store) {
	for _, key := range BadKeys {
		calls := reads(t.Context(), s, key)
		maps.Copy(calls, writes(t.Context(), s, key))
		for name, call := range calls {
			if err := call(); !errors.Is(err, object.ErrBadKey) {
				t.Errorf("%s of %q: %v", name, key, err)
			}
		}
	}
	if keys := mustList(t, s, "", ""); len(keys) > 0 {
		t.Errorf("bad keys left %q", keys)
	}
}

func oddKeys(t *testing.T, s object.Store) {
	keys := []string{
		"a b/c  d", "año/ñandú", "日本/東京.json", "a+b/c+d", "100%/%2F/%zz", "a#b/#c", "a?b/?c=d", "a&b/&",
		"a=b/=", "a;b/@c,d!$'()*", "~a/~", "-a/--", "a..b/c..", "a[b]/{c}", "\"a\"/<b>|^`", "A/a/B/b",
		"e\u0301/\u00e9", "😀/😀", "a ", "x/" + strings.Repeat("k", 200) + "/" + strings.Repeat("ñ", 100),
	}
	for _, key := range keys {
		data := sample(100)
		mustCreate(t, s, key, data)
		wantContent(t, s, key, data)
		wantError(t, tryCreate(t.Context(), s, key, data), fs.ErrExist)
		if got := mustList(t, s, key, ""); !slices.Contains(got, key) {
			t.Errorf("the list for prefix %q holds %q", key, got)
		}
	}
	slices.Sort(keys)
	if got := mustList(t, s, "", ""); !slices.Equal(got, keys) {
		t.Errorf("the list is %q instead of %q", got, keys)
	}
}

func absentObjects(t *testing.T, s object.Store) {
	mustCreate(t, s, "there/object", sample(1))
	for _, key := range []string{"object", "there", "there/objec", "there/object/below", "there/objects", "nowhere/at/all"} {
		for name, call := range reads(t.Context(), s, key) {
			if err := call(); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s of %q: %v", name, key, err)
			}
		}
	}
}
