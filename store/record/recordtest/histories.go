package recordtest

import (
	"fmt"
	"strings"
	"testing"

	"tsmon/store/record"
)

func histories(t *testing.T, s record.Store) {
	seen := func(channel string) record.Seen {
		t.Helper()
		return must(s.Seen(t.Context(), channel))(t)
	}
	equal(t, "a log that nobody has seen", seen("stable"), record.Seen{})
	// Of many concurrent calls with different ends exactly one succeeds, for the first end
	// and for a later one.
	before := record.Seen{}
	for _, sequence := range []int64{1, 7} {
		end := func(by int) record.Seen { return record.Seen{Sequence: sequence, Hash: fmt.Sprint("by ", by)} }
		before = end(winner(t, 16, func(i int) (bool, error) { return s.See(t.Context(), "stable", before, end(i)) }))
		equal(t, "the end of the log", seen("stable"), before)
	}
	// The end may go back, and each channel has its own.
	back := record.Seen{Sequence: 2, Hash: strings.Repeat("a", 64)}
	equal(t, "the end goes back", must(s.See(t.Context(), "stable", before, back))(t), true)
	for _, old := range []record.Seen{{}, before, {Sequence: 2, Hash: "a"}, {Sequence: 3, Hash: back.Hash}} {
		if replaced, err := s.See(t.Context(), "stable", old, before); replaced || err != nil {
			t.Errorf("%v was replaced: %t, %v", old, replaced, err)
		}
	}
	if replaced, err := s.See(t.Context(), "beta", back, before); replaced || err != nil {
		t.Errorf("the end of a log that nobody has seen was replaced: %t, %v", replaced, err)
	}
	equal(t, "the end of the log", seen("stable"), back)
	equal(t, "the end of another log", seen("beta"), record.Seen{})
	for channel, s1 := range map[string]record.Seen{"a\x00": back, "\xff": back, "a": {}, "b": {Sequence: 1}, "c": {Sequence: -1, Hash: "a"}, "d": {Sequence: 1, Hash: strings.Repeat("a", 65)}, "e": {Sequence: 1, Hash: "\x00"}} {
		demand(t, errorOf(s.See(t.Context(), channel, record.Seen{}, s1)), record.ErrInvalid, channel)
	}
	equal(t, "a name that can't be stored", seen("\xff"), record.Seen{})
	manifests(t, s, back)
}

// manifests tests the newest manifest that was seen, in a log that ends at entry 2.
func manifests(t *testing.T, s record.Store, end record.Seen) {
	want := func(what string, manifest int64) {
		t.Helper()
		equal(t, what, must(s.Seen(t.Context(), "stable"))(t).Manifest, manifest)
	}
	see := func(manifest int64) {
		t.Helper()
		check(t, s.SeeManifest(t.Context(), "stable", manifest))
	}
	see(3)
	want("the manifest of an entry after the end", 0)
	raceAll(t, 16, func(i int) error { return s.SeeManifest(t.Context(), "stable", int64(1+i%2)) })
	want("the newest manifest of many", 2)
	see(1)
	want("after an older manifest", 2)
	further := record.Seen{Sequence: 5, Hash: "further", Manifest: 5}
	for _, step := range []struct {
		old, seen record.Seen
		manifest  int64
	}{{end, further, 2}, {further, end, 2}, {end, record.Seen{Sequence: 1, Hash: "back"}, 1}} {
		equal(t, "the end moves", must(s.See(t.Context(), "stable", step.old, step.seen))(t), true)
		want("then", step.manifest)
	}
	check(t, s.SeeManifest(t.Context(), "beta", 1))
	equal(t, "the manifest of a log that nobody has seen", must(s.Seen(t.Context(), "beta"))(t), record.Seen{})
	for log, entry := range map[string]int64{"a\x00": 1, "\xff": 1, "a": 0, "b": -1} {
		demand(t, s.SeeManifest(t.Context(), log, entry), record.ErrInvalid, log)
	}
}
