package release

import (
	"context"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/release/library"
	"tsmon/release/upkeep"
	"tsmon/store/object"
	"tsmon/store/object/objecttest"
)

// TestPruneLeftovers: objects that no release needs are removed after a day, and no others.
func TestPruneLeftovers(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	parts := d.parts(t, "1.1.0")
	d.stage(t, d.staging("1.1.0", parts[0]))
	d.stage(t, d.staging("1.1.0", parts[1]))
	d.take(t, "1.1.0")
	d.stage(t, d.staging("1.2.0", d.parts(t, "1.2.0")[0])) // in flight
	d.stage(t, d.staging("1.3.0", d.parts(t, "1.3.0")[0])) // thrown away
	if _, err := d.Discard(t.Context(), "1.3.0"); err != nil {
		t.Fatal(err)
	}
	d.put(t, "releases/1.0.0/App_0123abcd_amd64.AppImage")
	d.put(t, "releases/1.9.0/App.AppImage")
	d.put(t, "releases/1.9.0/App.AppImage.sig")
	d.put(t, "releases/readme.txt")
	before := objecttest.Tree(t, d.Store)
	if got := d.prunes(t, upkeep.PruneOptions{Keep: 9}); got.Changed {
		t.Errorf("too early: %+v", got)
	}
	d.age(t)
	dry := d.prunes(t, upkeep.PruneOptions{Keep: 9, DryRun: true})
	got := d.prunes(t, upkeep.PruneOptions{Keep: 9})
	if !slices.Equal(got.Leftovers, dry.Leftovers) || versionsOf(got) != "" || len(got.Channels) > 0 {
		t.Errorf("%+v, announced: %+v", got, dry)
	}
	after := objecttest.Tree(t, d.Store)
	for key := range before {
		_, stays := after[key]
		goes := strings.HasPrefix(key, "releases/1.9.0/") || strings.HasPrefix(key, "releases/1.3.0/") || strings.HasPrefix(key, "staged/1.1.0/") ||
			key == "releases/1.0.0/App_0123abcd_amd64.AppImage"
		if stays == goes {
			t.Errorf("%s: stays %v", key, stays)
		}
	}
	d.sound(t, "stable")
	if plan := d.take(t, "1.1.0"); plan.Changed {
		t.Errorf("what was staged and published is published again: %+v", plan)
	}
	d.stage(t, d.staging("1.2.0", d.parts(t, "1.2.0")[1]))
	d.take(t, "1.2.0")
	d.publish(t, PublishOptions{Options: Options{Channel: "stable"}, Version: "1.3.0", Bundles: slices.Concat(d.parts(t, "1.3.0")[:2]...), Unlock: d.unlock})
	d.sound(t, "stable")
}

// TestPublishTrustsNothingOld: a publish takes no object that Prune may remove.
func TestPublishTrustsNothingOld(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	d.stage(t, d.staging("1.1.0", d.parts(t, "1.1.0")[0]))
	if _, err := d.Discard(t.Context(), "1.1.0"); err != nil {
		t.Fatal(err)
	}
	d.age(t)
	o := PublishOptions{Options: Options{Channel: "stable", AllowMissing: []string{"linux-x86_64"}}, Version: "1.1.0", Bundles: d.parts(t, "1.1.0")[0], Unlock: d.unlock}
	store := d.Store
	d.Store = &hooked{store, func(key string, r io.Reader) io.Reader {
		if key == "releases/1.1.0/release.json" {
			other := *d.Publisher
			other.Store = store
			if _, err := other.Keeper().Prune(t.Context(), upkeep.PruneOptions{Keep: 9}); err != nil {
				t.Error(err)
			}
		}
		return r
	}}
	d.publish(t, o)
	d.sound(t, "stable")
}

// uploading is a store with unfinished uploads.
type uploading struct {
	object.Store
	uploads []object.Upload
	err     error
	aborted []object.Upload
}

func (u *uploading) Unfinished(_ context.Context, prefix string) (found []object.Upload, err error) {
	for _, upload := range u.uploads {
		if strings.HasPrefix(upload.Key, prefix) {
			found = append(found, upload)
		}
	}
	return found, u.err
}

