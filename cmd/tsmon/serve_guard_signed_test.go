package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tsmon/cmd/tsmon/showing"
	"tsmon/store/servertest"
)

// TestServeGuardSigns: a channel needs two operators, and the server has its own key, which may only
// sign pauses. Its guard halts a failing release, with an entry that `channel verify`, another server
// and ssh-keygen accept. Somebody with the server's key and access to the store can't move the
// channel.
func TestServeGuardSigns(t *testing.T) {
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		servertest.Missing(t, "ssh-keygen: "+err.Error())
	}
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		k := fresh(t)
		ann, annLine := operatorKey(t)
		bob, bobLine := operatorKey(t)
		guard, guardLine := operatorKey(t)
		settings := filepath.Join(t.TempDir(), "tsmon.yaml")
		text := "operators:\n  ann: " + annLine + "\n  bob: " + bobLine + "\n  guard: {key: " + guardLine + ", only: pause}\n" +
			"channels:\n  stable: {approvals: 2, guard: {failures: 10%, networks: 1}}\n"
		if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		plain := append(k.env, "TSMON_CONFIG="+settings)
		as := func(key string) { k.env = append(plain[:len(plain):len(plain)], "TSMON_OPERATOR_KEY="+key) }
		approved := func(args ...string) {
			t.Helper()
			as(ann)
			k.must(t, args...)
			as(bob)
			k.must(t, "plan", "approve", k.onlyPlan(t), "--no-probe")
		}
		approved("release", "publish", "--no-probe", "--version", "1.0.0", bundles(t, "1.0.0", 100))
		approved("release", "publish", "--no-probe", "--version", "1.1.0", "--percent", "99", "--cohort", "internal", bundles(t, "1.1.0", 100))

		as(guard)
		guarding := serve(t, t.TempDir(), append(k.env, "TSMON_REFRESH=50ms"))
		other := serve(t, t.TempDir(), append(plain, "TSMON_REFRESH=50ms"))
		asks := func(s *served, i int) int {
			return asInternal(t, s, i, "GET", "/updates/stable/linux/x86_64/1.0.0", "")
		}
		for i := range 12 {
			until(t, "an offer", func() bool { return asks(guarding, i) == http.StatusOK })
			reportsFailure(t, guarding, i)
		}
		log := func() (rows []showing.LogRow) {
			parse(t, k.must(t, "channel", "log", "stable", "--json"), &rows)
			return rows
		}
		until(t, "the halt", func() bool { return len(log()) == 3 })
		pause, raw := log()[2], k.must(t, "channel", "log", "stable", "--entry", "3", "--raw")
		if pause.Action != "pause" || strings.Join(pause.SignedBy, " ") != "guard" || !strings.Contains(raw, `"halted": true`) {
			t.Errorf("the entry is %+v: %s", pause, raw)
		}
		for _, s := range []*served{guarding, other} {
			until(t, "the pause", func() bool { return asks(s, 1) == http.StatusNoContent })
			if text := s.log.String(); strings.Contains(text, "does not verify") {
				t.Errorf("an alarm: %s", text)
			}
		}
		k.must(t, "channel", "verify", "stable")
		folder := t.TempDir()
		for name, content := range map[string]string{"allowed": "guard " + guardLine + "\n",
			"entry": raw, "entry.sig": k.must(t, "channel", "log", "stable", "--entry", "3", "--signature", "guard")} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		check := exec.CommandContext(t.Context(), keygen, "-Y", "verify", "-f", "allowed", "-I", "guard", "-n", "tsmon-log", "-s", "entry.sig")
		check.Dir = folder
		entry, err := os.Open(filepath.Join(folder, "entry"))
		if err != nil {
			t.Fatal(err)
		}
		defer entry.Close()
		check.Stdin = entry
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("ssh-keygen: %v\n%s", err, out)
		}

		// The thief of the server's key, who has all that the server has.
		as(guard)
		end := k.must(t, "channel", "verify", "stable", "--json")
		for _, args := range [][]string{
			{"channel", "resume", "stable", "--no-probe"},
			{"channel", "rollout", "stable", "--percent", "100", "--no-probe"},
			{"channel", "advance", "stable", "--no-probe"},
			{"release", "publish", "--no-probe", "--version", "1.2.0", bundles(t, "1.2.0", 100)},
			{"release", "rollback", "--channel", "stable", "--to", "1.0.0", "--reason", "x", "--no-probe"},
			{"channel", "appoint", "stable", "--no-probe"},
		} {
			if args[1] == "appoint" {
				mine := strings.Replace(text, "  bob: "+bobLine+"\n", "", 1)
				mine = strings.Replace(mine, "approvals: 2", "approvals: 1", 1)
				if err := os.WriteFile(settings, []byte(mine), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			stdout, stderr, code := k.tsmon(t, args...)
			if waits := strings.Contains(stdout, "waits for approvals, 0 of "); !waits && code == 0 && args[1] != "advance" {
				t.Errorf("%s: %d, %s%s", args[1], code, stdout, stderr)
			}
		}
		if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		waiting, _, err := k.publisher(t).Plans().List(t.Context(), "stable")
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range waiting {
			if stdout, stderr, code := k.tsmon(t, "plan", "approve", w.Hash, "--channel", "stable", "--no-probe"); code == 0 && !strings.Contains(stdout, "waits for approvals, 0 of ") {
				t.Errorf("he approves a plan: %d, %s%s", code, stdout, stderr)
			}
			_, _, _ = k.tsmon(t, "plan", "apply", w.Hash, "--channel", "stable", "--no-probe")
		}
		if now := k.must(t, "channel", "verify", "stable", "--json"); now != end {
			t.Errorf("the channel was moved: %s, before that %s", now, end)
		}
		guarding.stop()
		other.stop()
	})
}
