package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/release"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/release/upkeep"
	"tsmon/signing"
	"tsmon/store/object"
	"tsmon/store/object/dir"
	"tsmon/store/object/objecttest"
)

// place is a publisher on a directory.
type place struct {
	*release.Publisher
	key  signing.PrivateKey
	root string
}

func newPlace(t testing.TB, url string, key signing.PrivateKey) *place {
	t.Helper()
	root := filepath.Join(t.TempDir(), "store")
	store, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{root: root, key: key}
	p.Publisher = &release.Publisher{
		Store: timed{store, func() time.Time { return p.Now() }}, PublicURL: url, Keys: signing.Keyring{{PublicKey: key.Public()}}, Who: "test", Now: time.Now,
		Policies: map[string]release.Policy{"stable": {}, "beta": {Prerelease: true}},
	}
	return p
}

// timed is a store with a time of its own, that of who moves its channels.
type timed struct {
	object.Store
	now func() time.Time
}

func (s timed) Now(context.Context) (time.Time, error) { return s.now(), nil }

// sides are where releases are made, and a site that trusts them.
func sides(t testing.TB) (hq, site *place) {
	t.Helper()
	key, err := signing.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return newPlace(t, "https://hq.example.com/app", key), newPlace(t, "http://10.0.0.7/updates", key)
}

func (p *place) publish(t testing.TB, channel, version string) {
	t.Helper()
	if _, err := p.Publish(t.Context(), p.options(t, channel, version)); err != nil {
		t.Fatal(err)
	}
}

