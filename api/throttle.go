package api

import (
	"net/netip"
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

// throttle counts failed logins. An attempt counts from when it begins until it
// has succeeded, so that many at once are not more than many in turn.
type throttle struct {
	now func() time.Time

	mu     sync.Mutex
	counts map[guesser]*guesses
}

// guesser is a network address with an e-mail address, or with any.
type guesser struct {
	address, email string
	any            bool
}

type guesses struct {
	since time.Time
	n     int
}

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, counts: map[guesser]*guesses{}}
}

// guessersOf returns what an attempt counts for. A network of IPv6 addresses is
// one, since a machine has as many of them as it likes.
func guessersOf(address, email string) [2]guesser {
	if a, err := netip.ParseAddr(address); err == nil && a.Is6() && !a.Is4In6() {
		if network, err := a.Prefix(64); err == nil {
			address = network.String()
		}
	}
	email = strings.ToLower(email)
	if len(email) > maxGuess {
		email = strings.Clone(email[:maxGuess]) // or all of it would be kept
	}
	return [2]guesser{{address: address, email: email}, {address: address, any: true}}
}

// begin counts an attempt, or returns how long to wait before the next.
func (t *throttle) begin(address, email string) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	t.makeRoom(now)
	all := guessersOf(address, email)
	for i, limit := range []int{maxPerUser, maxPerAddress} {
		if g := t.counts[all[i]]; g != nil && g.n >= limit && now.Sub(g.since) < guessWindow {
			wait = max(wait, guessWindow-now.Sub(g.since))
		}
	}
	if wait > 0 {
		return wait
	}
	for _, who := range all {
		g := t.counts[who]
		if g == nil || now.Sub(g.since) >= guessWindow {
			g = &guesses{since: now}
			t.counts[who] = g
		}
		g.n++
	}
	return 0
}

// succeeded takes an attempt back.
func (t *throttle) succeeded(address, email string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, who := range guessersOf(address, email) {
		if g := t.counts[who]; g != nil && g.n > 0 {
			g.n--
		}
	}
}

// makeRoom forgets what no longer counts, and if that is not enough all.
func (t *throttle) makeRoom(now time.Time) {
	if len(t.counts) < maxGuessers {
		return
	}
	for who, g := range t.counts {
		if now.Sub(g.since) >= guessWindow {
			delete(t.counts, who)
		}
	}
	if len(t.counts) >= maxGuessers {
		clear(t.counts)
	}
}
