package main

import (
	"fmt"
	"sync"
	"testing"

	"tsmon/cmd/tsmon/cli"
	"tsmon/store/longtest"
)

// TestSixteenMoversOfRings: sixteen processes publish to a few clients, advance, pause and resume one
// channel at once. In the end every ring shows what the head of the log says, without a repair.
func TestSixteenMoversOfRings(t *testing.T) {
	const movers = 16
	rounds := 2
	if share, long := longtest.Chosen(t); long {
		rounds = share.Count(32)
	} else if testing.Short() {
		rounds = 1
	}
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		k := fresh(t)
		k.ringed(t)
		k.must(t, "release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 5000))
		codes := map[int]int{}
		for round := range rounds {
			var wg sync.WaitGroup
			var mu sync.Mutex
			for i := range movers {
				version := fmt.Sprintf("1.%d.%d", round+1, i)
				args := [][]string{
					{"release", "publish", "--version", version, bundles(t, version, 5000), "--steps", "5,25,50,100", "--every", "1h"},
					{"channel", "advance", "stable"},
					{"channel", "pause", "stable", "--reason", "crashes"},
					{"channel", "resume", "stable"},
				}[i%4]
				wg.Go(func() {
					for range 4 {
						_, stderr, code := command(t, append(k.env, fmt.Sprintf("LATER=%dh", 2*(round+1))), "tsmon", append(args, "--no-probe")...)
						mu.Lock()
						codes[code]++
						mu.Unlock()
						if code != cli.ExitDone && code != cli.ExitRefused && code != cli.ExitConflict {
							t.Errorf("%v: exit code %d: %s", args, code, stderr)
						}
					}
				})
			}
			wg.Wait()
			k.verified(t, "stable")
			k.verified(t, "beta")
		}
		if codes[cli.ExitConflict] == 0 || codes[cli.ExitDone] < movers {
			t.Errorf("nobody was in anybody's way: exit codes %v", codes)
		}
		t.Logf("exit codes: %v", codes)
	})
}
