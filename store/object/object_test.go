package object_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"tsmon/store/object"
	"tsmon/store/object/objecttest"
)

func TestValidKey(t *testing.T) {
	for _, key := range []string{"a", "a/b", "a.b/c..", "releases/1.4.0/tsmon_1.4.0_x64-setup.nsis.zip", "日本/ñ +%#?&=", strings.Repeat("k", 900)} {
		if err := object.ValidKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range objecttest.BadKeys {
		if err := object.ValidKey(key); !errors.Is(err, object.ErrBadKey) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func FuzzValidKey(f *testing.F) {
	for _, key := range objecttest.BadKeys {
		f.Add(key, "x")
	}
	f.Add("a/b.c", "/d")
	f.Fuzz(func(t *testing.T, key, more string) {
		if err := object.ValidKey(key); err != nil {
			if !errors.Is(err, object.ErrBadKey) {
				t.Errorf("%q: %v", key, err)
			}
			return
		}
		if !fs.ValidPath(key) || !utf8.ValidString(key) || key[0] == '.' || len(key) > 900 || strings.ContainsAny(key, "\\:\x00\n") {
			t.Errorf("%q is taken", key)
		}
		for _, segment := range strings.Split(key, "/") {
			if segment == "" || segment[0] == '.' {
				t.Errorf("%q is taken", key)
			}
		}
		for i := range key { // at the boundaries of runes
			if !object.ValidPrefix(key[:i]) {
				t.Errorf("%q is a key, but can't begin with %q", key, key[:i])
			}
		}
		if object.ValidKey(key+more) == nil && !object.ValidPrefix(key) {
			t.Errorf("%q can't begin %q", key, key+more)
		}
	})
}

func TestExactly(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		r    io.Reader
		size int64
		want error
	}{
		"empty":           {strings.NewReader(""), 0, nil},
		"whole":           {strings.NewReader("abc"), 3, nil},
		"one byte":        {iotest.OneByteReader(strings.NewReader("abc")), 3, nil},
		"data and EOF":    {iotest.DataErrReader(strings.NewReader("abc")), 3, nil},
		"short":           {strings.NewReader("abc"), 4, io.ErrUnexpectedEOF},
		"short with EOF":  {iotest.DataErrReader(strings.NewReader("abc")), 4, io.ErrUnexpectedEOF},
		"error at once":   {iotest.ErrReader(broken), 3, broken},
		"error for empty": {iotest.ErrReader(broken), 0, broken},
		"error after":     {io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), 3, broken},
		"error in time":   {iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("abc"))), 3, iotest.ErrTimeout},
	} {
		_, err := io.ReadAll(object.Exactly(c.r, c.size))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, size := range []int64{0, 2} {
		r := object.Exactly(strings.NewReader("abc"), size)
		for range 2 { // it keeps failing
			if data, err := io.ReadAll(r); err == nil || int64(len(data)) > size {
				t.Errorf("long: read %q, %v", data, err)
			}
		}
	}
}

// stored is a store of one object, of the announced size.
type stored struct {
	object.Store
	body io.Reader
	size int64
}

func (s stored) Get(context.Context, string) (io.ReadCloser, object.Info, error) {
	return io.NopCloser(s.body), object.Info{Key: "a", Size: s.size, ETag: "x"}, nil
}

func TestReadAll(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		stored
		want error
	}{
		"empty":            {stored{body: strings.NewReader("")}, nil},
		"at the limit":     {stored{body: strings.NewReader("abcd"), size: 4}, nil},
		"above it":         {stored{body: strings.NewReader("abcde"), size: 5}, object.ErrTooLarge},
		"huge":             {stored{body: iotest.ErrReader(broken), size: math.MaxInt64}, object.ErrTooLarge},
		"announced as one": {stored{body: strings.NewReader("abcde"), size: 1}, object.ErrTooLarge},
		"broken":           {stored{body: iotest.ErrReader(broken), size: 4}, broken},
	} {
		data, info, err := object.ReadAll(t.Context(), c.stored, "a", 4)
		if !errors.Is(err, c.want) || info.ETag != "x" {
			t.Errorf("%s: %v, %+v", name, err, info)
		}
		if err == nil && int64(len(data)) != c.size || err != nil && data != nil {
			t.Errorf("%s: read %q", name, data)
		}
	}
}
