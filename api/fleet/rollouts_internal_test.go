package fleet

import (
	"testing"
	"time"
)

// TestGuardPause holds the guard to its share of the records' time.
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
