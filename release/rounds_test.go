package release

import (
	"context"
	"io"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tsmon/store/object"
)

// distant is a store with slow requests. Like the S3 adapter, it makes two requests for a
// write: the second reads what was written.
type distant struct {
	object.Store
	requests atomic.Int64
}

const delay = 30 * time.Millisecond // of one request

func (d *distant) request(ctx context.Context) {
	d.requests.Add(1)
	select {
	case <-ctx.Done():
	case <-time.After(delay):
	}
}

func (d *distant) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	d.request(ctx)
	return d.Store.Get(ctx, key)
}

func (d *distant) Stat(ctx context.Context, key string) (object.Info, error) {
	d.request(ctx)
	return d.Store.Stat(ctx, key)
}

func (d *distant) Checksum(ctx context.Context, key string) (uint64, error) {
	d.request(ctx)
	return d.Store.Checksum(ctx, key)
}

func (d *distant) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	d.request(ctx)
	info, err := d.Store.Create(ctx, key, r, size, attrs)
	if err == nil {
		d.request(ctx)
	}
	return info, err
}

func (d *distant) Swap(ctx context.Context, key, etag string, data []byte, attrs object.Attributes) (object.Info, error) {
	d.request(ctx)
	info, err := d.Store.Swap(ctx, key, etag, data, attrs)
	if err == nil {
		d.request(ctx)
	}
	return info, err
}

func (d *distant) Delete(ctx context.Context, keys ...string) error {
	d.request(ctx)
	return d.Store.Delete(ctx, keys...)
}

func (d *distant) List(ctx context.Context, prefix, after string) iter.Seq2[object.Info, error] {
	d.request(ctx)
	return d.Store.List(ctx, prefix, after)
}

// rounds returns how many requests a move makes, and how many of them run one after another.
func (d *desk) rounds(move func()) (rounds, requests int) {
	store := &distant{Store: d.Store}
	near := d.Store
	d.Store = store
	defer func() { d.Store = near }()
	begin := time.Now() // of the bubble, where only requests take time
	move()
	return int(time.Since(begin) / delay), int(store.requests.Load())
}

// TestRounds: requests that don't need each other's answers run concurrently.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		four := func(version string) PublishOptions {
			return d.options(t, version, "App_"+version+"_x64_en-US.msi.zip", "App_"+version+"_amd64.AppImage.tar.gz", "App_x64.app.tar.gz", "App_aarch64.app.tar.gz")
		}
		d.publish(t, four("1.0.0"))
		d.publish(t, four("1.1.0"))
		next := four("1.2.0")
		for _, c := range []struct {
			name string
			most int
			move func() (*Plan, error)
		}{
			// Read: list, entries. Write: bundles, record, entry, manifest, and the
			// follower's entry and manifest, two requests each.
			{"publish", 14, func() (*Plan, error) { return d.Publish(t.Context(), next) }},
			{"publish again", 4, func() (*Plan, error) { return d.Publish(t.Context(), next) }},
			{"dry run", 2, func() (*Plan, error) {
				o := four("1.3.0")
				o.DryRun = true
				return d.Publish(t.Context(), o)
			}},
			// Read: list, entries, record, bundles. Write: entry, manifest.
			{"rollback", 8, func() (*Plan, error) {
				return d.Rollback(t.Context(), RollbackOptions{Options: Options{Channel: "stable", Why: "crashes"}})
			}},
			{"finish", 2, func() (*Plan, error) { return d.Finish(t.Context(), "stable") }},
		} {
			rounds, requests := d.rounds(func() {
				if _, err := c.move(); err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
			})
			t.Logf("%s: %d requests, %d in a row: %s at %s each", c.name, requests, rounds, time.Duration(rounds)*delay, delay)
			if rounds > c.most {
				t.Errorf("%s: %d requests in a row, want %d at most", c.name, rounds, c.most)
			}
		}
	})
}
