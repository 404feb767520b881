package channels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tsmon/channels/ring"
	"tsmon/store/longtest"
)

// TestRing fixes the choice of a ring, which applications make by themselves.
func TestRing(t *testing.T) {
	for id, want := range map[string]int{"": 10, "7b0f9c1e-5c3a-4a55-9b8e-2f5f6a1f0b11": 48, "Büro 3": 48} {
		if got := ring.Of(id); got != want {
			t.Errorf("%q is in ring %d, want %d", id, got, want)
		}
	}
}

func TestRingKeys(t *testing.T) {
	if got := RingKey("stable", 7); got != "stable/rings/07/latest.json" {
		t.Error(got)
	}
	for text, want := range map[string]int{"00": 0, "07": 7, "99": 99, "7": -1, "007": -1, "100": -1, "-1": -1, "+7": -1, "": -1, "0x": -1, "٠٧": -1} {
		if got, ok := ring.Parse(text); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
}

// TestSharesOfRings simulates 100,000 installations: each step has its share of them
// within a point, nobody leaves while the share rises, and the next rollout draws
// another order.
func TestSharesOfRings(t *testing.T) {
	const installations = 100_000
	ids := make([]string, installations)
	for i := range ids {
		ids[i] = fmt.Sprintf("%08x-installation", i*2654435761%(1<<32))
	}
	steps := []int{1, 5, 10, 25, 50, 75, 90, 99, 100}
	share := func(rollout string, percent int) (n int, set ring.Set) {
		r := Rollout{ID: rollout, Steps: steps, Percent: percent}
		set = r.Rings()
		for _, id := range ids {
			if set[ring.Of(id)] {
				n++
			}
		}
		return n, set
	}
	var orders []string
	for number := range 20 {
		var before ring.Set
		order := ""
		for _, percent := range steps {
			n, in := share(fmt.Sprint("stable/", number), percent)
			if got := float64(n) * 100 / installations; math.Abs(got-float64(percent)) > 1 {
				t.Errorf("rollout %d: %d %% are %.2f", number, percent, got)
			}
			for ring := range in {
				if before[ring] && !in[ring] {
					t.Errorf("rollout %d: ring %d leaves at %d %%", number, ring, percent)
				}
			}
			before = in
			if percent == 10 {
				order = fmt.Sprint(in)
			}
		}
		orders = append(orders, order)
	}
	if slices.Sort(orders); len(slices.Compact(orders)) < 20 {
		t.Error("two rollouts begin with the same rings")
	}
}

// ringed is a store with a channel that keeps rings.
func ringed(t *testing.T) Repository {
	r, _ := newStore(t)
	r.Rings = []string{"stable"}
	return r
}

// TestRingViews: a ring's manifest is that of the last entry that changed what the ring
// gets.
func TestRingViews(t *testing.T) {
	r := ringed(t)
	log := moved(t, r, "stable", entry(Publish, "1.0.0", "", ""))
	release := *rollout(5, 25, 100)
	sequences := func(log *Log) map[string]int { // how many rings show what
		counts := map[string]int{}
		for _, v := range log.Views(true)[1 : 1+Rings] {
			m := v.Render("https://example.com")
			counts[fmt.Sprint(m.Version, " of ", m.Sequence)]++
		}
		return counts
	}
	step := func(action Action, rollout *Rollout, want map[string]int) {
		t.Helper()
		e := entry(action, "1.0.0", "", "")
		e.Rollout = rollout
		if rollout != nil && rollout.Complete() {
			e.Rollout, e.Version, e.Release = nil, rollout.Version, rollout.Release
		}
		log = moved(t, r, "stable", e)
		if got := sequences(log); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("entry %d: %v, want %v", log.End().Sequence, got, want)
		}
	}
	if got := sequences(log); got["1.0.0 of 1"] != 100 {
		t.Errorf("%v", got)
	}
	if len((&Log{Channel: "stable"}).Views(true)) != 0 {
		t.Error("a log without entries has views")
	}
	step(Publish, &release, map[string]int{"1.0.0 of 1": 95, "2.0.0 of 2": 5})
	release.Percent = 25
	step(Advance, &release, map[string]int{"1.0.0 of 1": 75, "2.0.0 of 2": 5, "2.0.0 of 3": 20})
	step(Pause, release.Pause(noon), map[string]int{"1.0.0 of 1": 75, "1.0.0 of 4": 25})
	step(Resume, &release, map[string]int{"1.0.0 of 1": 75, "2.0.0 of 5": 25})
	step(Publish, nil, map[string]int{"1.0.0 of 1": 75, "1.0.0 of 6": 25})
	other := release
	other.ID = "stable/7"
	step(Publish, &other, map[string]int{"1.0.0 of 1": 75 - count(&release, &other, false), "1.0.0 of 6": 25 - count(&release, &other, true), "2.0.0 of 7": 25})
	done := other
	done.Percent = 100
	step(Advance, &done, map[string]int{"2.0.0 of 7": 25, "2.0.0 of 8": 75})
	step(Rollback, nil, map[string]int{"1.0.0 of 9": 100})
}

