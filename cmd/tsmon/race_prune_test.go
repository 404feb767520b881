package main

import (
	"fmt"
	"sync"
	"testing"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/store/longtest"
)

// TestPruneMeetsEverybody: processes prune, publish, roll back and promote at once, also to releases
// that are being pruned. In the end every channel names only bundles that exist.
func TestPruneMeetsEverybody(t *testing.T) {
	rounds := 4
	if share, long := longtest.Chosen(t); long {
		rounds = share.Count(96)
	} else if testing.Short() {
		rounds = 1
	}
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		k := fresh(t)
		k.configure(t, "  stable: {}\n  beta: {follows: stable, prerelease: true}\n  late: {}\n")
		for i := range rounds + 4 {
			version := fmt.Sprintf("0.9.%d", i)
			k.must(t, "release", "publish", "--no-probe", "--version", version, bundles(t, version, 5000))
		}
		codes := map[int]int{}
		pruned := 0
		for round := range rounds {
			var wg sync.WaitGroup
			var mu sync.Mutex
			oldest, newest := fmt.Sprintf("0.9.%d", round), fmt.Sprintf("1.%d.0", round)
			for _, args := range [][]string{
				{"release", "prune", "--keep", "1"},
				{"release", "prune", "--keep", "1"},
				{"release", "publish", "--no-probe", "--version", newest, bundles(t, newest, 5000)},
				{"release", "rollback", "--no-probe", "--to", oldest, "--channel", "beta", "--reason", "crashes"},
				{"release", "promote", "--no-probe", "--from", "stable", "--to", "late", oldest},
			} {
				wg.Go(func() {
					for range 3 {
						_, stderr, code := k.tsmon(t, args...)
						mu.Lock()
						codes[code]++
						if code == cli.ExitDone && args[1] == "prune" {
							pruned++
						}
						mu.Unlock()
						switch code {
						case cli.ExitDone, cli.ExitRefused, cli.ExitConflict, cli.ExitTrust: // the last: it is gone
						default:
							t.Errorf("%v: exit code %d: %s", args, code, stderr)
						}
					}
				})
			}
			wg.Wait()
			names, err := channels.Repository{Store: k.store}.Names(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, channel := range names {
				k.verified(t, channel)
			}
			k.follow(t, "stable", "0.1.0")
			k.follow(t, "beta", "0.1.0")
		}
		if pruned == 0 || codes[cli.ExitRefused]+codes[cli.ExitConflict]+codes[cli.ExitTrust] == 0 {
			t.Errorf("nobody was in anybody's way: exit codes %v, %d prunes", codes, pruned)
		}
		t.Logf("exit codes: %v, %d prunes", codes, pruned)
	})
}
