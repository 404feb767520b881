package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/manifest"
)

// TestRingsKilledAnywhere kills commands on a channel that keeps rings at many storage
// operations, at each in the long tests. Every time each ring shows a whole manifest, old
// or new, the same command again completes the work, and the channel verifies.
func TestRingsKilledAnywhere(t *testing.T) {
	steps := []string{"--steps", "5,25,100", "--every", "6h"}
	part := func(t *testing.T, k *kit, v1, v2 string) {
		k.must(t, "release", "publish", "--version", "1.0.0", v1)
		k.must(t, append([]string{"release", "publish", "--version", "1.1.0", v2}, steps...)...)
	}
	stories := []struct {
		name   string
		before func(t *testing.T, k *kit, v1, v2 string)
		args   func(v1, v2 string) []string
		ends   int // rings that show 1.1.0 in the end
	}{
		{"first publish", func(*testing.T, *kit, string, string) {},
			func(v1, _ string) []string { return []string{"release", "publish", "--version", "1.0.0", v1} }, 0},
		{"publish", func(t *testing.T, k *kit, v1, _ string) { k.must(t, "release", "publish", "--version", "1.0.0", v1) },
			func(_, v2 string) []string { return []string{"release", "publish", "--version", "1.1.0", v2} }, 100},
		{"publish to a few", func(t *testing.T, k *kit, v1, _ string) { k.must(t, "release", "publish", "--version", "1.0.0", v1) },
			func(_, v2 string) []string {
				return append([]string{"release", "publish", "--version", "1.1.0", v2}, steps...)
			}, 5},
		{"advance", part, func(string, string) []string { return []string{"channel", "advance", "stable"} }, 25},
		{"rollback", part, func(string, string) []string { return []string{"release", "rollback", "--reason", "crashes"} }, 0},
		{"repair", func(t *testing.T, k *kit, v1, v2 string) {
			part(t, k, v1, v2)
			lost := []string{"log/stable/0000000001.json", "releases/1.0.0/App_universal.app.tar.gz", "stable/latest.json"}
			for ring := range channels.Rings / 2 {
				lost = append(lost, fmt.Sprintf("stable/rings/%02d/latest.json", ring))
			}
			if err := k.store.Delete(t.Context(), lost...); err != nil {
				t.Fatal(err)
			}
		}, func(v1, _ string) []string {
			return []string{"channel", "repair", "stable", "--bundle", filepath.Join(v1, "App_universal.app.tar.gz")}
		}, 5},
		{"prune", func(t *testing.T, k *kit, v1, v2 string) {
			for i, folder := range []string{v1, bundles(t, "1.0.1", 100), bundles(t, "1.0.2", 100), v2} {
				k.must(t, "release", "publish", "--version", []string{"1.0.0", "1.0.1", "1.0.2", "1.1.0"}[i], folder)
			}
		}, func(string, string) []string { return []string{"release", "prune", "--keep", "1"} }, 100},
	}
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		for _, story := range stories {
			t.Run(story.name, func(t *testing.T) {
				v1, v2 := bundles(t, "1.0.0", 5000), bundles(t, "1.1.0", 5000)
				stride := stride(t, 193, 487)
				for moment := 1; ; moment += stride {
					finished := false
					t.Run(fmt.Sprint(moment), func(t *testing.T) {
						k := fresh(t)
						k.ringed(t)
						story.before(t, k, v1, v2)
						finished = killRingsAt(t, k, moment, story.ends, story.args(v1, v2))
					})
					if finished || t.Failed() {
						if moment < 200 {
							t.Errorf("only %d moments were tried", moment)
						}
						return
					}
				}
			})
		}
	})
}

// ringed lets stable keep rings. It comes before the first request to the server.
func (k *kit) ringed(t *testing.T) {
	k.rings["stable"] = true
	k.configure(t, "  stable: {rings: true}\n  beta: {follows: stable, prerelease: true}\n")
}

// later is how far ahead the clock is of commands that take a step.
const later = 7 * time.Hour

// killRingsAt is killAt of a channel with rings. newer is how many rings show 1.1.0 in
// the end.
func killRingsAt(t *testing.T, k *kit, moment, newer int, args []string) (finished bool) {
	before := k.ringVersions(t)
	killed := args
	if !slices.Contains([]string{"repair", "prune"}, args[1]) { // which fetch nothing
		killed = append(slices.Clone(args), "--no-probe")
	}
	_, stderr, code := command(t, append(k.env, fmt.Sprint("TSMON_TEST_KILL=", moment), fmt.Sprint("LATER=", later)), "tsmon-killed", killed...)
	if code != 0 && code != -1 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	crashed := k.ringVersions(t)
	k.mustAt(t, later, args...)
	k.verified(t, "stable")
	ends := k.ringVersions(t)
	n := 0
	for ring, version := range crashed {
		if version != before[ring] && version != ends[ring] {
			t.Errorf("ring %d showed %q after the crash, %q before it and %q in the end", ring, version, before[ring], ends[ring])
		}
		if strings.Contains(ends[ring], "1.1.0") {
			n++
		}
	}
	if n != newer {
		t.Errorf("%d rings show 1.1.0, want %d", n, newer)
	}
	log := k.must(t, "channel", "log", "stable")
	k.mustAt(t, later, args...)
	if after := k.must(t, "channel", "log", "stable"); after != log {
		t.Errorf("the command a third time wrote to the log:\n%s", after)
	}
	return code == 0
}

// ringVersions is the version that each ring shows and the entry it is of, "" for none.
func (k *kit) ringVersions(t *testing.T) (shown [channels.Rings]string) {
	t.Helper()
	seen, err := (channels.Repository{Store: k.store, Rings: []string{"stable"}}).Peek(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	for ring := range shown {
		if p := seen[1+ring]; p.ETag != "" {
			m, err := manifest.Decode(p.Data)
			if err != nil {
				t.Fatalf("ring %d shows no whole manifest: %v", ring, err)
			}
			shown[ring] = fmt.Sprint(m.Version, " of ", m.Sequence)
		}
	}
	return shown
}
