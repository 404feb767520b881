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
		found, err := s.Seen(t.Context(), channel)
		check(t, err)
		return found
	}
	equal(t, "what nobody has seen", seen("stable"), record.Seen{})
	// Of many that see it first, and of many that see it go on, one is recorded.
	before := record.Seen{}
	for _, sequence := range []int64{1, 7} {
		won := make([]bool, 16)
		for _, err := range race(len(won), func(i int) (err error) {
			won[i], err = s.See(t.Context(), "stable", before, record.Seen{Sequence: sequence, Hash: fmt.Sprint("by ", i)})
			return err
		}) {
			check(t, err)
		}
		winners := 0
		for i := range won {
			if won[i] {
				before, winners = record.Seen{Sequence: sequence, Hash: fmt.Sprint("by ", i)}, winners+1
			}
		}
		equal(t, "winners", winners, 1)
		equal(t, "the end of the log", seen("stable"), before)
	}
	// It may go back; another channel has its own.
	back := record.Seen{Sequence: 2, Hash: strings.Repeat("a", 64)}
	replaced, err := s.See(t.Context(), "stable", before, back)
	check(t, err)
	equal(t, "it goes back", replaced, true)
	for _, old := range []record.Seen{{}, before, {Sequence: 2, Hash: "a"}, {Sequence: 3, Hash: back.Hash}} {
		if replaced, err := s.See(t.Context(), "stable", old, before); replaced || err != nil {
			t.Errorf("%v was replaced: %t, %v", old, replaced, err)
		}
	}
	if replaced, err := s.See(t.Context(), "beta", back, before); replaced || err != nil {
		t.Errorf("what nobody has seen was replaced: %t, %v", replaced, err)
	}
	equal(t, "the end of the log", seen("stable"), back)
	equal(t, "that of another", seen("beta"), record.Seen{})
	for channel, s1 := range map[string]record.Seen{"a\x00": back, "\xff": back, "a": {}, "b": {Sequence: 1}, "c": {Sequence: -1, Hash: "a"}, "d": {Sequence: 1, Hash: strings.Repeat("a", 65)}, "e": {Sequence: 1, Hash: "\x00"}} {
		_, err := s.See(t.Context(), channel, record.Seen{}, s1)
		demand(t, err, record.ErrInvalid, channel)
	}
	equal(t, "of a name that can't be stored", seen("\xff"), record.Seen{})
}
