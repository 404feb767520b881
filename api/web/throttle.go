package web

import (
	"context"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Bounds of failed logins within guessWindow. Of guessers past maxGuessers the one that
// tried least recently is forgotten.
const (
	guessWindow   = 5 * time.Minute
	maxPerUser    = 10      // of one e-mail address from one network address
	maxPerAddress = 100     // from one network address
	maxGuessers   = 100_000 // that are remembered
	maxGuess      = 320     // bytes of an e-mail address that count: nobody has a longer one
)

// Throttle bounds failed logins. Attempts that could fail past the bound wait for
// those under way, so that parallel guesses get no more tries than sequential ones
// and good logins are not refused for being many.
type Throttle struct {
	now func() time.Time

	mu      sync.Mutex
	counts  *lru.Cache[guesser, *guesses]
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

// NewThrottle returns a throttle without any failures.
func NewThrottle(now func() time.Time) *Throttle {
	counts, _ := lru.New[guesser, *guesses](maxGuessers) // fails for sizes below 1 only
	return &Throttle{now: now, counts: counts, changed: make(chan struct{})}
}

// guessersOf returns what an attempt counts against.
func guessersOf(address, email string) [2]guesser {
	address = Network(address, 32, 64)
	email = strings.ToLower(email)
	if len(email) > maxGuess {
		email = strings.Clone(email[:maxGuess]) // or all of it would be kept
	}
	return [2]guesser{{address: address, email: email}, {address: address, any: true}}
}

// limits are the bounds for what guessersOf returns.
var limits = [2]int{maxPerUser, maxPerAddress}

// Begin starts an attempt, which End ends, or returns how long to wait before the
// next.
func (t *Throttle) Begin(ctx context.Context, address, email string) (wait time.Duration, err error) {
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
func (t *Throttle) try(who [2]guesser) (wait time.Duration, full bool, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
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
		t.of(w, now).running++
	}
	return 0, false, nil
}

// of returns the counts of a guesser, whose failures are forgotten after
// guessWindow.
func (t *Throttle) of(who guesser, now time.Time) *guesses {
	g, ok := t.counts.Get(who)
	if !ok {
		g = &guesses{}
		t.counts.Add(who, g)
	}
	if now.Sub(g.since) >= guessWindow {
		g.failed, g.since = 0, now
	}
	return g
}

// End ends an attempt.
func (t *Throttle) End(address, email string, failed bool) {
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