func (u *uploading) Abort(_ context.Context, uploads ...object.Upload) error {
	u.aborted = append(u.aborted, uploads...)
	return nil
}

func TestPruneUnfinished(t *testing.T) {
	d := newDesk(t)
	d.series(t, 1)
	old := object.Upload{Key: "releases/1.1.0/a", ID: "1", Begun: time.Now().Add(-25 * time.Hour)}
	store := &uploading{Store: d.Store, uploads: []object.Upload{old, {Key: "releases/1.1.0/a", ID: "2", Begun: time.Now()}, {Key: "uploads/b", ID: "3", Begun: old.Begun}}}
	d.Store = store
	if got := d.prunes(t, upkeep.PruneOptions{Keep: 1, DryRun: true}); !slices.Equal(got.Unfinished, []string{old.Key}) || !got.Changed || len(store.aborted) > 0 {
		t.Errorf("announced: %+v, aborted: %v", got, store.aborted)
	}
	if got := d.prunes(t, upkeep.PruneOptions{Keep: 1}); !slices.Equal(got.Unfinished, []string{old.Key}) || !slices.Equal(store.aborted, []object.Upload{old}) {
		t.Errorf("%+v, aborted: %v", got, store.aborted)
	}
	store.err = fs.ErrPermission
	if got := d.prunes(t, upkeep.PruneOptions{Keep: 1}); len(got.Warnings) != 1 || got.Changed {
		t.Errorf("without the right: %+v", got)
	}
}

// counting counts the requests to a store.
type counting struct {
	object.Store
	mu  sync.Mutex
	got []string
}

func (c *counting) Get(ctx context.Context, key string) (r io.ReadCloser, info object.Info, err error) {
	c.mu.Lock()
	c.got = append(c.got, key)
	c.mu.Unlock()
	return c.Store.Get(ctx, key)
}

// TestPruneReadsNoReleases: a prune reads the logs and the objects that clients read, but no
// releases.
func TestPruneReadsNoReleases(t *testing.T) {
	d := newDesk(t)
	d.series(t, 6)
	store := &counting{Store: d.Store}
	d.Store = store
	d.prunes(t, upkeep.PruneOptions{Keep: 1})
	for _, key := range store.got {
		if strings.HasPrefix(key, library.Root) {
			t.Errorf("it reads %s", key)
		}
	}
	// Twice for each channel the manifest and the list of downloads, and once more to
	// bring them up to date; each entry once, and each new one twice.
	if len(store.got) > 2*(6+6+6) {
		t.Errorf("%d objects are read: %v", len(store.got), store.got)
	}
}

// mark writes an empty object, such as the mark of a delivery.
func (d *desk) mark(t *testing.T, key string) {
	t.Helper()
	if _, err := d.Store.Create(t.Context(), key, strings.NewReader(""), 0, library.RecordAttributes); err != nil {
		t.Fatal(err)
	}
}

// TestUnfinishedDelivery: the objects of an interrupted delivery from another store count as
// abandoned after an hour by the store's time. Only then are they reported and removed.
func TestUnfinishedDelivery(t *testing.T) {
	d := newDesk(t)
	d.series(t, 3)
	d.mark(t, "log/stable/0000000004-0000000006.part")
	begun := "log/stable/0000000006.json"
	d.put(t, begun)
	d.mark(t, "log/stable/0000000001-0000000003.part")
	var later time.Duration
	d.Now = func() time.Time { return time.Now().Add(later) }
	for _, c := range []struct {
		later time.Duration
		names bool
	}{{0, false}, {59 * time.Minute, false}, {61 * time.Minute, true}} {
		later = c.later
		report, err := d.Keeper().Verify(t.Context(), "stable")
		if err != nil {
			t.Fatal(err)
		}
		if named := slices.ContainsFunc(report.Findings, func(f upkeep.Finding) bool { return f.Object == begun }); named != c.names {
			t.Errorf("after %v: %+v", c.later, report.Findings)
		}
		repaired, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"})
		if err != nil {
			t.Fatal(err)
		}
		if gone := objecttest.Tree(t, d.Store)[begun] == ""; gone != c.names {
			t.Errorf("after %v: %+v", c.later, repaired)
		}
	}
}
