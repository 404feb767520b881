package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/api/fleet"
	"tsmon/cmd/tsmon/showing"
	"tsmon/release"
)

// TestServeRollout: two servers and a publisher share a storage. Clients with an ID are offered the
// release by their share, and both servers notice a pause.
func TestServeRollout(t *testing.T) {
	t.Parallel()
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

// TestAdvanceRollouts: once the last step is due, any server or command that advances the channel
// gives the release to everybody, and to the channels that follow.
func TestAdvanceRollouts(t *testing.T) {
	t.Parallel()
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	k.must(t, "release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 100))
	k.must(t, "release", "publish", "--version", "1.1.0", "--steps", "5,100", "--every", "1m", bundles(t, "1.1.0", 100))
	p := k.publisher(t)
	p.Now = func() time.Time { return time.Now().Add(time.Hour) }
	report, err := p.Advance(t.Context(), release.Options{Channel: "stable"})
	if err != nil || !report.Changed || len(report.Followers) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	if got := k.follow(t, "beta", "1.0.0"); got != "1.1.0" {
		t.Errorf("beta shows %s", got)
	}
	k.verified(t, "stable")
}

// TestServeGuard: two servers that share storage and records halt a rollout for which clients report
// failures, and tell the webhook, once. The command line shows the clients' versions.
func TestServeGuard(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []string
	tries := 0
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if tries++; tries == 1 { // it is asked again
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		text, _ := io.ReadAll(r.Body)
		if strings.Contains(string(text), `"event":"halt"`) {
			told = append(told, r.Method+" "+r.URL.Path+" "+string(text))
		}
	}))
	defer hook.Close()
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	shared := t.TempDir()
	settings := filepath.Join(shared, "tsmon.yaml")
	text := "channels:\n  stable: {guard: {failures: 10%, networks: 1}}\n  beta: {follows: stable, prerelease: true}\n"
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k.env = append(k.env, "TSMON_CONFIG="+settings, "TSMON_DATA="+shared)
	env := append(k.env, "TSMON_REFRESH=50ms", "TSMON_WEBHOOK="+hook.URL+"/secret")
	k.must(t, "release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 100))
	k.must(t, "release", "publish", "--version", "1.1.0", "--percent", "99", "--cohort", "internal", bundles(t, "1.1.0", 100))
	servers := []*served{serve(t, shared, env), serve(t, shared, env)}
	as := func(s *served, id, method, path, body string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, s.base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Tsmon-Client", id)
		r.Header.Set("X-Tsmon-Cohort", "internal")
		answer, err := s.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	for i := range 14 {
		until(t, "an offer", func() bool {
			return as(servers[i%2], fmt.Sprint("client ", i), "GET", "/updates/stable/linux/x86_64/1.0.0", "") == 200
		})
	}
	for i := range 14 {
		s, id := servers[i%2], fmt.Sprint("client ", i)
		event := "failed"
		if i < 2 {
			event = "started"
		}
		body := `{"channel":"stable","version":"1.1.0","target":"linux-x86_64","event":"` + event + `"}`
		if status := as(s, id, "POST", "/updates/report", body); status != 204 {
			t.Fatalf("the report is answered %d", status)
		}
	}
	until(t, "the webhook", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) > 0
	})
	for _, s := range servers { // which ends what they still do
		until(t, "the pause", func() bool { return as(s, "client 5", "GET", "/updates/stable/linux/x86_64/1.0.0", "") == 204 })
		s.stop()
	}
	var log []showing.LogRow
	parse(t, k.must(t, "channel", "log", "stable", "--json"), &log)
	last := log[len(log)-1]
	if len(log) != 3 || last.Action != "pause" || !strings.Contains(last.Why, " clients failed") || !strings.Contains(last.Who, "tsmon serve at 127.0.0.1:") {
		t.Errorf("%d entries, the last %+v", len(log), last)
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], "POST /secret {") || !strings.Contains(told[0], last.Why) {
		t.Errorf("the webhook was told %q", told)
	}
	var seen fleet.Adoption
	parse(t, k.must(t, "channel", "adoption", "stable", "--json"), &seen)
	want := fleet.NewestCounts{Version: "1.1.0", Running: 2, Failed: 12}
	if seen.Clients != 14 || seen.Newest != want || seen.Day["failed"] != 12 || seen.Day["checks"] < 14 || seen.Rollout == nil || !seen.Rollout.Paused {
		t.Errorf("%+v", seen)
	}
	if text := k.must(t, "channel", "adoption", "stable"); !strings.Contains(text, "14 clients") || !strings.Contains(text, "2 running") || !strings.Contains(text, "█") {
		t.Error(text)
	}
}

func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// TestShares: nothing is released if the flags of a share are empty or invalid.
func TestShares(t *testing.T) {
	t.Parallel()
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	k.must(t, "release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 100))
	next := bundles(t, "1.1.0", 100)
	for _, flags := range [][]string{
		{"--percent", "-1"}, {"--percent", "101"}, {"--percent", ""}, {"--percent", "12.5"}, {"--cohort", ""}, {"--cohort", "A b"}, {"--cohort", "", "--percent", "5"},
		{"--steps", ""}, {"--steps", "50,5", "--every", "1h"}, {"--steps", "5,50"}, {"--steps", "5,50", "--every", "5s"}, {"--steps", "5", "--percent", "5"}, {"--every", "1h"},
	} {
		if _, stderr, code := k.tsmon(t, append([]string{"release", "publish", "--version", "1.1.0", next}, flags...)...); code != 2 {
			t.Errorf("publish %q: code %d: %s", flags, code, stderr)
		}
	}
	if got := k.follow(t, "stable", "1.0.0"); got != "1.0.0" {
		t.Fatalf("stable shows %s", got)
	}
	k.must(t, "release", "publish", "--version", "1.1.0", "--cohort", "internal", next)
	for _, flags := range [][]string{{}, {"--percent", "-1"}, {"--cohort", ""}, {"--percent", "20", "--cohort", ""}, {"--steps", ""}} {
		if _, stderr, code := k.tsmon(t, append([]string{"channel", "rollout", "stable"}, flags...)...); code != 2 {
			t.Errorf("rollout %q: code %d: %s", flags, code, stderr)
		}
	}
	// Some have it by now: a rollback says that it does not reach them.
	if stdout := k.must(t, "release", "rollback", "--reason", "crashes"); !strings.Contains(stdout, "1.1.0") || !strings.Contains(stdout, "not reached: clients on a version above 1.0.0") {
		t.Error(stdout)
	}
}

// TestPrivateProbe: after a move, a server that requires a token is probed with the token.
func TestPrivateProbe(t *testing.T) {
	t.Parallel()
	storage := filepath.Join(t.TempDir(), "store")
	k := newKit(t, storage, nil)
	s := serve(t, t.TempDir(), append(k.env, "TSMON_REFRESH=50ms", "TSMON_UPDATES_TOKEN=sesame", "TSMON_PUBLIC_URL="))
	k.env = append(k.env, "TSMON_PUBLIC_URL="+s.base+"/updates")
	if _, stderr, code := k.tsmon(t, "release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 100)); code != 0 || !strings.Contains(stderr, "status 401") {
		t.Errorf("without the token: code %d: %s", code, stderr)
	}
	k.env = append(k.env, "TSMON_UPDATES_TOKEN=sesame")
	if stdout := k.must(t, "release", "publish", "--version", "1.1.0", bundles(t, "1.1.0", 100)); !strings.Contains(stdout, "fetched and verified as a client gets it") {
		t.Error(stdout)
	}
}
