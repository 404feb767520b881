package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/release/approval"
	"tsmon/release/library"
	"tsmon/release/upkeep"
	"tsmon/signing/signingtest"
	"tsmon/store/object"
	"tsmon/store/object/objecttest"
)

// prunes runs a prune, which must succeed, and returns its report.
func (d *desk) prunes(t *testing.T, o upkeep.PruneOptions) *upkeep.PruneReport {
	t.Helper()
	report, err := d.Keeper().Prune(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func versionsOf(p *upkeep.PruneReport) string {
	var versions []string
	for _, v := range p.Pruned {
		versions = append(versions, v.Version)
	}
	return strings.Join(versions, " ")
}

// series publishes 1.0.0 to 1.N-1.0 to stable.
func (d *desk) series(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		d.publish(t, d.options(t, fmt.Sprintf("1.%d.0", i)))
	}
}

// age makes every object a day older.
func (d *desk) age(t *testing.T) {
	t.Helper()
	for key := range objecttest.Tree(t, d.Store) {
		then := time.Now().Add(-2*upkeep.TrustAge - time.Minute)
		if err := os.Chtimes(filepath.Join(d.root, key), then, then); err != nil {
			t.Fatal(err)
		}
	}
}

// put writes an object as somebody else.
func (d *desk) put(t *testing.T, key string) {
	t.Helper()
	if _, err := d.Store.Create(t.Context(), key, strings.NewReader("junk"), 4, library.BundleAttributes); err != nil {
		t.Fatal(err)
	}
}

// TestPruneKeeps: the releases that heads, watersheds, rollouts and the next two rollbacks of
// any channel need are kept.
func TestPruneKeeps(t *testing.T) {
	for _, o := range []upkeep.PruneOptions{{Keep: 1}, {}} {
		t.Run(fmt.Sprintf("keep %d", o.Keep), func(t *testing.T) { testPruneKeeps(t, o) })
	}
}

func testPruneKeeps(t *testing.T, o upkeep.PruneOptions) {
	t.Helper()
	d := newDesk(t)
	d.series(t, 3)
	shed := d.options(t, "1.3.0")
	shed.Extra.Watershed = true
	d.publish(t, shed)
	for _, version := range []string{"1.4.0", "1.5.0", "1.6.0", "1.7.0"} {
		d.publish(t, d.options(t, version))
	}
	if _, err := d.Rollback(t.Context(), RollbackOptions{Options: Options{Channel: "beta", Why: "crashes"}, To: "1.1.0"}); err != nil {
		t.Fatal(err)
	}
	part := d.options(t, "1.8.0")
	part.Rollout = &channels.Rollout{Steps: []int{10}}
	d.publish(t, part)
	// Stable shows 1.7.0 and rolls 1.8.0 out; 1.6.0 and 1.5.0 are before it. Beta shows
	// 1.1.0; 1.0.0 is before it.
	if got := versionsOf(d.prunes(t, o)); got != "1.2.0 1.4.0" {
		t.Errorf("pruned: %s", got)
	}
	d.sound(t, "stable")
	d.sound(t, "beta")
	if got := d.prunes(t, o); got.Changed {
		t.Errorf("again: %+v", got)
	}
}

// TestPruneClaims: a claim says that somebody is about to make a version the first of a
// channel. Old claims are removed, even if nothing else is.
func TestPruneClaims(t *testing.T) {
	d := newDesk(t)
	d.series(t, 1)
	old, young := library.StagedRoot+"moves/1.0.0/new-OLD", library.StagedRoot+"moves/1.0.0/new-YOUNG"
	d.put(t, old)
	d.put(t, young)
	then := time.Now().Add(-upkeep.Rest - time.Minute)
	if err := os.Chtimes(filepath.Join(d.root, old), then, then); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		if r := d.prunes(t, upkeep.PruneOptions{Keep: 10, DryRun: dry}); !r.Changed || !slices.Equal(r.Leftovers, []string{old}) {
			t.Errorf("dry run %v: %+v", dry, r)
		}
		if tree := objecttest.Tree(t, d.Store); (tree[old] != "") != dry || tree[young] == "" {
			t.Errorf("dry run %v: there are %d bytes of the old, %d of the young", dry, len(tree[old]), len(tree[young]))
		}
	}
	if r := d.prunes(t, upkeep.PruneOptions{Keep: 10}); r.Changed {
		t.Errorf("again: %+v", r)
	}
}

// TestPruneClaimsByTheStoresTime: the age of a claim is measured by the store's time, not by
// this machine's clock.
func TestPruneClaimsByTheStoresTime(t *testing.T) {
	d := newDesk(t)
	d.series(t, 1)
	key := library.StagedRoot + "moves/1.0.0/new-X"
	d.put(t, key)
	for _, c := range []struct {
		store time.Duration // ahead of when the claim was written
		old   bool
	}{{upkeep.Rest - time.Minute, false}, {upkeep.Rest + time.Minute, true}} {
		d.Now = func() time.Time { return time.Now().Add(c.store) }
		if r := d.prunes(t, upkeep.PruneOptions{Keep: 10, DryRun: true}); r.Changed != c.old || slices.Equal(r.Leftovers, []string{key}) != c.old {
			t.Errorf("%v later by the store: %+v", c.store, r)
		}
	}
}