// options are those of a publish of freshly made bundles.
func (p *place) options(t testing.TB, channel, version string) release.PublishOptions {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"App_" + version + "_x64_en-US.msi.zip", "App_" + version + "_amd64.AppImage.tar.gz"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(strings.Repeat(name+channel, 300)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bundles, _, err := bundle.Gather(version, []string{folder}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return release.PublishOptions{Options: release.Options{Channel: channel}, Version: version, Bundles: bundles,
		Unlock: func() (signing.PrivateKey, error) { return p.key, nil }}
}

// prune removes what it may.
func (p *place) prune(t testing.TB, versions int) {
	t.Helper()
	report, err := p.Keeper().Prune(t.Context(), upkeep.PruneOptions{Keep: 1})
	if err != nil || len(report.Pruned) != versions {
		t.Fatalf("%+v, %v", report, err)
	}
}

func (p *place) export(t testing.TB, since uint64) []byte {
	t.Helper()
	x, err := NewExport(t.Context(), p.Publisher, []string{"stable"}, map[string]uint64{"stable": since})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := x.Write(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func (p *place) take(t testing.TB, file []byte) (*Report, error) {
	t.Helper()
	return Import(t.Context(), p.Publisher, bytes.NewReader(file), false)
}

func (p *place) must(t testing.TB, file []byte) *Report {
	t.Helper()
	report, err := p.take(t, file)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// shows wants a sound channel that shows a version.
func (p *place) shows(t testing.TB, version string) {
	t.Helper()
	report, err := p.Keeper().Verify(t.Context(), "stable")
	if version == "" {
		if !errors.Is(err, library.ErrNoRelease) {
			t.Errorf("it shows %+v, %v, want nothing", report, err)
		}
		return
	}
	if err != nil || report.Version != version || len(report.Findings) > 0 {
		t.Fatalf("it shows %+v, %v, want %s", report, err, version)
	}
}

// sameLog wants the entries of both places to be the same, byte for byte.
func sameLog(t testing.TB, a, b *place) {
	t.Helper()
	one, err := a.Repository().Raw(t.Context(), "stable", 0)
	if err != nil {
		t.Fatal(err)
	}
	two, err := b.Repository().Raw(t.Context(), "stable", 0)
	if err != nil || !slices.EqualFunc(one, two, bytes.Equal) {
		t.Errorf("%d and %d entries, %v", len(one), len(two), err)
	}
}

// TestStory: a site is fed by files. What is pruned or rolled back where it comes from is
// never seen in between.
func TestStory(t *testing.T) {
	hq, site := sides(t)
	hq.publish(t, "stable", "1.0.0")
	hq.publish(t, "stable", "1.1.0")
	first := hq.export(t, 0)
	if again := hq.export(t, 0); !bytes.Equal(first, again) {
		t.Error("the same history gives two files")
	}
	report := site.must(t, first)
	if !report.Changed || len(report.Releases) != 2 || report.Channels[0] != (Channel{"stable", "1.1.0", 0, 2}) {
		t.Errorf("%+v", report)
	}
	site.shows(t, "1.1.0")
	sameLog(t, hq, site)
	if shown, err := site.Repository().Shown(t.Context(), "stable"); err != nil || !strings.Contains(string(shown), `"http://10.0.0.7/updates/releases/1.1.0/`) {
		t.Errorf("%s, %v", shown, err)
	}
	before := objecttest.Tree(t, site.Store)
	if report := site.must(t, first); report.Changed || len(report.Releases) != 0 {
		t.Errorf("again: %+v", report)
	}
	if now := objecttest.Tree(t, site.Store); len(now) != len(before) {
		t.Errorf("%d objects, then %d", len(before), len(now))
	}

	for _, version := range []string{"1.2.0", "1.3.0", "1.4.0", "1.5.0"} {
		hq.publish(t, "stable", version)
	}
	hq.prune(t, 3) // 1.0.0 to 1.2.0
	if _, err := hq.Rollback(t.Context(), release.RollbackOptions{Options: release.Options{Channel: "stable", Why: "crashes"}}); err != nil {
		t.Fatal(err)
	}
	second := hq.export(t, 2)
	for _, bundles := range []string{"releases/1.0.0/App", "releases/1.1.0/App", "releases/1.2.0/App"} {
		if names := members(t, second); slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, bundles) }) {
			t.Errorf("the extension has %v", names)
		}
	}
	site.must(t, second)
	site.shows(t, "1.4.0")
	sameLog(t, hq, site)
	if _, err := site.take(t, first); !errors.Is(err, ErrOlder) {
		t.Errorf("an older file: %v", err)
	}
	// A fresh site takes the whole file.
	fresh := newPlace(t, "http://10.0.0.8", hq.key)
	fresh.must(t, hq.export(t, 0))
	fresh.shows(t, "1.4.0")
	sameLog(t, hq, fresh)
	// And feeds another one.
	other := newPlace(t, "http://10.0.0.9", hq.key)
	other.must(t, fresh.export(t, 0))
	sameLog(t, hq, other)
}

// members lists a file.
func members(t testing.TB, file []byte) (names []string) {
	t.Helper()
	a, err := openArchive(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	for {
		if err := a.next(); err != nil {
			t.Fatal(err)
		}
		if a.name == "" {
			return names
		}
		names = append(names, a.name)
	}
}

// TestMirror: a store follows another one, and asks it for no more than it needs.
func TestMirror(t *testing.T) {
	hq, site := sides(t)
	mirror := func() (*Report, int) {
		counting := &counting{Store: hq.Store}
		report, err := Mirror(t.Context(), site.Publisher, counting, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		return report, int(counting.n.Load())
	}
	hq.publish(t, "stable", "1.0.0")
	hq.publish(t, "stable", "1.1.0")
	if report, _ := mirror(); !report.Changed || len(report.Releases) != 2 {
		t.Errorf("%+v", report)
	}
	site.shows(t, "1.1.0")
	report, requests := mirror()
	if report.Changed || requests > 3 { // a list of each channel, and an entry
		t.Errorf("without news %d requests, %+v", requests, report)
	}
	hq.publish(t, "stable", "1.2.0")
	if report, requests := mirror(); report.Channels[0] != (Channel{"stable", "1.2.0", 2, 3}) || requests > 9 {
		t.Errorf("%d requests, %+v", requests, report)
	}
	site.shows(t, "1.2.0")
	sameLog(t, hq, site)
	// The store is restored from an old copy.
	if err := hq.Store.Delete(t.Context(), "log/stable/0000000003.json", "stable/latest.json"); err != nil {
		t.Fatal(err)
	}
	if _, err := Mirror(t.Context(), site.Publisher, hq.Store, nil, false); !errors.Is(err, ErrOlder) {
		t.Errorf("an older store: %v", err)
	}
	// follows: wait until the other store has it, or mirror the store that this one was fed from
	// And goes on another way.
	hq.publish(t, "stable", "1.3.0")
	if _, err := Mirror(t.Context(), site.Publisher, hq.Store, nil, false); !errors.Is(err, ErrForked) {
		t.Errorf("another history: %v", err)
	}
	site.shows(t, "1.2.0")
}

// counting counts the requests to a store.
type counting struct {
	object.Store
	n atomic.Int64
}

func (c *counting) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	c.n.Add(1)
	return c.Store.Get(ctx, key)
}

func (c *counting) List(ctx context.Context, prefix, after string) iter.Seq2[object.Info, error] {
	c.n.Add(1)
	return c.Store.List(ctx, prefix, after)
}

// refused fails the test unless the named moves of stable are refused because it is fed.
func refused(t *testing.T, d *place, names ...string) {
	t.Helper()
	o := release.Options{Channel: "stable", Why: "test"}
	part := o
	part.Rollout = &channels.Rollout{Steps: []int{10}}
	moves := map[string]func() (*release.Plan, error){
		"pause":   func() (*release.Plan, error) { return d.Pause(t.Context(), o) },
		"resume":  func() (*release.Plan, error) { return d.Resume(t.Context(), o) },
		"rollout": func() (*release.Plan, error) { return d.Rollout(t.Context(), part) },
		"promote": func() (*release.Plan, error) {
			return d.Promote(t.Context(), release.PromoteOptions{Options: o, From: "beta"})
		},
		"rollback": func() (*release.Plan, error) { return d.Rollback(t.Context(), release.RollbackOptions{Options: o}) },
		"rollback to 9.9.9": func() (*release.Plan, error) {
			return d.Rollback(t.Context(), release.RollbackOptions{Options: o, To: "9.9.9"})
		},
	}
	for _, name := range names {
		if _, err := moves[name](); !errors.Is(err, channels.ErrFed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMovesOfAFedChannel: nobody moves it here, whatever else would refuse the move, and prune
// and repair let it be.
func TestMovesOfAFedChannel(t *testing.T) {
	hq, site := sides(t)
	hq.publish(t, "stable", "1.0.0")
	site.must(t, hq.export(t, 0))
	refused(t, site, "rollback", "pause", "resume", "rollout", "promote") // of the first release
	for _, version := range []string{"1.1.0", "1.2.0", "1.3.0"} {
		hq.publish(t, "stable", version)
	}
	site.must(t, hq.export(t, 0))
	before := objecttest.Tree(t, site.Store)
	refused(t, site, "rollback", "pause", "rollback to 9.9.9")
	o := release.Options{Channel: "stable", Why: "test"}
	if _, err := site.Advance(t.Context(), o); err != nil {
		t.Errorf("advance: %v", err)
	}
	if report, err := site.Keeper().Prune(t.Context(), upkeep.PruneOptions{Keep: 1}); err != nil || report.Changed {
		t.Errorf("prune: %+v, %v", report, err)
	}
	if report, err := site.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"}); err != nil || report.Changed {
		t.Errorf("repair: %+v, %v", report, err)
	}
	if fmt.Sprint(before) != fmt.Sprint(objecttest.Tree(t, site.Store)) {
		t.Error("something was written")
	}
	// To hold releases back, the site promotes them to a channel of its own.
	if _, err := site.Promote(t.Context(), release.PromoteOptions{Options: release.Options{Channel: "beta"}, From: "stable"}); err != nil {
		t.Fatal(err)
	}
	hq.publish(t, "stable", "1.4.0")
	site.must(t, hq.export(t, 4))
	site.shows(t, "1.4.0")
	if report, err := site.Keeper().Verify(t.Context(), "beta"); err != nil || report.Version != "1.3.0" || len(report.Findings) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
}
