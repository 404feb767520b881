package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/showing"
	"tsmon/store/longtest"
)

// TestSixteenPublishers: sixteen processes publish different versions to one channel at once, until
// each version, or a higher one, is in the log. Each entry has one winner, the losers are told who won,
// and the manifest is that of the head.
func TestSixteenPublishers(t *testing.T) {
	const publishers = 16
	rounds := 2
	if share, long := longtest.Chosen(t); long {
		rounds = share.Count(32)
	}
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		k := fresh(t)
		codes := map[int]int{}
		for round := range rounds {
			race(t, k, round, publishers, codes)
			checkRace(t, k, fmt.Sprintf("1.%d.%d", round, publishers-1))
		}
		t.Logf("exit codes: %v", codes)
	})
}

// race has publishers publish 1.ROUND.0, 1.ROUND.1, … at once.
func race(t *testing.T, k *kit, round, publishers int, codes map[int]int) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range publishers {
		version := fmt.Sprintf("1.%d.%d", round, i)
		folder := bundles(t, version, 200_000)
		wg.Go(func() {
			for {
				_, stderr, code := k.tsmon(t, "release", "publish", "--no-probe", "--json", "--version", version, folder)
				mu.Lock()
				codes[code]++
				mu.Unlock()
				switch code {
				case cli.ExitDone, cli.ExitRefused: // refused: the channel is above it by now
					return
				case cli.ExitConflict:
					if !strings.Contains(stderr, "somebody else moved stable first: entry ") {
						t.Errorf("a conflict that does not say who won: %s", stderr)
						return
					}
				default:
					t.Errorf("exit code %d: %s", code, stderr)
					return
				}
			}
		})
	}
	wg.Wait()
}

// checkRace checks that the log has no gaps and rising versions, and that all channels are sound and
// show the highest version.
func checkRace(t *testing.T, k *kit, highest string) {
	t.Helper()
	for _, channel := range []string{"stable", "beta"} {
		var rows []showing.LogRow
		if err := json.Unmarshal([]byte(k.must(t, "channel", "log", channel, "--json")), &rows); err != nil {
			t.Fatal(err)
		}
		for i, row := range rows {
			if row.Sequence != uint64(i)+1 {
				t.Errorf("entry %d of %s has number %d", i+1, channel, row.Sequence)
			}
		}
		if got := k.verified(t, channel); got != highest {
			t.Errorf("%s shows %s, want the highest, %s", channel, got, highest)
		}
		if got := k.follow(t, channel, "1.0.0"); got != highest {
			t.Errorf("clients of %s see %s, want %s", channel, got, highest)
		}
	}
}

// TestOneVersionManyPublishers: eight processes publish the same bytes as the same version at once.
// All succeed sooner or later, and the log has one entry.
func TestOneVersionManyPublishers(t *testing.T) {
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		k := fresh(t)
		folder := bundles(t, "1.0.0", 200_000)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					_, stderr, code := k.tsmon(t, "release", "publish", "--no-probe", "--version", "1.0.0", folder)
					if code == cli.ExitDone {
						return
					}
					if code != cli.ExitConflict {
						t.Errorf("exit code %d: %s", code, stderr)
						return
					}
				}
			})
		}
		wg.Wait()
		if lines := strings.Count(k.must(t, "channel", "log", "stable"), "\n"); lines != 2 {
			t.Errorf("the log has %d lines, want the heading and one entry", lines)
		}
		k.verified(t, "stable")
	})
}
