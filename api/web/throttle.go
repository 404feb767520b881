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
	maxPerAddress = 100     // from one network address, if it is known to be the client's
	maxGuessers   = 100_000 // that are remembered
	maxGuess      = 320     // bytes of an e-mail address that count: nobody has a longer one
)

// Throttle bounds failed logins: of one e-mail address from one network address, and of
// one network address. An address that many clients may share, as behind a proxy that
// is not configured, counts with the e-mail address only, so that nobody's wrong logins
// lock all others out. Attempts that could fail past the bound wait for
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
func guessersOf(from Origin, email string) []guesser {
	address := Network(from.Address, 32, 64)
	email = strings.ToLower(email)
	if len(email) > maxGuess {
		email = strings.Clone(email[:maxGuess]) // or all of it would be kept
	}
	who := []guesser{{address: address, email: email}}
	if !from.Shared {
		who = append(who, guesser{address: address, any: true})
	}
	return who
}

// limit is how many attempts may fail.
func (g guesser) limit() int {
	if g.any {
		return maxPerAddress
	}
	return maxPerUser
}

// Begin starts an attempt, which End ends, or returns how long to wait before the
// next.
func (t *Throttle) Begin(ctx context.Context, from Origin, email string) (wait time.Duration, err error) {
	who := guessersOf(from, email)
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
func (t *Throttle) try(who []guesser) (wait time.Duration, full bool, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for _, w := range who {
		g := t.of(w, now)
		if g.failed >= w.limit() {
			wait = max(wait, guessWindow-now.Sub(g.since))
		}
		full = full || g.failed+g.running >= w.limit()
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
func (t *Throttle) End(from Origin, email string, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for _, who := range guessersOf(from, email) {
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
