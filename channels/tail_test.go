package channels

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsmon/channels/segment"
)

// tails reads the newest entries of a log and wants those of another, with so many reads
// at most.
func tails(t *testing.T, r Repository, n int, want []Entry, most int64) {
	t.Helper()
	store := &counted{Store: r.Store}
	got, err := Repository{Store: store}.Tail(t.Context(), "stable", n)
	if err != nil {
		t.Error(err)
		return
	}
	if len(got) != len(want) || len(got) > 0 && (got[0].Sequence != want[0].Sequence || got[len(got)-1].Sequence != want[len(want)-1].Sequence) {
		t.Errorf("%d entries, want %d up to %d", len(got), len(want), want[len(want)-1].Sequence)
	}
	if reads := store.gets.Load(); reads > most {
		t.Errorf("%d objects were read, want %d at most", reads, most)
	}
}

// TestTail: the end of a long log costs what it has, wherever the manifest stands.
func TestTail(t *testing.T) {
	r, root := newStore(t)
	const whole = 2*segment.Entries + 3*segmentsEvery
	log := longLog(t, root, whole)
	tails(t, r, 5, log.Entries[whole-5:], 6) // without a manifest
	for range 2 {
		if err := r.Pack(t.Context(), log); err != nil {
			t.Fatal(err)
		}
	}
	shown := filepath.Join(root, "stable", "latest.json")
	if err := os.MkdirAll(filepath.Dir(shown), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]uint64{"the manifest is up to date": whole, "it is behind": whole - 20, "it is far behind": 1, "it is ahead": whole + 3, "it is far ahead": 1 << 62} {
		t.Run(name, func(t *testing.T) {
			e := log.Entries[0]
			e.Sequence = at
			m := e.Render("https://example.com")
			data, err := m.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(shown, data, 0o644); err != nil {
				t.Fatal(err)
			}
			tails(t, r, 1, log.Entries[whole-1:], 2)
			tails(t, r, 5, log.Entries[whole-5:], 6)
			tails(t, r, 400, log.Entries[whole-400:], 403-segment.Entries)
			tails(t, r, whole, log.Entries, 3+3*segmentsEvery)
			tails(t, r, 10*whole, log.Entries, 3+3*segmentsEvery)
		})
	}
	if entries, err := r.Tail(t.Context(), "beta", 5); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v of a channel that was never moved", entries, err)
	}
	if _, err := r.Tail(t.Context(), "../log", 5); !errors.Is(err, ErrName) {
		t.Error(err)
	}
}

// TestTailOfBrokenLog: what is broken among the newest entries is noticed; entries that
// are said to be lost are passed over.
func TestTailOfBrokenLog(t *testing.T) {
	r, root := newStore(t)
	log := longLog(t, root, 20)
	file := func(name string) string { return filepath.Join(root, "log", "stable", name+".json") }
	change := func(name string, edit func(text string) string) (restore func()) {
		data, err := os.ReadFile(file(name))
		if err == nil {
			err = os.WriteFile(file(name), []byte(edit(string(data))), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() { os.WriteFile(file(name), data, 0o644) }
	}
	otherName := func(text string) string { return strings.Replace(text, `"who": "test"`, `"who": "eve"`, 1) }
	noise := func(string) string { return "noise" }
	for _, c := range []struct {
		what, name string
		edit       func(string) string
		broken     bool
	}{
		{"an entry is another", "0000000018", otherName, true},
		{"the first of them is another", "0000000016", otherName, true},
		{"the first of them is none", "0000000016", noise, true},
		{"the newest is none", "0000000020", noise, true},
		{"an older one is another", "0000000015", otherName, false},
	} {
		restore := change(c.name, c.edit)
		if _, err := r.Tail(t.Context(), "stable", 5); errors.Is(err, ErrLog) != c.broken || !c.broken && err != nil {
			t.Errorf("%s: %v", c.what, err)
		} else if c.broken && strings.Contains(err.Error(), "entry 1 ") {
			t.Errorf("%s: the wrong entry is named: %v", c.what, err)
		}
		restore()
	}

	if err := os.Remove(file("0000000018")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Tail(t.Context(), "stable", 5); !errors.Is(err, ErrLog) {
		t.Errorf("an entry is missing: %v", err)
	}
	said := entry(Repair, "1.19.0", "", "")
	said.Lost = []Lost{{From: 18, To: 18}}
	log, err := r.Append(t.Context(), log, said)
	if err != nil {
		t.Fatal(err)
	}
	tails(t, r, 3, log.Entries[18:], 4)
	tails(t, r, 4, append([]Entry{log.Entries[16]}, log.Entries[18:]...), 5)

	if err := os.WriteFile(file("9999999999"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Tail(t.Context(), "stable", 5); !errors.Is(err, ErrLog) {
		t.Errorf("an entry of a number far away: %v", err)
	}
}

// TestTailOfForgedLog: an entry that the operators have not signed is noticed, by who is
// told of them or sees a signature.
func TestTailOfForgedLog(t *testing.T) {
	for name, by := range map[string][]string{"unsigned": nil, "by one": {"ann"}} {
		t.Run(name, func(t *testing.T) {
			g := guard(t)
			log := g.story(t, "stable")
			entries, err := g.Tail(t.Context(), "stable", 2)
			if err != nil || len(entries) != 2 || entries[1].Sequence != 3 || len(entries[1].Signers()) != 2 {
				t.Fatalf("%+v, %v", entries, err)
			}
			forged := entry(Publish, "1.3.0", "", "")
			if by == nil {
				forged = signed(t, log, forged)
			} else {
				forged = signed(t, log, forged, g.ann)
			}
			if _, err := g.journal("stable").create(t.Context(), forged); err != nil { // as a thief does
				t.Fatal(err)
			}
			stranger := Repository{Store: g.Store}
			for _, n := range []int{1, 2, 10} {
				if entries, err := g.Tail(t.Context(), "stable", n); !errors.Is(err, ErrUnsigned) {
					t.Errorf("the newest %d: %+v, %v", n, entries, err)
				}
				entries, err := stranger.Tail(t.Context(), "stable", n)
				if unseen := by == nil && n == 1; unseen == errors.Is(err, ErrUnsigned) {
					t.Errorf("the newest %d, by who knows no operators: %+v, %v", n, entries, err)
				}
			}
		})
	}
}
