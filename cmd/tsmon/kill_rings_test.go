package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/store/longtest"
	"tsmon/store/object"
)

// ringStory is a command on a channel that keeps rings.
type ringStory struct {
	name   string
	before func(t *testing.T, k *kit, v1, v2 string)
	args   func(v1, v2 string) []string
	ends   int // rings that show 1.1.0 in the end
}

// ringStories run their commands with a clock that is ahead by later.
func ringStories() []ringStory {
	steps := []string{"--steps", "5,25,100", "--every", "6h"}
	first := func(t *testing.T, k *kit, v1, _ string) { k.must(t, "release", "publish", "--version", "1.0.0", v1) }
	part := func(t *testing.T, k *kit, v1, v2 string) {
		first(t, k, v1, v2)
		k.must(t, append([]string{"release", "publish", "--version", "1.1.0", v2}, steps...)...)
	}
	always := func(args ...string) func(string, string) []string {
		return func(string, string) []string { return args }
	}
	return []ringStory{
		{"first publish", func(*testing.T, *kit, string, string) {},
			func(v1, _ string) []string { return []string{"release", "publish", "--version", "1.0.0", v1} }, 0},
		{"publish", first, func(_, v2 string) []string { return []string{"release", "publish", "--version", "1.1.0", v2} }, 100},
		{"publish to a few", first, func(_, v2 string) []string {
			return append([]string{"release", "publish", "--version", "1.1.0", v2}, steps...)
		}, 5},
		{"advance", part, always("channel", "advance", "stable"), 25},
		{"pause", part, always("channel", "pause", "stable", "--reason", "crashes"), 0},
		{"resume", func(t *testing.T, k *kit, v1, v2 string) {
			part(t, k, v1, v2)
			k.must(t, "channel", "pause", "stable", "--reason", "crashes")
		}, always("channel", "resume", "stable"), 5},
		{"promote", func(t *testing.T, k *kit, v1, v2 string) {
			first(t, k, v1, v2)
			k.must(t, "release", "publish", "--version", "1.1.0", "--channel", "beta", v2)
		}, always(append([]string{"release", "promote", "--from", "beta", "--to", "stable"}, steps...)...), 5},
		{"rollback", part, always("release", "rollback", "--reason", "crashes"), 0},
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
			k.litter(t)
		}, always("release", "prune", "--keep", "1"), 100},
	}
}

// TestRingsKilled kills commands on a channel with rings at a few storage operations, and in a long
// run at one in 97. TestRingsKilledAnywhere has the others.
func TestRingsKilled(t *testing.T) {
	first, stride := 0, 601
	if share, long := longtest.Chosen(t); long {
		first, stride = share.Steps(97)
	}
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		for _, story := range ringStories() {
			t.Run(story.name, func(t *testing.T) {
				v1, v2 := bundles(t, "1.0.0", 5000), bundles(t, "1.1.0", 5000)
				for moment, finished := 1+first, false; !finished && !t.Failed(); moment += stride {
					t.Run(fmt.Sprint(moment), func(t *testing.T) {
						k := fresh(t)
						k.ringed(t)
						story.before(t, k, v1, v2)
						finished = k.killRings(t, story, story.args(v1, v2), func(args []string) (string, int, bool) {
							_, stderr, code := command(t, append(k.env, fmt.Sprint("TSMON_TEST_KILL=", moment), "LATER="+later.String()), "tsmon-killed", args...)
							return stderr, code, code == 0
						})
					})
				}
			})
		}
	})
}

// TestRingsKilledAnywhere ends the same commands at many storage operations, inside this process. In
// a long run it does so at every operation on a directory, and at every seventh on MinIO.
func TestRingsKilledAnywhere(t *testing.T) {
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		share, long := longtest.Chosen(t)
		for _, story := range ringStories() {
			t.Run(story.name, func(t *testing.T) {
				v1, v2 := bundles(t, "1.0.0", 5000), bundles(t, "1.1.0", 5000)
				k := fresh(t)
				first, stride := 0, 97
				switch {
				case long && k.minio != nil:
					first, stride = share.Steps(7)
				case long:
					first, stride = share.Steps(1)
				case k.minio != nil:
					stride *= 4
				}
				k.ringed(t)
				story.before(t, k, v1, v2)
				k.stop()
				held := k.hold(t)
				moment, tried := 1+first, 0
				for finished := false; !finished && !t.Failed(); moment += stride {
					tried++
					t.Run(fmt.Sprint(moment), func(t *testing.T) {
						k.restore(t, held)
						finished = k.killRings(t, story, story.args(v1, v2), func(args []string) (string, int, bool) { return k.dies(t, moment, later, args...) })
					})
				}
				if moment < 200 {
					t.Errorf("only %d moments were there", moment)
				}
				t.Logf("killed at %d of %d moments", tried, moment-stride)
			})
		}
	})
}

