package recordtest

import (
	"testing"

	"tsmon/store/record"
)

func writes(t *testing.T, s record.Store) {
	counts := func() map[string]int64 {
		t.Helper()
		return must(s.Writes(t.Context()))(t)
	}
	equal(t, "counts of an empty store", counts(), map[string]int64{})
	raceAll(t, 16, func(i int) error {
		return s.Wrote(t.Context(), []string{"ts_a", "señales' \"x\""}[i%2])
	})
	check(t, s.Wrote(t.Context(), "TS_A"))
	equal(t, "counts", counts(), map[string]int64{"ts_a": 8, "señales' \"x\"": 8, "TS_A": 1})
	for _, name := range []string{"", "a\x00", "\xff"} {
		demand(t, s.Wrote(t.Context(), name), record.ErrInvalid, name)
	}
}
