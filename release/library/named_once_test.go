package library

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"tsmon/store/object"
)

var errDown = errors.New("the store is down")

// down is a store that can't be reached. Like every store it says what it was to do, and with
// which object.
type down struct{ object.Store }

func (down) List(_ context.Context, prefix, _ string) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		yield(object.Info{}, fmt.Errorf("list %s: %w", prefix, errDown))
	}
}

func (down) Get(_ context.Context, key string) (io.ReadCloser, object.Info, error) {
	return nil, object.Info{}, fmt.Errorf("get %s: %w", key, errDown)
}

func (down) Stat(_ context.Context, key string) (object.Info, error) {
	return object.Info{}, fmt.Errorf("stat %s: %w", key, errDown)
}

func (down) Checksum(_ context.Context, key string) (uint64, error) {
	return 0, fmt.Errorf("checksum %s: %w", key, errDown)
}

func (down) Create(_ context.Context, key string, _ io.Reader, _ int64, _ object.Attributes) (object.Info, error) {
	return object.Info{}, fmt.Errorf("create %s: %w", key, errDown)
}

// TestErrorsNameObjectsOnce: an error of the store names the object already.
func TestErrorsNameObjectsOnce(t *testing.T) {
	ctx, l := t.Context(), Library{Store: down{}}
	b := Stored{Name: "a.exe"}
	for name, call := range map[string]func() error{
		"list":   func() error { _, err := l.List(ctx); return err },
		"staged": func() error { _, err := l.Staged(ctx, "1.0.0"); return err },
		"target": func() error { return l.readStaged(ctx, "1.0.0", &Staged{Target: "any", Number: 1}) },
		"folder": func() error { _, _, err := l.Objects(ctx, "1.0.0", time.Time{}); return err },
		"verify": func() error { return l.VerifyStored(ctx, &Record{Bundles: []Stored{b}}, false) },
		"whole":  func() error { _, err := l.Whole(ctx, "1.0.0", b); return err },
		"write":  func() error { return l.Create(ctx, "releases/1.0.0/release.json", nil, RecordAttributes) },
		"digest": func() error { return CompareDigest(ctx, l.Store, "releases/1.0.0/a.exe", b.Digest()) },
	} {
		if err := call(); !errors.Is(err, errDown) || strings.Count(err.Error(), ": ") > 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
