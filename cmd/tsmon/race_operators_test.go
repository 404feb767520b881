package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/release"
)

// TestSixteenMoversWithApprovals: sixteen jobs publish at once, and somebody else approves. Each entry
// has one winner and both signatures, every loser is told that its plan is out of date, and stable
// ends with the highest version.
func TestSixteenMoversWithApprovals(t *testing.T) {
	const movers = 16
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		k := fresh(t)
		ann, annLine := operatorKey(t)
		ci, ciLine := operatorKey(t)
		settings := filepath.Join(t.TempDir(), "tsmon.yaml")
		text := "operators:\n  ann: " + annLine + "\n  ci: " + ciLine + "\nchannels: {stable: {approvals: 2}, beta: {follows: stable, prerelease: true, approvals: 1}}\n"
		if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k.env = append(k.env, "TSMON_CONFIG="+settings)
		as := func(key string, args ...string) (stdout, stderr string, code int) {
			return command(t, append(k.env[:len(k.env):len(k.env)], "TSMON_OPERATOR_KEY="+key), "tsmon", append(args, "--no-probe", "--json")...)
		}
		var mu sync.Mutex
		codes := map[string]int{}
		count := func(what string, code int) {
			mu.Lock()
			defer mu.Unlock()
			codes[fmt.Sprintf("%s %d", what, code)]++
		}
		var wg sync.WaitGroup
		for i := range movers {
			version := fmt.Sprintf("1.0.%d", i)
			folder := bundles(t, version, 10_000)
			wg.Go(func() {
				for {
					stdout, stderr, code := as(ci, "release", "publish", "--version", version, folder)
					count("publish", code)
					var plan release.Plan
					switch {
					case code == cli.ExitRefused: // the channel is above it by now
						return
					case code == cli.ExitConflict:
						continue
					case code != cli.ExitDone || json.Unmarshal([]byte(stdout), &plan) != nil:
						t.Errorf("publish %s: exit code %d: %s", version, code, stderr)
						return
					case plan.Waiting == nil: // somebody approved it meanwhile
						return
					}
					_, stderr, code = as(ann, "plan", "approve", plan.Waiting.Hash)
					count("approve", code)
					switch {
					case code == cli.ExitDone:
						return
					case code == cli.ExitConflict && (strings.Contains(stderr, "another entry came first: ") || strings.Contains(stderr, "somebody else moved stable first: entry ")):
					default:
						t.Errorf("approve %s: exit code %d: %s", version, code, stderr)
						return
					}
				}
			})
		}
		wg.Wait()
		t.Logf("exit codes: %v", codes)
		checkRace(t, k, fmt.Sprintf("1.0.%d", movers-1))
		log, err := channels.Repository{Store: k.store}.Load(t.Context(), "stable")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range log.Entries {
			if len(e.Signers()) != 2 {
				t.Errorf("entry %d has %d signers", e.Sequence, len(e.Signers()))
			}
		}
	})
}
