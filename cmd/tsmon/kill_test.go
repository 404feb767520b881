package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsmon/channels"
	"tsmon/release"
	"tsmon/store/longtest"
	"tsmon/store/object"
)

// killStory is a command that is killed.
type killStory struct {
	name   string
	before func(t *testing.T, k *kit, v1, v2 string)
	args   func(v1, v2 string) []string
	ends   string // what stable shows in the end
	// after, if not nil, checks what the command is for; v3 is version 1.1.0
	// built again
	after func(t *testing.T, k *kit, v2, v3 string)
}

// TestKilledAnywhere kills publish, promote, rollback, stage, discard, prune, repair, import,
// mirror, plan approve and plan apply at some storage operations, and in a long run at every one:
// before it, in the middle of an upload, and after it. Each time every channel must show a whole
// manifest, old or new, that clients can follow, and the same command again must complete the work.
func TestKilledAnywhere(t *testing.T) {
	killEach(t, 23, 61, []killStory{
		{"first publish", func(*testing.T, *kit, string, string) {},
			func(v1, _ string) []string { return []string{"release", "publish", "--version", "1.0.0", v1} }, "1.0.0", nil},
		{"second publish", func(t *testing.T, k *kit, v1, _ string) {
			k.must(t, "release", "publish", "--version", "1.0.0", v1)
		}, func(_, v2 string) []string { return []string{"release", "publish", "--version", "1.1.0", v2} }, "1.1.0", nil},
		{"promote", func(t *testing.T, k *kit, v1, v2 string) {
			k.must(t, "release", "publish", "--version", "1.0.0", v1)
			k.must(t, "release", "publish", "--version", "1.1.0", "--channel", "beta", v2)
		}, func(_, _ string) []string { return []string{"release", "promote", "--from", "beta", "--to", "stable"} }, "1.1.0", nil},
		{"rollback", func(t *testing.T, k *kit, v1, v2 string) {
			k.must(t, "release", "publish", "--version", "1.0.0", v1)
			k.must(t, "release", "publish", "--version", "1.1.0", v2)
		}, func(_, _ string) []string { return []string{"release", "rollback", "--reason", "crashes"} }, "1.0.0", nil},
		{"stage", func(t *testing.T, k *kit, v1, v2 string) {
			k.must(t, "release", "publish", "--version", "1.0.0", v1)
			k.must(t, "release", "stage", "--version", "1.1.0", filepath.Join(v2, "App_1.1.0_x64_en-US.msi.zip"))
		}, func(_, v2 string) []string {
			return []string{"release", "stage", "--version", "1.1.0", filepath.Join(v2, "App_universal.app.tar.gz"), filepath.Join(v2, "App_1.1.0_amd64.AppImage.tar.gz")}
		}, "1.0.0", func(t *testing.T, k *kit, _, _ string) {
			k.must(t, "release", "publish", "--version", "1.1.0")
			if got := k.verified(t, "stable"); got != "1.1.0" {
				t.Errorf("what was staged is not published: %s", got)
			}
		}},
		{"replace", func(t *testing.T, k *kit, v1, v2 string) {
			k.must(t, "release", "publish", "--version", "1.0.0", v1)
			k.must(t, "release", "stage", "--version", "1.1.0", "--bundle", "windows-x86_64="+filepath.Join(v1, "App_1.0.0_x64_en-US.msi.zip"))
		}, func(_, v2 string) []string {
			return []string{"release", "stage", "--version", "1.1.0", "--replace", v2}
		}, "1.0.0", func(t *testing.T, k *kit, v2, _ string) { k.must(t, "release", "publish", "--version", "1.1.0", v2) }},
		{"stage and publish", func(t *testing.T, k *kit, v1, v2 string) {
			k.configure(t, "  stable: {targets: [windows-x86_64, linux-x86_64, darwin-aarch64]}\n  beta: {follows: stable, prerelease: true}\n")
			k.must(t, "release", "publish", "--version", "1.0.0", v1)
			k.must(t, "release", "stage", "--version", "1.1.0", filepath.Join(v2, "App_1.1.0_x64_en-US.msi.zip"), filepath.Join(v2, "App_universal.app.tar.gz"))
		}, func(_, v2 string) []string {
			return []string{"release", "stage", "--version", "1.1.0", "--publish", filepath.Join(v2, "App_1.1.0_amd64.AppImage.tar.gz")}
		}, "1.1.0", nil},
		{"discard", func(t *testing.T, k *kit, v1, v2 string) {
			k.must(t, "release", "publish", "--version", "1.0.0", v1)
			k.must(t, "release", "stage", "--version", "1.1.0", v2)
			k.complete(t, "1.1.0", v2)
		}, func(_, _ string) []string { return []string{"release", "discard", "1.1.0"} }, "1.0.0", func(t *testing.T, k *kit, _, v3 string) {
			k.must(t, "release", "publish", "--version", "1.1.0", v3)
			if got := k.verified(t, "stable"); got != "1.1.0" {
				t.Errorf("the number can't be used again: %s", got)
			}
		}},
		{"prune", func(t *testing.T, k *kit, v1, v2 string) {
			k.must(t, "release", "publish", "--version", "1.0.0", v1)
			k.must(t, "release", "publish", "--version", "1.1.0", v2)
			for _, version := range []string{"1.2.0", "1.3.0"} {
				k.must(t, "release", "publish", "--version", version, bundles(t, version, 100))
			}
			k.litter(t)
			k.begin(t)
			k.env = append(k.env, "LATER="+later.String())
		}, func(_, _ string) []string { return []string{"release", "prune", "--keep", "1"} }, "1.3.0", func(t *testing.T, k *kit, _, _ string) {
			k.swept(t)
			if found := k.must(t, "release", "prune", "--keep", "1"); found != "nothing to prune\n" {
				t.Errorf("there is more: %s", found)
			}
		}},
		{"repair", func(t *testing.T, k *kit, v1, v2 string) {
			k.must(t, "release", "publish", "--version", "1.0.0", v1)
			k.must(t, "release", "publish", "--version", "1.1.0", v2)
			lost := []string{"log/stable/0000000001.json", "releases/1.0.0/App_universal.app.tar.gz", "releases/1.1.0/App_universal.app.tar.gz.sig", "stable/latest.json"}
			if err := k.store.Delete(t.Context(), lost...); err != nil {
				t.Fatal(err)
			}
		}, func(v1, _ string) []string {
			return []string{"channel", "repair", "stable", "--bundle", filepath.Join(v1, "App_universal.app.tar.gz")}
		}, "1.1.0", nil},
		{"import", func(t *testing.T, k *kit, v1, v2 string) {
			k.feed(t, v1, v2)
			k.must(t, "release", "import", v1+".tar.zst")
		}, func(_, v2 string) []string { return []string{"release", "import", v2 + ".tar.zst"} }, "1.1.0", nil},
		{"mirror", func(t *testing.T, k *kit, v1, v2 string) {
			k.feed(t, v1, v2)
			k.must(t, "release", "import", v1+".tar.zst")
		}, func(v1, _ string) []string { return []string{"release", "mirror", "--from", v1 + ".hq"} }, "1.1.0", nil},
		{"approve", func(t *testing.T, k *kit, v1, v2 string) { k.approvals(t, v1, v2) },
			func(_, _ string) []string { return []string{"plan", "approve", theOnlyPlan} }, "1.1.0", nil},
		{"apply", func(t *testing.T, k *kit, v1, v2 string) {
			bob := k.approvals(t, v1, v2)
			waiting, _, err := k.reader(t).Plans().List(t.Context(), "stable")
			if err != nil || len(waiting) != 1 {
				t.Fatalf("%d plans wait: %v", len(waiting), err)
			}
			payload, err := waiting[0].Entry.Payload()
			if err != nil {
				t.Fatal(err)
			}
			armored, err := bob.Sign(channels.Namespace, payload)
			if err == nil {
				_, err = k.store.Create(t.Context(), "plans/stable/"+waiting[0].Hash+".bob.sig", strings.NewReader(armored), int64(len(armored)), object.Attributes{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}, func(_, _ string) []string { return []string{"plan", "apply"} }, "1.1.0", nil},
	})
}

// killEach tells stories of commands that are killed at one of onDir moments on a directory,
// and of onMinIO on MinIO.
func killEach(t *testing.T, onDir, onMinIO int, stories []killStory) {
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		for _, story := range stories {
			t.Run(story.name, func(t *testing.T) {
				v1, v2, v3 := bundles(t, "1.0.0", 5000), bundles(t, "1.1.0", 5000), bundles(t, "1.1.0", 5001)
				first, stride := kills(t, onDir, onMinIO)
				for moment := first; ; moment += stride {
					finished := false
					t.Run(fmt.Sprint(moment), func(t *testing.T) {
						k := fresh(t)
						story.before(t, k, v1, v2)
						args := story.args(v1, v2)
						if i := slices.Index(args, theOnlyPlan); i >= 0 {
							args[i] = k.onlyPlan(t)
						}
						finished = killAt(t, k, moment, story.ends, args)
						if story.after != nil {
							story.after(t, k, v2, v3)
						}
					})
					if finished || t.Failed() {
						if moment < 20 {
							t.Errorf("only %d moments were tried", moment)
						}
						return
					}
				}
			})
		}
	})
}

// kills returns the moment of the first kill, and how many lie between two: all are tried in
// the shares of a long run. MinIO has fewer than a directory; the moments are those of the
// command.
func kills(t *testing.T, onDir, onMinIO int) (first, stride int) {
	share, long := longtest.Chosen(t)
	switch {
	case long:
		first, stride = share.Steps(1)
		return 1 + first, stride
	case strings.Contains(t.Name(), "/minio/"):
		return 1, onMinIO
	}
	return 1, onDir
}

// feed publishes 1.0.0 and 1.1.0 to the store v1.hq, and exports what each brings to
// v1.tar.zst and v2.tar.zst, unless they are there.
func (k *kit) feed(t *testing.T, v1, v2 string) {
	t.Helper()
	if _, err := os.Stat(v2 + ".tar.zst"); err == nil {
		return
	}
	hq := *k
	hq.env = append(slices.Clone(k.env), "TSMON_STORAGE="+v1+".hq")
	hq.must(t, "release", "publish", "--no-probe", "--version", "1.0.0", v1)
	hq.must(t, "release", "export", "stable", "beta", "--output", v1+".tar.zst")
	hq.must(t, "release", "publish", "--no-probe", "--version", "1.1.0", v2)
	hq.must(t, "release", "export", "stable", "beta", "--since", "stable=1,beta=1", "--output", v2+".tar.zst")
}

// theOnlyPlan stands for the hash of the waiting plan in a story.
const theOnlyPlan = "HASH"

// onlyPlan returns the hash of the only waiting plan of stable.
func (k *kit) onlyPlan(t *testing.T) string {
	t.Helper()
	w, err := k.publisher(t).Plans().Find(t.Context(), "stable", "")
	if err != nil {
		t.Fatal(err)
	}
	return w.Hash
}

// killAt runs a command that is killed at a moment, looks at what is there, and
// runs it again. It reports whether the command finished unharmed.
func killAt(t *testing.T, k *kit, moment int, ends string, args []string) (finished bool) {
	before := shown(t, k)
	env := append(k.env, fmt.Sprint("TSMON_TEST_KILL=", moment))
	killed := args
	if !slices.Contains([]string{"discard", "repair", "prune", "import", "mirror"}, args[1]) { // which fetch nothing
		killed = append(slices.Clone(args), "--no-probe")
	}
	_, stderr, code := command(t, env, "tsmon-killed", killed...)
	if code != 0 && code != -1 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for channel, after := range shown(t, k) {
		if after != before[channel] && after != ends {
			t.Errorf("%s shows %q, neither what it showed, %q, nor what it is to show, %q", channel, after, before[channel], ends)
		}
	}
	switch args[1] {
	case "prune":
		k.whole(t, k.reader(t))
	case "import", "mirror": // what they left is young
		k.whole(t, k.publisher(t))
	}
	k.must(t, args...)
	if got := k.verified(t, "stable"); got != ends {
		t.Errorf("in the end stable shows %s, want %s", got, ends)
	}
	log := k.must(t, "channel", "log", "stable")
	k.must(t, args...)
	if again := k.must(t, "channel", "log", "stable"); again != log {
		t.Errorf("the command a third time wrote to the log:\n%s", again)
	}
	return code == 0
}

// whole checks that every channel is sound, except that manifests and lists may be behind its log.
func (k *kit) whole(t *testing.T, p *release.Publisher) {
	t.Helper()
	for _, channel := range []string{"stable", "beta"} {
		report, err := p.Keeper().Verify(t.Context(), channel)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range report.Findings {
			if !strings.HasPrefix(f.Object, channel+"/") || !strings.Contains(f.Mend, "brings it up to date") {
				t.Errorf("after the kill: %+v", f)
			}
		}
	}
}

// shown is what clients see of the channels: the version, after following the
// manifest as clients of every version do, or nothing.
func shown(t *testing.T, k *kit) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for _, channel := range []string{"stable", "beta"} {
		if _, err := k.store.Stat(t.Context(), channel+"/latest.json"); err == nil {
			versions[channel] = k.follow(t, channel, "0.9.0", "1.0.0", "1.1.0")
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return versions
}