// hold reads everything in the storage.
func (k *kit) hold(t *testing.T) map[string][]byte {
	t.Helper()
	held := map[string][]byte{}
	var keys []string
	for info, err := range k.store.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(16)
	for _, key := range keys {
		group.Go(func() error {
			data, _, err := object.ReadAll(t.Context(), k.store, key, object.MaxSwap)
			mu.Lock()
			defer mu.Unlock()
			held[key] = data
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return held
}

// restore puts back what the storage held.
func (k *kit) restore(t *testing.T, held map[string][]byte) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	now := k.hold(t)
	for key := range union(held, now) {
		data, before := held[key]
		switch stands, there := now[key]; {
		case !before:
			group.Go(func() error { return k.store.Delete(t.Context(), key) })
		case !there || !bytes.Equal(data, stands):
			group.Go(func() error {
				info, err := k.store.Stat(t.Context(), key)
				if err == nil || errors.Is(err, fs.ErrNotExist) {
					_, err = k.store.Swap(t.Context(), key, info.ETag, data, object.Attributes{})
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// ringed lets stable keep rings. It comes before the first request to the server.
func (k *kit) ringed(t *testing.T) {
	k.rings["stable"] = true
	k.configure(t, "  stable: {rings: true}\n  beta: {follows: stable, prerelease: true}\n")
}

// later is how far the clock is ahead for commands that take a step.
const later = 48 * time.Hour

// killRings kills a command and runs it again. Every ring must show a whole manifest, old or new. The
// second run must complete the work, and the channel must verify. killed returns the command's
// output, its exit code, and whether it finished.
func (k *kit) killRings(t *testing.T, story ringStory, args []string, killed func(args []string) (stderr string, code int, finished bool)) bool {
	before := k.ringVersions(t)
	if args[1] == "prune" {
		k.begin(t)
	}
	plain := args
	if !slices.Contains([]string{"repair", "prune"}, args[1]) { // which fetch nothing
		plain = append(slices.Clone(args), "--no-probe")
	}
	stderr, code, finished := killed(plain)
	if finished && code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if args[1] == "prune" {
		k.whole(t, k.reader(t))
	}
	again := func(what string) {
		t.Helper()
		if stderr, code, _ := k.dies(t, math.MaxInt, later, plain...); code != 0 {
			t.Fatalf("%s: exit code %d: %s", what, code, stderr)
		}
	}
	crashed := k.ringVersions(t)
	again("again")
	k.verified(t, "stable")
	if args[1] == "prune" {
		k.swept(t)
	}
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
	if n != story.ends {
		t.Errorf("%d rings show 1.1.0, want %d", n, story.ends)
	}
	end := k.end(t)
	again("a third time")
	if after := k.end(t); after != end {
		t.Errorf("the command a third time wrote to the log: %v, then %v", end, after)
	}
	return finished
}

// end is where the log of stable ends.
func (k *kit) end(t *testing.T) channels.Position {
	t.Helper()
	log, err := k.reader(t).Repository().Load(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	return log.End()
}

// ringVersions is the version that each ring shows and the entry it is of, "" for none.
func (k *kit) ringVersions(t *testing.T) (shown [channels.Rings]string) {
	t.Helper()
	seen, err := (channels.Repository{Store: k.store, Rings: []string{"stable"}}).Peek(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{"": ""}
	for ring := range shown {
		data := seen[1+ring].Data
		if _, ok := known[string(data)]; !ok {
			m, err := manifest.Decode(data)
			if err != nil {
				t.Fatalf("ring %d shows no whole manifest: %v", ring, err)
			}
			known[string(data)] = fmt.Sprint(m.Version, " of ", m.Sequence)
		}
		shown[ring] = known[string(data)]
	}
	return shown
}
