package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
)

// TestKilledAnywhere kills publish, promote and rollback at every storage
// operation in turn, without the real servers at every third: before it, in the
// middle of an upload, and after it. Every time each channel must show a whole
// manifest, old or new, that clients can follow, and the same command again must
// complete the work.
func TestKilledAnywhere(t *testing.T) {
	stories := []struct {
		name   string
		before func(t *testing.T, k *kit, v1, v2 string)
		args   func(v1, v2 string) []string
		ends   string // what stable shows in the end
	}{
		{"first publish", func(*testing.T, *kit, string, string) {},
			func(v1, _ string) []string { return []string{"release", "publish", "--version", "1.0.0", v1} }, "1.0.0"},
		{"second publish", func(t *testing.T, k *kit, v1, _ string) {
			k.must(t, "release", "publish", "--version", "1.0.0", v1)
		}, func(_, v2 string) []string { return []string{"release", "publish", "--version", "1.1.0", v2} }, "1.1.0"},
		{"promote", func(t *testing.T, k *kit, v1, v2 string) {
			k.must(t, "release", "publish", "--version", "1.0.0", v1)
			k.must(t, "release", "publish", "--version", "1.1.0", "--channel", "beta", v2)
		}, func(_, _ string) []string { return []string{"release", "promote", "--from", "beta", "--to", "stable"} }, "1.1.0"},
		{"rollback", func(t *testing.T, k *kit, v1, v2 string) {
			k.must(t, "release", "publish", "--version", "1.0.0", v1)
			k.must(t, "release", "publish", "--version", "1.1.0", v2)
		}, func(_, _ string) []string { return []string{"release", "rollback", "--reason", "crashes"} }, "1.0.0"},
	}
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		for _, story := range stories {
			t.Run(story.name, func(t *testing.T) {
				v1, v2 := bundles(t, "1.0.0", 5000), bundles(t, "1.1.0", 5000)
				step := 3
				switch {
				case testing.Short():
					step = 9
				case os.Getenv("TSMON_TEST_LONG") == "1": // as make test-long says
					step = 1
				}
				for moment := 1; ; moment += step {
					finished := false
					t.Run(fmt.Sprint(moment), func(t *testing.T) {
						k := fresh(t)
						story.before(t, k, v1, v2)
						finished = killAt(t, k, moment, story.ends, story.args(v1, v2))
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

// killAt runs a command that is killed at a moment, looks at what is there, and
// runs it again. It reports whether the command finished unharmed.
func killAt(t *testing.T, k *kit, moment int, ends string, args []string) (finished bool) {
	before := shown(t, k)
	env := append(k.env, fmt.Sprint("TSMON_TEST_KILL=", moment))
	_, stderr, code := command(t, env, "tsmon-killed", append(args, "--no-probe")...)
	if code != 0 && code != -1 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for channel, after := range shown(t, k) {
		if after != before[channel] && after != ends {
			t.Errorf("%s shows %q, neither what it showed, %q, nor what it is to show, %q", channel, after, before[channel], ends)
		}
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
