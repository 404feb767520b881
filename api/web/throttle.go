package web

import (
	"context"
	"math"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Bounds of failed logins. Of guessers past maxGuessers the one that tried least recently
// is forgotten.
const (
	guessWindow   = 5 * time.Minute
	maxPerUser    = 10  // of one e-mail address from one network address within guessWindow
	maxPerAddress = 100 // from one network address, if it is known to be the client's

	// From a crowded address, which is one that has reached maxPerAddress:
	crowdWindow  = time.Minute
	maxInCrowd   = 2  // of one e-mail address within crowdWindow
	crowdedTurns = 16 // attempts at a time, so that guesses take a share of the records only

	maxGuessers = 100_000 // that are remembered, and as many in crowds
	maxGuess    = 320     // bytes of an e-mail address that count: nobody has a longer one
)

// Throttle bounds failed logins: those of one e-mail address from one network address, and those
// from one network address. A network address that many clients may share, as behind a proxy that
// is not configured, counts only together with the e-mail address. If an address that many clients
// do share, as behind a router that translates addresses, has failed too often, each e-mail address
// may fail less often from there, and only few attempts run at a time, so that nobody's wrong
// logins lock out all others. Attempts that could fail past a bound wait for those under way:
// parallel guesses get no more tries than sequential ones, and many good logins at once are not
// refused.
type Throttle struct {
	// Whole refuses all requests of an address with too many failures, for routes where no
	// e-mail address distinguishes a guesser from others.
	Whole bool

	now func() time.Time

	mu      sync.Mutex
	counts  *lru.Cache[guesser, *guesses]
	crowds  *lru.Cache[guesser, *guesses] // apart, as a crowd could have all others forgotten
	changed chan struct{}                 // closed when an attempt ends
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
	crowds, _ := lru.New[guesser, *guesses](maxGuessers)
	return &Throttle{now: now, counts: counts, crowds: crowds, changed: make(chan struct{})}
}

// Begin starts an attempt, whose end must be called once, or returns how long to wait before the
// next one.
func (t *Throttle) Begin(ctx context.Context, from Origin, email string) (end func(failed bool), wait time.Duration, err error) {
	email = strings.ToLower(email)
	if len(email) > maxGuess {
		email = strings.Clone(email[:maxGuess]) // or all of it would be kept
	}
	who := guesser{address: Network(from.Address, 32, 64), email: email}
	for {
		end, wait, changed := t.try(who, from.Shared)
		if changed == nil {
			return end, wait, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// try starts an attempt, or returns how long to wait. If the attempts under way could fail and
// reach a bound, it returns a channel instead, which is closed when one of them ends.
func (t *Throttle) try(who guesser, shared bool) (end func(failed bool), wait time.Duration, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bounds := t.bounds(who, shared)
	full := false
	for _, b := range bounds {
		if b.failed >= b.most {
			wait = max(wait, b.window-t.now().Sub(b.since))
		}
		full = full || b.failed+b.running >= b.most || b.turns > 0 && b.running >= b.turns
	}
	if wait > 0 {
		return nil, wait, nil
	}
	if full {
		return nil, 0, t.changed
	}
	for _, b := range bounds {
		b.running++
	}
	return func(failed bool) { t.end(bounds, failed) }, 0, nil
}

// bound is how many attempts may fail within a window, and run at a time.
type bound struct {
	*guesses
	most   int
	turns  int // 0: any number
	window time.Duration
}

func (t *Throttle) bounds(who guesser, shared bool) []bound {
	now := t.now()
	user := func() bound { return bound{of(t.counts, who, now, guessWindow), maxPerUser, 0, guessWindow} }
	if shared {
		return []bound{user()}
	}
	address := bound{of(t.counts, guesser{address: who.address, any: true}, now, guessWindow), maxPerAddress, 0, guessWindow}
	if t.Whole || address.failed < maxPerAddress {
		return []bound{user(), address}
	}
	address.most, address.turns = math.MaxInt, crowdedTurns
	if before, ok := t.counts.Peek(who); ok && before.failed >= maxPerUser && now.Sub(before.since) < guessWindow {
		return []bound{user(), address}
	}
	return []bound{{of(t.crowds, who, now, crowdWindow), maxInCrowd, 0, crowdWindow}, address}
}

// of returns the counts of a guesser, whose failures are forgotten after the window.
func of(counts *lru.Cache[guesser, *guesses], who guesser, now time.Time, window time.Duration) *guesses {
	g, ok := counts.Get(who)
	if !ok {
		g = &guesses{}
		counts.Add(who, g)
	}
	if now.Sub(g.since) >= window {
		g.failed, g.since = 0, now
	}
	return g
}

func (t *Throttle) end(bounds []bound, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range bounds {
		b.running--
		if !failed {
			continue
		}
		if b.failed == 0 {
			b.since = t.now()
		}
		b.failed++
	}
	close(t.changed)
	t.changed = make(chan struct{})
}
