package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tsmon/cmd/tsmon/showing"
	"tsmon/release"
	"tsmon/release/bundle"
	"tsmon/signing"
	"tsmon/store/object"
)

// machines are the bundles that each machine of a build matrix has.
var machines = [][]string{
	{"App_VERSION_x64-setup.exe", "App_VERSION_x64_en-US.msi"},
	{"App_VERSION_amd64.AppImage", "App_VERSION_amd64.deb"},
	{"aarch64-apple-darwin/App.app.tar.gz"},
	{"x86_64-apple-darwin/App.app.tar.gz"},
}

// matrixTargets are the platforms of the machines.
const matrixTargets = "[windows-x86_64, linux-x86_64, darwin-aarch64, darwin-x86_64]"

// configure has the kit's commands use a configuration of channels.
func (k *kit) configure(t *testing.T, channels string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "tsmon.yaml")
	if err := os.WriteFile(file, []byte("channels:\n"+channels), 0o644); err != nil {
		t.Fatal(err)
	}
	k.env = append(k.env, "TSMON_CONFIG="+file)
	return file
}

// matrix makes the folders of the machines.
func matrix(t *testing.T, version string) []string {
	t.Helper()
	var folders []string
	for _, names := range machines {
		var own []string
		for _, name := range names {
			own = append(own, strings.ReplaceAll(name, "VERSION", version))
		}
		folder := t.TempDir()
		for _, name := range own {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, name), []byte(strings.Repeat(version+name, 300)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		folders = append(folders, folder)
	}
	return folders
}

// stageAll has the jobs of several versions stage and publish, all at once. Every job must exit with 0,
// and one job of each version must report that it moved the channel. Another may report that it
// updated the manifest, if the first had not written it yet.
func stageAll(t *testing.T, k *kit, channels map[string]string) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	moved := map[string]int{} // by version
	for version, channel := range channels {
		folders := matrix(t, version)
		for _, i := range rand.Perm(len(folders)) {
			wg.Go(func() {
				stdout, stderr, code := k.tsmon(t, "release", "stage", "--json", "--no-probe", "--publish", "--version", version, "--channel", channel, folders[i])
				var report release.StageReport
				if err := json.Unmarshal([]byte(stdout), &report); code != 0 || err != nil {
					t.Errorf("%s on %s: exit code %d, %v: %s", version, channel, code, err, stderr)
				}
				mu.Lock()
				defer mu.Unlock()
				if p := report.Published; p != nil && p.Changed && len(p.Rendered) == 0 {
					moved[version]++
				}
			})
		}
	}
	wg.Wait()
	for version, channel := range channels {
		if moved[version] != 1 {
			t.Errorf("%d jobs say that they moved %s to %s", moved[version], channel, version)
		}
	}
}

// publishedOnce checks that a channel's log ends with the only entry of a version, with the targets of
// all machines.
func publishedOnce(t *testing.T, k *kit, channel, version string) {
	t.Helper()
	var rows []showing.LogRow
	if err := json.Unmarshal([]byte(k.must(t, "channel", "log", channel, "--json")), &rows); err != nil {
		t.Fatal(err)
	}
	entries := 0
	for _, row := range rows {
		if row.Version == version {
			entries++
		}
	}
	last := rows[len(rows)-1]
	if entries != 1 || last.Version != version || len(last.Targets) != 10 {
		t.Errorf("%s: %d entries of %s, the last is %s for %v", channel, entries, version, last.Version, last.Targets)
	}
	if got := k.verified(t, channel); got != version {
		t.Errorf("%s shows %s, want %s", channel, got, version)
	}
}

// TestMatrixRaces: four jobs of each of twenty versions stage and publish at once, first each version
// on its own channel, then wave after wave on one channel.
func TestMatrixRaces(t *testing.T) {
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		k := fresh(t)
		config, channels := "", map[string]string{}
		for i := range 20 {
			channel := fmt.Sprintf("c%d", i)
			config += "  " + channel + ": {targets: " + matrixTargets + "}\n"
			channels[fmt.Sprintf("1.%d.0", i)] = channel
		}
		k.configure(t, config)
		stageAll(t, k, channels)
		for version, channel := range channels {
			publishedOnce(t, k, channel, version)
		}
		for wave := 20; wave < 24; wave++ {
			version := fmt.Sprintf("1.%d.0", wave)
			stageAll(t, k, map[string]string{version: "c19"})
			publishedOnce(t, k, "c19", version)
		}
	})
}

// stuck is a store in which no channel moves.
type stuck struct{ object.Store }

var errStuck = errors.New("stuck")

func (s stuck) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	if strings.HasPrefix(key, "log/") {
		return object.Info{}, errStuck
	}
	return s.Store.Create(ctx, key, r, size, attrs)
}

// complete leaves a version in the state of a publish that was killed before it moved the channel.
func (k *kit) complete(t *testing.T, version, folder string) {
	t.Helper()
	p := k.publisher(t)
	p.Store = stuck{p.Store}
	bundles, _, err := bundle.Gather(version, []string{folder}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/unencrypted.key")
	if err != nil {
		t.Fatal(err)
	}
	file, err := signing.ParsePrivateKey(string(text))
	if err != nil {
		t.Fatal(err)
	}
	o := release.PublishOptions{Options: release.Options{Channel: "stable"}, Version: version, Bundles: bundles,
		Unlock: func() (signing.PrivateKey, error) { return file.Decrypt("") }}
	if _, err := p.Publish(t.Context(), o); !errors.Is(err, errStuck) {
		t.Fatalf("error %v, want the interruption", err)
	}
}
