package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestServeRollout: two servers and a publisher that share a storage. Clients
// with an id are told by their share, and the servers see a pause.
func TestServeRollout(t *testing.T) {
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	env := append(k.env, "TSMON_REFRESH=50ms")
	servers := []*served{serve(t, filepath.Join(t.TempDir(), "a"), env), serve(t, filepath.Join(t.TempDir(), "b"), env)}
	k.must(t, "release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 100))
	k.must(t, "release", "publish", "--version", "1.1.0", "--percent", "50", bundles(t, "1.1.0", 100))
	check := func(s *served, id string) string {
		stdout, stderr, code := command(t, k.env, "tsmon", "update", "check", "--json", "--current", "1.0.0", "--target", "linux-x86_64",
			"--endpoint", s.base+"/updates/stable/{{target}}/{{arch}}/{{current_version}}", "--header", "X-Tsmon-Client: "+id)
		if code != 0 {
			return stderr
		}
		if strings.Contains(stdout, `"version": "1.1.0"`) || strings.Contains(stdout, `"version":"1.1.0"`) {
			return "1.1.0"
		}
		return "none"
	}
	told := map[string]int{}
	for _, id := range strings.Split("a b c d e f g h i j k l", " ") {
		until(t, "both servers tell "+id+" the same", func() bool {
			answer := check(servers[0], id)
			return answer == check(servers[1], id) && (answer == "none" || answer == "1.1.0")
		})
		told[check(servers[0], id)]++
	}
	if told["1.1.0"] == 0 || told["none"] == 0 {
		t.Errorf("at 50 %% twelve clients are told %v", told)
	}
	k.must(t, "channel", "pause", "stable", "--reason", "crashes")
	for _, s := range servers {
		until(t, "the pause", func() bool {
			return check(s, "a")+check(s, "b")+check(s, "c")+check(s, "d") == strings.Repeat("none", 4)
		})
	}
	for _, s := range servers {
		s.stop()
	}
}

// TestFinishRollouts: a server writes the end of a rollout whose steps are over,
// once, and the channels that follow move along.
func TestFinishRollouts(t *testing.T) {
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	k.must(t, "release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 100))
	k.must(t, "release", "publish", "--version", "1.1.0", "--steps", "5,100", "--every", "1m", bundles(t, "1.1.0", 100))
	p := k.publisher(t)
	p.Now = func() time.Time { return time.Now().Add(time.Hour) }
	report, err := p.Finish(t.Context(), "stable")
	if err != nil || !report.Changed || len(report.Followers) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	if got := k.follow(t, "beta", "1.0.0"); got != "1.1.0" {
		t.Errorf("beta shows %s", got)
	}
	k.verified(t, "stable")
}
