package release

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsmon/channels"
	"tsmon/release/upkeep"
	"tsmon/store/object/objecttest"
)

// unnamed returns the objects that Verify reports because no log names them.
func (d *desk) unnamed(t *testing.T) (keys []string) {
	t.Helper()
	found, err := d.Keeper().Unnamed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if keys = append(keys, f.Object); f.Mend == "" || f.Problem == "" {
			t.Errorf("%+v", f)
		}
	}
	return keys
}

// TestUnnamed: objects that somebody puts among the releases are found a day later and can be
// removed. Objects of publishers are not.
func TestUnnamed(t *testing.T) {
	d, ann, bob := released(t, "1.0.0", "1.1.0")
	d.Sign = ann
	again := d.publish(t, d.options(t, "1.1.1")) // two records come before the one that counts
	if _, err := d.Plans().Withdraw(t.Context(), "stable", again.Waiting.Hash, false); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Discard(t.Context(), "1.1.1"); err != nil {
		t.Fatal(err)
	}
	again = d.publish(t, d.options(t, "1.1.1", "App_1.1.1_amd64.AppImage.tar.gz", "App_1.1.1_x64_en-US.msi.zip", "App_universal.app.tar.gz"))
	d.Sign = bob
	if plan, err := d.Approve(t.Context(), "stable", again.Waiting.Hash, false); err != nil || !plan.Changed {
		t.Fatalf("%+v, %v", plan, err)
	}
	d.Sign = ann
	waits := d.publish(t, d.options(t, "1.2.0", "App_1.2.0_amd64.AppImage.tar.gz", "App_1.2.0_x64_en-US.msi.zip", "App_universal.app.tar.gz")) // and waits for bob
	if waits.Waiting == nil {
		t.Fatal("1.2.0 does not wait")
	}
	parts := d.parts(t, "1.3.0")
	d.stage(t, d.staging("1.3.0", parts[0])) // in flight
	d.stage(t, d.staging("1.4.0", d.parts(t, "1.4.0")[0]))
	if _, err := d.Discard(t.Context(), "1.4.0"); err != nil {
		t.Fatal(err)
	}
	d.age(t)
	thrownAway := d.unnamed(t) // bundles of what was discarded are leftovers
	for _, key := range thrownAway {
		if !strings.HasPrefix(key, "releases/1.4.0/App") {
			t.Errorf("%s is somebody else's", key)
		}
	}
	d.prunes(t, upkeep.PruneOptions{Strays: true})
	d.sound(t, "stable")
	if _, err := d.Store.Stat(t.Context(), "releases/1.1.1/release-3.json"); err != nil || len(thrownAway) == 0 {
		t.Fatal(thrownAway, err)
	}
	sound := objecttest.Tree(t, d.Store)

	record, err := os.ReadFile(filepath.Join(d.root, "releases/1.0.0/release.json"))
	if err != nil {
		t.Fatal(err)
	}
	files := []string{
		"releases/1.0.0/deep/evil.exe", "releases/1.0.0/evil.exe", "releases/1.0.0/evil.exe.sig", "releases/1.0.0/release-2.json", "releases/1.0.0/release-9.json",
		"releases/1.1.0/release-2.json", "releases/6.6.6/evil.exe", "releases/7.7.7/evil.exe", "releases/7.7.7/release.json", "releases/index.html", "releases/new/evil.exe",
	}
	for _, key := range files {
		d.leave(t, key, "x")
	}
	d.leave(t, "releases/1.0.0/release-2.json", strings.Replace(string(record), `"notes": ""`, `"notes": "forged"`, 1))
	d.leave(t, "releases/8.8.8/release.json", strings.ReplaceAll(string(record), "1.0.0", "8.8.8"))
	if got := d.unnamed(t); len(got) > 0 {
		t.Errorf("a publish under way is named: %v", got)
	}
	young := objecttest.Tree(t, d.Store)
	if got := d.prunes(t, upkeep.PruneOptions{Strays: true}); got.Changed {
		t.Errorf("and removed: %+v", got)
	}
	d.age(t)
	want := append([]string{"releases/8.8.8/"}, files...)
	if got := d.unnamed(t); !slices.Equal(got, want) {
		t.Errorf("found\n%v\nwant\n%v", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if report, err := d.Keeper().Verify(t.Context(), "stable"); err != nil || len(report.Findings) != len(want) || report.Findings.Err() == nil {
		t.Errorf("verify: %+v, %v", report, err)
	}
	// Releases that are old enough to go by age stay.
	if dry := d.prunes(t, upkeep.PruneOptions{Strays: true, DryRun: true}); !slices.Equal(dry.Leftovers, files) || len(dry.Pruned)+len(dry.Channels) > 0 {
		t.Errorf("a dry run: %+v", dry)
	}
	if now := objecttest.Tree(t, d.Store); len(now) != len(young) {
		t.Error("the dry run removed some")
	}
	d.Sign = nil // which takes no operator
	if got := d.prunes(t, upkeep.PruneOptions{Strays: true}); !slices.Equal(got.Leftovers, files) {
		t.Errorf("removed: %+v", got)
	}
	if got := d.unnamed(t); !slices.Equal(got, []string{"releases/8.8.8/"}) {
		t.Errorf("left: %v", got)
	}
	if _, err := d.Discard(t.Context(), "8.8.8"); err != nil {
		t.Fatal(err)
	}
	d.age(t)
	d.sound(t, "stable")
	after := objecttest.Tree(t, d.Store)
	for key := range sound {
		if _, ok := after[key]; !ok {
			t.Errorf("%s is gone", key)
		}
	}
	d.Sign = bob
	if plan, err := d.Approve(t.Context(), "stable", waits.Waiting.Hash, false); err != nil || !plan.Changed {
		t.Errorf("1.2.0 is not out: %+v, %v", plan, err)
	}
	d.sound(t, "stable")
}

// TestUnnamedByWhom: nothing is found or removed if no operators sign, or while a log is lost
// that may name the objects.
func TestUnnamedByWhom(t *testing.T) {
	bare := newDesk(t)
	bare.publish(t, bare.options(t, "1.0.0"))
	bare.put(t, "releases/6.6.6/evil.exe")
	bare.age(t)
	if got := bare.unnamed(t); len(got) > 0 {
		t.Errorf("nobody signs: %v", got)
	}
	if got := bare.prunes(t, upkeep.PruneOptions{Strays: true}); !slices.Equal(got.Leftovers, []string{"releases/6.6.6/evil.exe"}) {
		t.Errorf("removed: %+v", got)
	}

	for name, lose := range map[string][]string{
		"an entry": {"log/stable/0000000001.json"},
		"all":      {"log/stable/0000000001.json", "log/stable/0000000002.json"},
	} {
		t.Run(name, func(t *testing.T) {
			d, _, _ := released(t, "1.0.0", "1.1.0")
			d.put(t, "releases/6.6.6/evil.exe")
			for _, key := range lose {
				d.loses(t, key)
			}
			d.age(t)
			before := objecttest.Tree(t, d.Store)
			if got := d.unnamed(t); len(got) > 0 {
				t.Errorf("found: %v", got)
			}
			if _, err := d.Keeper().Prune(t.Context(), upkeep.PruneOptions{Strays: true}); !errors.Is(err, channels.ErrLog) {
				t.Errorf("removed: %v", err)
			}
			if len(objecttest.Tree(t, d.Store)) != len(before) {
				t.Error("something is gone")
			}
		})
	}
}

// TestDiscardKeepsAwaited: a release is not discarded if a waiting plan would show it, or if a
// lost entry may have shown it.
func TestDiscardKeepsAwaited(t *testing.T) {
	refused := func(t *testing.T, d *desk, version string, want error) {
		t.Helper()
		before := objecttest.Tree(t, d.Store)
		done, err := d.Discard(t.Context(), version)
		if !errors.Is(err, want) || done.Changed {
			t.Errorf("changed %v, %v, want %v", done.Changed, err, want)
		}
		if after := objecttest.Tree(t, d.Store); !maps.Equal(after, before) {
			t.Error("the store is another")
		}
	}
	t.Run("a plan", func(t *testing.T) {
		d, _, _ := released(t, "1.0.0")
		waits := d.publish(t, d.options(t, "1.1.0")).Waiting
		refused(t, d, "1.1.0", upkeep.ErrAwaited)
		if _, err := d.Plans().Withdraw(t.Context(), "stable", waits.Hash, false); err != nil {
			t.Fatal(err)
		}
		if done, err := d.Discard(t.Context(), "1.1.0"); err != nil || !done.Record {
			t.Errorf("%+v, %v", done, err)
		}
	})
	t.Run("the end of a signed log", func(t *testing.T) {
		d, _, _ := released(t, "1.0.0", "1.1.0")
		d.loses(t, "log/stable/0000000002.json")
		d.loses(t, "log/beta/0000000002.json")
		refused(t, d, "1.1.0", channels.ErrLog)
	})
	for name, lost := range map[string][]string{
		"the end of a log": {"log/stable/0000000002.json", "log/beta/0000000002.json"},
		"a whole log":      {"log/stable/0000000001.json", "log/stable/0000000002.json", "log/beta/0000000001.json", "log/beta/0000000002.json"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.publish(t, d.options(t, "1.0.0"))
			d.publish(t, d.options(t, "1.1.0"))
			for _, key := range lost {
				d.loses(t, key)
			}
			refused(t, d, "1.1.0", channels.ErrLog)
		})
	}
}
