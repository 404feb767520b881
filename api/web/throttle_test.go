package web

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// inUse is how much memory the process can't give back, in bytes.
func inUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// guess fails once, and returns how long it would have had to wait instead.
func guess(t *testing.T, guesses *Throttle, address, email string) time.Duration {
	t.Helper()
	from := Origin{Address: address}
	wait, err := guesses.Begin(t.Context(), from, email)
	if err != nil {
		t.Fatal(err)
	}
	if wait == 0 {
		guesses.End(from, email, true)
	}
	return wait
}

func TestHostileGuesser(t *testing.T) {
	guesses := NewThrottle(time.Now)
	// E-mail addresses of a megabyte are not kept.
	before := inUse()
	for i := range 64 {
		if wait := guess(t, guesses, fmt.Sprintf("192.0.2.%d", i+100), strings.Repeat(string(rune('a'+i%26)), 1<<20)); wait != 0 {
			t.Errorf("attempt %d waits %s", i, wait)
		}
	}
	if kept := inUse() - before; kept > 16<<20 {
		t.Errorf("64 attempts keep %d bytes", kept)
	}
	// An empty one is one like any other.
	for i := range 10 {
		if wait := guess(t, guesses, "192.0.2.2", ""); wait != 0 {
			t.Errorf("attempt %d without an e-mail address waits %s", i, wait)
		}
	}
	if guess(t, guesses, "192.0.2.2", "") == 0 {
		t.Error("any number of attempts without an e-mail address")
	}
	if wait := guess(t, guesses, "192.0.2.2", "ana@example.com"); wait != 0 {
		t.Errorf("another e-mail address waits %s", wait)
	}
	// Neighbours of one IPv6 network are one, and memory has a bound.
	for i := range 10 {
		guess(t, guesses, fmt.Sprintf("2001:db8::%x", i+1), "ana@example.com")
	}
	if guess(t, guesses, "2001:db8::ffff", "ana@example.com") == 0 || guess(t, guesses, "2001:db8:0:1::1", "ana@example.com") != 0 {
		t.Error("an IPv6 network is not one guesser")
	}
	for i := range 11 * maxGuessers / 10 {
		guess(t, guesses, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), "ana@example.com")
	}
	if guesses.counts.Len() > maxGuessers {
		t.Errorf("%d guessers are remembered", guesses.counts.Len())
	}
}