// TestPruneRests: for a while no channel can be moved to a pruned version, not even a new
// channel. A channel that already shows the version can be moved as before.
func TestPruneRests(t *testing.T) {
	d := newDesk(t)
	d.Policies["new"] = Policy{}
	d.series(t, 5)
	d.prunes(t, upkeep.PruneOptions{Keep: 1})
	back := RollbackOptions{Options: Options{Channel: "stable", Why: "crashes"}, To: "1.1.0"}
	promote := PromoteOptions{Options: Options{Channel: "new"}, From: "stable", Version: "1.1.0"}
	if _, err := d.Rollback(t.Context(), back); !errors.Is(err, ErrPruning) {
		t.Errorf("rolled back: %v", err)
	}
	if _, err := d.Promote(t.Context(), promote); !errors.Is(err, ErrPruning) {
		t.Errorf("promoted: %v", err)
	}
	if _, err := d.Rollback(t.Context(), RollbackOptions{Options: Options{Channel: "stable", Why: "crashes"}}); err != nil {
		t.Errorf("the release before: %v", err)
	}
	d.later(upkeep.Rest + time.Minute)
	if _, err := d.Rollback(t.Context(), back); !errors.Is(err, library.ErrStored) {
		t.Errorf("rolled back to nothing: %v", err)
	}
	d.sound(t, "stable")
}

