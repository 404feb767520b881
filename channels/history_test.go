package channels

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsmon/channels/journal"
)

// TestContinuesPastLostEntries: a log goes on from an entry that stands before others which
// a later one says to be lost, and from no other one with its number.
func TestContinuesPastLostEntries(t *testing.T) {
	for name, c := range map[string]struct {
		lose  []uint64 // entries whose bytes go
		lost  Lost     // as the log says then
		end   bool     // the end of the log is lost
		stays []uint64 // entries that the log must be known to go on from
	}{
		"behind the end":       {nil, Lost{From: 5, To: 5}, true, []uint64{1, 3, 4}},
		"far behind the end":   {nil, Lost{From: 5, To: 900}, true, []uint64{1, 4}},
		"at the end":           {[]uint64{3, 4}, Lost{From: 3, To: 4}, true, []uint64{1, 2}},
		"in the middle":        {[]uint64{2}, Lost{From: 2, To: 2}, false, []uint64{1, 2, 3, 4}},
		"several in the midst": {[]uint64{2, 3}, Lost{From: 2, To: 3}, false, []uint64{1, 3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			r, root := newStore(t)
			seen := map[uint64]Position{}
			whole := moved(t, r, "stable", entry(Publish, "1.0.0", "", ""), entry(Publish, "1.1.0", "", ""), entry(Publish, "1.2.0", "", ""), entry(Publish, "1.3.0", "", ""))
			for n := uint64(1); n <= 4; n++ {
				seen[n] = Position{n, whole.HashOf(n)}
			}
			for _, n := range c.lose {
				if err := os.Remove(filepath.Join(root, filepath.FromSlash(journal.Key("stable", n)))); err != nil {
					t.Fatal(err)
				}
			}
			log, _, err := r.Salvage().Examine(t.Context(), "stable")
			if err != nil {
				t.Fatal(err)
			}
			e := entry(Repair, "1.0.0", "", "")
			e.Lost = []Lost{c.lost}
			entered, err := r.Enter(t.Context(), log, log.Next(e))
			if err != nil {
				t.Fatal(err)
			}
			read, err := r.Load(t.Context(), "stable")
			if err != nil {
				t.Fatal(err)
			}
			longer := moved(t, r, "stable", entry(Publish, "1.4.0", "", ""))
			extended, err := r.Extend(t.Context(), log)
			if len(c.lose) == 0 || c.lose[0] > 2 { // else what is known of it has a hole
				if err != nil {
					t.Fatal(err)
				}
			} else {
				extended = longer
			}
			for who, log := range map[string]*Log{"its writer": entered, "a reader": read, "a later reader": longer, "one who knows the rest": extended} {
				for _, n := range c.stays {
					if err := log.Continues(seen[n]); err != nil {
						t.Errorf("%s, from entry %d: %v", who, n, err)
					}
				}
				if err := log.Continues(Position{c.stays[len(c.stays)-1], strings.Repeat("0", 64)}); c.end && !errors.Is(err, ErrHistory) {
					t.Errorf("%s, from another entry: %v", who, err)
				}
			}
		})
	}
}

// TestSeenPastLostEntries: a log that was shortened is refused, also where a later entry says
// others to be lost.
func TestSeenPastLostEntries(t *testing.T) {
	r, root := newStore(t)
	remove := func(n uint64) {
		t.Helper()
		if err := os.Remove(filepath.Join(root, filepath.FromSlash(journal.Key("stable", n)))); err != nil {
			t.Fatal(err)
		}
	}
	moved(t, r, "stable", entry(Publish, "1.0.0", "", ""), entry(Publish, "1.1.0", "", ""), entry(Publish, "1.2.0", "", ""))
	remove(2)
	log, _, err := r.Salvage().Examine(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	repaired := entry(Repair, "1.2.0", "", "")
	repaired.Lost = []Lost{{From: 2, To: 2}}
	if _, err := r.Enter(t.Context(), log, log.Next(repaired)); err != nil {
		t.Fatal(err)
	}
	seen := moved(t, r, "stable", entry(Publish, "1.3.0", "", "")).End()
	r.Seen = func(context.Context, string) (Position, error) { return seen, nil }
	if _, err := r.Load(t.Context(), "stable"); err != nil {
		t.Error(err)
	}
	remove(5)
	if log, err := r.Load(t.Context(), "stable"); !errors.Is(err, ErrHistory) {
		t.Errorf("a log without its newest entry is read: %v, %v", log, err)
	}
}
