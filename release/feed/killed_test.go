package feed

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	"tsmon/store/object"
	"tsmon/store/object/objecttest"
)

// killed fails every operation from one on.
type killed struct {
	object.Store
	left atomic.Int64
}

func (k *killed) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	if k.left.Add(-1) < 0 {
		return object.Info{}, errKilled
	}
	return k.Store.Create(ctx, key, r, size, attrs)
}

func (k *killed) Swap(ctx context.Context, key, etag string, data []byte, attrs object.Attributes) (object.Info, error) {
	if k.left.Add(-1) < 0 {
		return object.Info{}, errKilled
	}
	return k.Store.Swap(ctx, key, etag, data, attrs)
}

// TestKilledImport: an import that ends at any write leaves the channel as it was or as it
// is to be, and another one completes it.
func TestKilledImport(t *testing.T) {
	hq, _ := sides(t)
	hq.publish(t, "stable", "1.0.0")
	first := hq.export(t, 0)
	for _, version := range []string{"1.1.0", "1.2.0", "1.3.0", "1.4.0"} {
		hq.publish(t, "stable", version)
	}
	hq.prune(t, 2)
	second := hq.export(t, 1)
	for at := 0; ; at++ {
		site := newPlace(t, "http://10.0.0.7/updates", hq.key)
		site.must(t, first)
		broken := *site.Publisher
		dying := &killed{Store: site.Store}
		dying.left.Store(int64(at))
		broken.Store = dying
		_, err := Import(t.Context(), &broken, bytes.NewReader(second), false)
		if err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		report, verifyErr := site.Keeper().Verify(t.Context(), "stable")
		if verifyErr != nil || report.Version != "1.0.0" && report.Version != "1.4.0" {
			t.Fatalf("killed at %d: %+v, %v", at, report, verifyErr)
		}
		for _, f := range report.Findings {
			if f.Object != "stable/latest.json" || !strings.Contains(f.Mend, "brings it up to date") {
				t.Errorf("killed at %d: %+v", at, f)
			}
		}
		if _, err := site.take(t, first); report.Version == "1.0.0" && site.log(t).Begun() > 0 && !errors.Is(err, ErrOlder) {
			t.Errorf("killed at %d, the file before: %v", at, err)
		}
		site.must(t, second)
		site.shows(t, "1.4.0")
		before := objecttest.Tree(t, site.Store)
		site.must(t, second)
		if !maps.Equal(before, objecttest.Tree(t, site.Store)) {
			t.Errorf("killed at %d: a third import writes", at)
		}
		if err == nil {
			if at < 10 {
				t.Errorf("only %d moments were tried", at)
			}
			return
		}
	}
}
