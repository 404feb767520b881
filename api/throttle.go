package api

import (
	"context"
	"strings"
	"sync"
	"time"
)

// Bounds of failed logins within guessWindow.
const (
	guessWindow   = 5 * time.Minute
	maxPerUser    = 10      // of one e-mail address from one network address
	maxPerAddress = 100     // from one network address
	maxGuessers   = 100_000 // that are remembered
	maxGuess      = 320     // bytes of an e-mail address that count: nobody has a longer one
)

// throttle counts failed logins. Attempts that could fail past the bound wait
// for those that are under way, so that many at once are not more than many in
// turn, and good ones are not refused for being many.
type throttle struct {
	now func() time.Time

	mu      sync.Mutex
	counts  map[guesser]*guesses
	changed chan struct{} // closed when an attempt ends
}

// guesser is a network address with an e-mail address, or with any.
type guesser struct {
	address, email string
	any            bool
}

type guesses struct {
	since   time.Time // of the first that failed
	failed  int
	running int
}

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, counts: map[guesser]*guesses{}, changed: make(chan struct{})}
}

// guessersOf returns what an attempt counts for.
func guessersOf(address, email string) [2]guesser {
	address = networkOf(address, 64)
	email = strings.ToLower(email)
	if len(email) > maxGuess {
		email = strings.Clone(email[:maxGuess]) // or all of it would be kept
	}
	return [2]guesser{{address: address, email: email}, {address: address, any: true}}
}

// limits are the bounds for what guessersOf returns.
var limits = [2]int{maxPerUser, maxPerAddress}

// begin starts an attempt, which end ends, or returns how long to wait before
// the next.
func (t *throttle) begin(ctx context.Context, address, email string) (wait time.Duration, err error) {
	who := guessersOf(address, email)
	for {
		wait, full, changed := t.try(who)
		if !full {
			return wait, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// try starts an attempt unless there is a wait, or it is full: attempts under
// way could fail and reach the bound. changed is closed when one of them ends.
func (t *throttle) try(who [2]guesser) (wait time.Duration, full bool, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	t.makeRoom(now)
	for i, limit := range limits {
		g := t.of(who[i], now)
		if g.failed >= limit {
			wait = max(wait, guessWindow-now.Sub(g.since))
		}
		full = full || g.failed+g.running >= limit
	}
	if wait > 0 || full {
		return wait, wait == 0, t.changed
	}
	for _, w := range who {
		t.counts[w].running++
	}
	return 0, false, nil
}

// of returns the counts of a guesser, whose failures are forgotten after
// guessWindow.
func (t *throttle) of(who guesser, now time.Time) *guesses {
	g := t.counts[who]
	if g == nil {
		g = &guesses{}
		t.counts[who] = g
	}
	if now.Sub(g.since) >= guessWindow {
		g.failed, g.since = 0, now
	}
	return g
}

// end ends an attempt.
func (t *throttle) end(address, email string, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for _, who := range guessersOf(address, email) {
		g := t.of(who, now)
		g.running = max(g.running-1, 0)
		if !failed {
			continue
		}
		if g.failed == 0 {
			g.since = now
		}
		g.failed++
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// makeRoom forgets what no longer counts, and if that is not enough all.
func (t *throttle) makeRoom(now time.Time) {
	if len(t.counts) < maxGuessers {
		return
	}
	for who, g := range t.counts {
		if g.running == 0 && (g.failed == 0 || now.Sub(g.since) >= guessWindow) {
			delete(t.counts, who)
		}
	}
	if len(t.counts) >= maxGuessers {
		clear(t.counts)
	}
}
