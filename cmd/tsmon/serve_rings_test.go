package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tsmon/channels"
)

// TestServerWithoutRings: a server that was started before its channel had rings answers 404 for them.
// Every move and verify report that.
func TestServerWithoutRings(t *testing.T) {
	t.Parallel()
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	config := k.configure(t, "  stable: {}\n")
	data := t.TempDir()
	env := append(k.env, "TSMON_REFRESH=50ms", "TSMON_PUBLIC_URL=")
	s := serve(t, data, env)
	k.env = append(k.env, "TSMON_PUBLIC_URL="+s.base+"/updates")
	k.must(t, "release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 100))
	if err := os.WriteFile(config, []byte("channels:\n  stable: {rings: true}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	next := bundles(t, "1.1.0", 100)
	// follows: set rings: true for … in the tsmon.yaml of the tsmon serve there and reload it (SIGHUP), or let anybody read
	const mend = "set rings: true for stable in the tsmon.yaml of the tsmon serve there and reload it (SIGHUP)"
	for _, args := range [][]string{
		{"channel", "advance", "stable"},
		{"channel", "advance"}, // nothing is left to do, and it is still said
		{"release", "publish", "--version", "1.1.0", "--percent", "10", next},
	} {
		if _, stderr, code := k.tsmon(t, args...); code != 1 || !strings.Contains(stderr, "/stable/rings/") || !strings.Contains(stderr, "404") || !strings.Contains(stderr, "\nhint: "+mend) {
			t.Errorf("%v: code %d: %s", args, code, stderr)
		}
	}
	if _, stderr, code := k.tsmon(t, "channel", "verify", "stable"); code != 0 || !strings.Contains(stderr, "warning: ") || !strings.Contains(stderr, mend) {
		t.Errorf("verify: code %d: %s", code, stderr)
	}
	if _, stderr, code := k.tsmon(t, "channel", "verify", "stable", "--no-probe", "--quiet"); code != 0 || stderr != "" {
		t.Errorf("verify of the store alone: code %d: %s", code, stderr)
	}

	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(t, "the server shows rings", func() bool {
		status, _ := s.ask("GET", "/updates/stable/rings/00/latest.json", "", nil)
		return status == 200
	})
	if out := k.must(t, "channel", "advance", "stable", "--json"); !strings.Contains(out, `"probed": true`) {
		t.Error(out)
	}
	if _, stderr, code := k.tsmon(t, "channel", "verify", "stable", "--quiet"); code != 0 || stderr != "" {
		t.Errorf("verify: code %d: %s", code, stderr)
	}
	if out := k.must(t, "channel", "rollout", "stable", "--percent", "100"); !strings.Contains(out, "fetched and verified as a client gets it") {
		t.Error(out)
	}
}

// TestServerStepsRings: a server takes a step that is due, and writes the rings of its entry. The rings
// in the store then show what the log says.
func TestServerStepsRings(t *testing.T) {
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		k := fresh(t)
		k.ringed(t)
		k.env = append(k.env, "LATER=-7h")
		k.must(t, "release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 100))
		k.must(t, "release", "publish", "--version", "1.1.0", "--steps", "5,25,100", "--every", "6h", bundles(t, "1.1.0", 100))
		before := k.ringVersions(t)
		s := serve(t, t.TempDir(), append(k.env, "TSMON_REFRESH=50ms", "LATER="))
		var after [channels.Rings]string
		// It watches the step for a while before it believes its date.
		within(t, 3*time.Minute, "25 rings show the release", func() bool {
			after = k.ringVersions(t)
			return strings.Count(strings.Join(after[:], ","), "1.1.0 of ") == 25
		})
		s.stop()
		for ring, version := range before {
			switch {
			case after[ring] == version:
			case version != "1.0.0 of 1" || after[ring] != "1.1.0 of 3":
				t.Errorf("ring %d showed %s and shows %s", ring, version, after[ring])
			}
		}
		log, err := k.reader(t).Repository().Load(t.Context(), "stable")
		if err != nil {
			t.Fatal(err)
		}
		if e := log.Head(); e.Sequence != 3 || e.Action != channels.Advance || !strings.HasPrefix(e.Who, "tsmon serve at ") {
			t.Errorf("entry %d is %s by %s", e.Sequence, e.Action, e.Who)
		}
		k.verified(t, "stable")
	})
}