// TestPruneAgain: pruning restored bundles again makes a new entry. A move that was planned
// before conflicts with it.
func TestPruneAgain(t *testing.T) {
	d := newDesk(t)
	d.series(t, 3)
	o := d.options(t, "1.3.0")
	d.publish(t, o)
	d.publish(t, d.options(t, "1.4.0"))
	d.publish(t, d.options(t, "1.5.0"))
	d.publish(t, d.options(t, "1.6.0"))
	d.prunes(t, upkeep.PruneOptions{Keep: 1})
	var files []string
	for _, b := range o.Bundles {
		files = append(files, b.Path)
	}
	if report, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable", Files: files}); err != nil || len(report.Findings) > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	d.later(time.Hour)
	log, err := d.Repository().Load(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := d.Rollback(t.Context(), RollbackOptions{Options: Options{Channel: "stable", Why: "crashes", DryRun: true}, To: "1.3.0"})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.prunes(t, upkeep.PruneOptions{Keep: 1}); versionsOf(got) != "1.3.0" || !slices.Contains(got.Channels, "stable") {
		t.Errorf("pruned again: %+v", got)
	}
	if _, err := d.Apply(t.Context(), plan); !errors.As(err, new(*channels.ConflictError)) {
		t.Errorf("moved to what is gone: %v", err)
	}
	longer, err := d.Repository().Extend(t.Context(), log)
	if err != nil || len(longer.Entries) != len(log.Entries)+1 {
		t.Errorf("%d entries after %d, %v", len(longer.Entries), len(log.Entries), err)
	}
	d.sound(t, "stable")
}

// removing is a store that calls a function before it removes objects.
type removing struct {
	object.Store
	before func()
}

func (r *removing) Delete(ctx context.Context, keys ...string) error {
	if len(keys) > 0 {
		r.before()
	}
	return r.Store.Delete(ctx, keys...)
}

// TestPruneMeetsMoves: a move while bundles are being pruned is refused, or saves them.
func TestPruneMeetsMoves(t *testing.T) {
	d := newDesk(t)
	d.series(t, 6)
	store := d.Store
	back := RollbackOptions{Options: Options{Channel: "stable", Why: "crashes"}, To: "1.0.0"}
	var during error
	d.Store = &removing{store, func() {
		_, during = (&Publisher{Store: store, PublicURL: d.PublicURL, Keys: d.Keys, Policies: d.Policies, Now: time.Now, Who: "other"}).Rollback(t.Context(), back)
	}}
	if got := versionsOf(d.prunes(t, upkeep.PruneOptions{Keep: 1})); got != "1.0.0 1.1.0 1.2.0" {
		t.Errorf("pruned: %s", got)
	}
	if !errors.Is(during, ErrPruning) {
		t.Errorf("moved to what is about to go: %v", during)
	}
	d.sound(t, "stable")
	d.sound(t, "beta")

	// Before the first entry it conflicts, and nothing goes.
	d = newDesk(t)
	d.series(t, 6)
	store = d.Store
	once := false
	d.Store = &hooked{store, func(key string, r io.Reader) io.Reader {
		if strings.HasPrefix(key, "log/") && !once {
			once = true
			other := *d.Publisher
			other.Store = store
			if _, err := other.Rollback(t.Context(), RollbackOptions{Options: Options{Channel: "beta", Why: "crashes"}, To: "1.0.0"}); err != nil {
				t.Error(err)
			}
		}
		return r
	}}
	if _, err := d.Keeper().Prune(t.Context(), upkeep.PruneOptions{Keep: 1}); !errors.As(err, new(*channels.ConflictError)) {
		t.Errorf("pruned in spite of a move: %v", err)
	}
	d.sound(t, "beta")
	d.sound(t, "stable")
}

// TestPruneMeetsNewChannel: a new channel appears after the entries were written, and shows a
// version that is being pruned. That saves its bundles. The new log has no entry about the
// prune, so all other bundles wait for the next run.
func TestPruneMeetsNewChannel(t *testing.T) {
	d := newDesk(t)
	d.Policies["new"] = Policy{}
	d.series(t, 6)
	store, entered := d.Store, 0
	looked, enter, moved := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	other := *d.Publisher
	other.Store = &hooked{store, func(key string, r io.Reader) io.Reader {
		if strings.HasPrefix(key, "log/new/") {
			close(looked)
			<-enter
		}
		return r
	}}
	go func() {
		_, err := other.Promote(t.Context(), PromoteOptions{Options: Options{Channel: "new"}, From: "stable", Version: "1.0.0"})
		moved <- err
	}()
	select {
	case <-looked:
	case err := <-moved:
		t.Fatalf("moved without an entry: %v", err)
	}
	d.Store = &hooked{store, func(key string, r io.Reader) io.Reader {
		if strings.HasPrefix(key, "log/") {
			if entered++; entered == 2 { // of beta and stable
				close(enter)
				if err := <-moved; err != nil {
					t.Error(err)
				}
			}
		}
		return r
	}}
	if got := versionsOf(d.prunes(t, upkeep.PruneOptions{Keep: 1})); got != "" {
		t.Errorf("pruned without an entry in the log of the new channel: %s", got)
	}
	if entered != 2 {
		t.Errorf("%d entries, want 2", entered)
	}
	d.Store = store
	if got := versionsOf(d.prunes(t, upkeep.PruneOptions{Keep: 1})); got != "1.1.0 1.2.0" {
		t.Errorf("pruned: %s", got)
	}
	for _, channel := range []string{"stable", "beta", "new"} {
		d.sound(t, channel)
	}
}

// TestPruneTakesTooLong: bundles that can't be removed within the time that moves respect stay.
func TestPruneTakesTooLong(t *testing.T) {
	d := newDesk(t)
	d.series(t, 6)
	store, before := d.Store, objecttest.Tree(t, d.Store)
	at := d.Now()
	d.Now = func() time.Time { return at }
	d.Store = &hooked{store, func(key string, r io.Reader) io.Reader {
		if strings.HasPrefix(key, "log/") {
			at = at.Add(upkeep.PruneTime + time.Minute)
		}
		return r
	}}
	if _, err := d.Keeper().Prune(t.Context(), upkeep.PruneOptions{Keep: 1}); !errors.Is(err, upkeep.ErrPruneTime) {
		t.Errorf("too late, it says %v", err)
	}
	after := objecttest.Tree(t, d.Store)
	for key := range before {
		if _, ok := after[key]; !ok {
			t.Errorf("%s is gone", key)
		}
	}
	d.Store = store
	if got := versionsOf(d.prunes(t, upkeep.PruneOptions{Keep: 1})); got != "1.0.0 1.1.0 1.2.0" {
		t.Errorf("the rest: %s", got)
	}
	d.sound(t, "stable")
}

// TestPruneBy: if operators sign, a prune needs the key of one of them, and the error says who
// may. A key that may only pause is not enough. Either all channels get an entry or none.
func TestPruneBy(t *testing.T) {
	d, ann, _ := released(t, "1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0")
	_, stranger := signingtest.Sign(t, channels.Namespace)
	nobody := func(context.Context, []string, []byte) (string, error) { return "", approval.ErrNoKey }
	before := objecttest.Tree(t, d.Store)
	for name, sign := range map[string]approval.Sign{"nobody": nobody, "a key that does not count": stranger} {
		d.Sign = sign
		_, err := d.Keeper().Prune(t.Context(), upkeep.PruneOptions{Keep: 1})
		var refusal *Refusal
		if !errors.Is(err, approval.ErrNoKey) || !errors.As(err, &refusal) || !strings.Contains(err.Error(), "may be signed by: ann, bob") || refusal.Mend == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := objecttest.Tree(t, d.Store); !maps.Equal(before, after) {
		t.Error("something was written")
	}
	d.Sign = ann
	if got := d.prunes(t, upkeep.PruneOptions{Keep: 1}); versionsOf(got) == "" {
		t.Errorf("ann: %+v", got)
	}
	d.sound(t, "stable")
}