// count returns how many rings a rollout includes, of those that another includes or not.
func count(other, r *Rollout, in bool) (n int) {
	set, others := r.Rings(), other.Rings()
	for ring := range set {
		if set[ring] && others[ring] == in {
			n++
		}
	}
	return n
}

// TestPointRings: the views are written by the protocol of the manifest, and only those
// that an entry changes.
func TestPointRings(t *testing.T) {
	r := ringed(t)
	log := moved(t, r, "stable", entry(Publish, "1.0.0", "", ""))
	log, moved, err := r.Repoint(t.Context(), log)
	if err != nil || !moved {
		t.Fatal(moved, err)
	}
	current(t, r, log)
	seen, err := r.Peek(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	e := entry(Publish, "1.0.0", "", "")
	e.Rollout = rollout(5, 100)
	after, err := r.Append(t.Context(), log, e)
	if err != nil {
		t.Fatal(err)
	}
	if _, moved, err = r.Point(t.Context(), after, seen); err != nil || !moved {
		t.Fatal(moved, err)
	}
	current(t, r, after)
	now, err := r.Peek(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for i := range now {
		if now[i].ETag != seen[i].ETag {
			changed++
		}
	}
	if changed != 1+5 {
		t.Errorf("%d manifests were written, want the channel's and 5 of rings", changed)
	}
	if _, moved, err := r.Repoint(t.Context(), after); moved || err != nil {
		t.Errorf("again: %v, %v", moved, err)
	}
	// What was seen before is no longer there: the log is looked at again.
	older := further(t, r, after)
	if shown, _, err := r.Point(t.Context(), after, seen); err != nil || shown.End() != older.End() {
		t.Errorf("a slow writer shows %+v, %v", shown.End(), err)
	}
	current(t, r, older)
}

// further appends another entry and shows it.
func further(t *testing.T, r Repository, log *Log) *Log {
	t.Helper()
	log, err := r.Append(t.Context(), log, entry(Publish, "3.0.0", "", ""))
	if err == nil {
		log, _, err = r.Repoint(t.Context(), log)
	}
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// TestRingAheadOfTheLog: what the log does not have any more is not written over.
func TestRingAheadOfTheLog(t *testing.T) {
	r := ringed(t)
	log := further(t, r, moved(t, r, "stable", entry(Publish, "1.0.0", "", "")))
	shown := log.Views(true)[1+42].Render(r.PublicURL)
	shown.Sequence = 3
	data, err := shown.Encode()
	if err != nil {
		t.Fatal(err)
	}
	seen, err := r.Peek(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Store.Swap(t.Context(), RingKey("stable", 42), seen[1+42].ETag, data, manifestAttributes); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Repoint(t.Context(), log); err == nil || !strings.Contains(err.Error(), "entry 3, which is missing") {
		t.Errorf("error %v", err)
	}
}

// TestInterleavingsOfRings is TestInterleavings of a channel with rings.
func TestInterleavingsOfRings(t *testing.T) {
	share, long := longtest.Chosen(t)
	seeds := 12
	switch {
	case long:
		seeds = 384
	case testing.Short():
		seeds = 3
	}
	for seed := range seeds {
		if !share.Has(seed) {
			continue
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			interleave(t, ringed(t), rand.New(rand.NewPCG(uint64(seed), 2)), 15)
		})
	}
}
