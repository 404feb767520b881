package web

import (
	"context"
	"errors"
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
	end, wait, err := guesses.Begin(t.Context(), from, email)
	if err != nil {
		t.Fatal(err)
	}
	if wait == 0 {
		end(true)
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

// TestCrowdedAddress: from an address that failed too often each e-mail address has as many
// tries as elsewhere, at most, what is remembered has a bound, and few attempts run at a
// time.
func TestCrowdedAddress(t *testing.T) {
	now := time.Now()
	guesses := NewThrottle(func() time.Time { return now })
	for i := range maxPerAddress {
		guess(t, guesses, "192.0.2.1", fmt.Sprint(i))
	}
	tried := 0
	for range int(guessWindow / crowdWindow) {
		for range 50 {
			if guess(t, guesses, "192.0.2.1", "ana@example.com") == 0 {
				tried++
			}
		}
		for i := range 2 * maxPerAddress { // which keep the address crowded
			guess(t, guesses, "192.0.2.1", fmt.Sprint(i))
		}
		now = now.Add(crowdWindow)
	}
	if tried == 0 || tried > maxPerUser {
		t.Errorf("%d guesses of one e-mail address in %s, want 1 to %d", tried, guessWindow, maxPerUser)
	}
	guess(t, guesses, "192.0.2.9", "eva@example.com")
	for i := range maxPerAddress + 11*maxGuessers/10 {
		guess(t, guesses, "192.0.2.1", fmt.Sprint("user ", i))
	}
	if n := guesses.crowds.Len(); n > maxGuessers {
		t.Errorf("%d guessers are remembered", n)
	}
	if !guesses.counts.Contains(guesser{address: Network("192.0.2.9", 32, 64), email: "eva@example.com"}) {
		t.Error("a crowd had another address forgotten")
	}
	var ends []func(bool)
	begin := func(ctx context.Context, i int) error {
		end, wait, err := guesses.Begin(ctx, Origin{Address: "192.0.2.1"}, fmt.Sprint("running ", i))
		if err == nil && wait == 0 {
			ends = append(ends, end)
		}
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	for i := range crowdedTurns {
		if err := begin(ctx, i); err != nil {
			t.Fatal(err)
		}
	}
	if len(ends) != crowdedTurns {
		t.Fatalf("%d of %d attempts run", len(ends), crowdedTurns)
	}
	cancel()
	if err := begin(ctx, crowdedTurns); !errors.Is(err, context.Canceled) {
		t.Errorf("one more: %v", err)
	}
	ends[0](false)
	if err := begin(t.Context(), crowdedTurns); err != nil {
		t.Error(err)
	}
}

// TestWhole: where all guess the same secret an address that failed too often is refused.
func TestWhole(t *testing.T) {
	guesses := NewThrottle(time.Now)
	guesses.Whole = true
	for i := range maxPerAddress {
		if wait := guess(t, guesses, "192.0.2.1", fmt.Sprint(i)); wait != 0 {
			t.Errorf("guess %d waits %s", i, wait)
		}
	}
	if guess(t, guesses, "192.0.2.1", "another") == 0 || guess(t, guesses, "192.0.2.2", "another") != 0 {
		t.Error("not that address alone is refused")
	}
}
