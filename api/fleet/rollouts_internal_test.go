package fleet

import (
	"testing"
	"time"
)

// TestLookDue: a guard looks if something was recorded since it last judged, and otherwise once
// a minute, because other servers may have recorded something.
func TestLookDue(t *testing.T) {
	at := time.Date(2026, 3, 5, 15, 0, 0, 0, time.UTC)
	last := look{recorded: 7, at: at}
	for name, c := range map[string]struct {
		recorded uint64
		at       time.Time
		want     bool
	}{
		"nothing new":           {7, at.Add(guardInterval), false},
		"something new":         {8, at.Add(guardInterval), true},
		"a minute":              {7, at.Add(guardIdle), true},
		"the clock was set":     {7, at.Add(-time.Second), true},
		"just below a minute":   {7, at.Add(guardIdle - 1), false},
		"new just after a look": {8, at, true},
	} {
		if got := last.due(c.recorded, c.at); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !(look{}).due(0, at) {
		t.Error("the first look is not due")
	}
}

// TestGuardPause: the guard uses no more than its share of the records' time.
func TestGuardPause(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0:                      guardInterval,
		80 * time.Millisecond:  guardInterval,
		time.Second:            50 * time.Second,
		250 * time.Millisecond: 12500 * time.Millisecond,
	} {
		if got := guardPause(took); got != want {
			t.Errorf("after %s: %s, want %s", took, got, want)
		}
	}
}
