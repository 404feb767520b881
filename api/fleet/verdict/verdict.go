// Package verdict decides whether a rollout may continue. It is pure: sums go in, a decision
// with its numbers comes out.
//
// The decision is a sequential test. Under the hypothesis that at most a share p
// of the clients fails, the likelihood ratio against any larger share is a
// non-negative supermartingale, and so is a fixed mixture of such ratios. By
// Ville's inequality it exceeds 1/α at any time with a probability of at most α,
// so looking after each client costs nothing. README.md derives the formulas.
//
// Sources: J. Ville, Étude critique de la notion de collectif (1939); A. Wald,
// Sequential Tests of Statistical Hypotheses (1945); D. A. Darling and H. Robbins,
// Confidence Sequences for Mean, Variance, and Median (1967); H. Robbins,
// Statistical Methods Related to the Law of the Iterated Logarithm (1970);
// S. R. Howard, A. Ramdas, J. McAuliffe, J. Sekhon, Time-uniform, Nonparametric,
// Nonasymptotic Confidence Sequences, Annals of Statistics 49 (2021);
// I. Waudby-Smith and A. Ramdas, Estimating Means of Bounded Random Variables by
// Betting, JRSS B 86 (2024).
package verdict

import (
	"errors"
	"fmt"
	"math"
)

// Bounds on the probability of halting without cause, however often one looks.
const (
	LimitError     = 0.05 // a release that fails for no more than the limit
	FailingError   = 0.01 // one that fails for no more than the bar set by the release before
	SettledError   = 0.01 // the same, of the clients that come to an outcome within 81 h
	WaitingError   = 0.01 // one whose clients wait no more than the release before allows
	earlyError     = 0.2  // with which outcomes so far hold a step while others are awaited
	nearlyAll      = 0.25 // share of clients that may still wait at an age by which nearly all are done
	settles        = 4    // mark after which nothing more is expected of a client that waits
	pairError      = WaitingError / (2 * (Marks - 1))
	farMore        = 3    // how many times worse than before counts as far worse
	leastExcess    = 0.05 // share of clients that must wait in excess to count at all
	handedShare    = 0.8  // share of the clients that fetched it whose outcome the next step requires
	reachShare     = 0.5  // the same of the clients that the step reaches
	enoughMultiple = 1.5  // or as many outcomes as should reveal this multiple of the limit
)

// ErrInput is returned for impossible sums and limits.
var ErrInput = errors.New("invalid input to the guard")

// Decision is the decision about a rollout.
type Decision string

const (
	Continue Decision = "continue" // the next step may be taken when it is due
	Wait     Decision = "wait"     // no cause to halt, but the next step lacks evidence
	Halt     Decision = "halt"
)

// Cause says which comparison led to a decision.
type Cause string

const (
	CauseNone     Cause = ""
	CauseLimit    Cause = "limit"    // more failures than the limit allows
	CauseSettled  Cause = "settled"  // the same, not counting clients that came to nothing within 81 h
	CauseBefore   Cause = "before"   // far more failures than with the release before
	CauseWaiting  Cause = "waiting"  // far more clients wait, or for far longer, than with the release before
	CauseEvidence Cause = "evidence" // too few outcomes yet
	CauseEarly    Cause = "early"    // suspiciously many of the outcomes so far are failures, and more are awaited
)

// Guard judges one release. It is immutable.
type Guard struct {
	limit   claim
	early   claim        // the same, refuted sooner
	settled claim        // the same about clients that came to an outcome within 81 h
	bar     claim        // set by the release before; nothing beyond the limit if that is lower
	before  *Sums        // nil for the first release
	waits   [Marks]claim // about clients still waiting, by age with the release before; p is 1 where nothing is known
	done    [Marks]bool  // ages by which nearly all clients came to an outcome with the release before
	enough  int64        // outcomes after which a release that fails for half as much again as the limit should be halted
	comes   float64      // share of clients that came to an outcome with the release before
}

// New returns the guard of a release. The limit is the tolerated share of failing clients: 0
// halts at the first failure, 1 never halts. before are the outcomes of the last release that
// reached everybody on the channel, nil if there was none.
func New(limit float64, before *Sums) (*Guard, error) {
	if !(limit >= 0 && limit <= 1) {
		return nil, fmt.Errorf("%w: limit %v is not a share from 0 to 1", ErrInput, limit)
	}
	g := &Guard{limit: sharp.claim(limit, LimitError), early: sharp.claim(limit, earlyError), settled: sharp.claim(limit, SettledError/(Marks-settles)), bar: broad.claim(1, FailingError/2), comes: 1}
	g.enough = g.enoughFor(limit)
	for k := range g.waits {
		g.waits[k] = broad.claim(1, pairError)
	}
	if before == nil || *before == (Sums{}) {
		return g, nil
	}
	if err := before.Check(); err != nil {
		return nil, fmt.Errorf("release before: %w", err)
	}
	copied := *before
	g.before = &copied
	if bar := max(limit/2, farMore*broad.upper(before.Failing, before.Decided(), FailingError/2)); bar < limit {
		g.bar = broad.claim(bar, FailingError/2)
	}
	for k, age := range before.Ages {
		if age.Reached == 0 {
			continue
		}
		g.comes = 1 - float64(age.Waiting)/float64(age.Reached)
		u := broad.upper(age.Waiting, age.Reached, pairError)
		g.done[k] = u <= nearlyAll
		g.waits[k] = broad.claim(min(1, max(farMore*u/(1+(farMore-1)*u), u+max(leastExcess, limit))), pairError)
	}
	return g, nil
}

// enoughFor is exact where the share of failures is; one rollout may take more.
func (g *Guard) enoughFor(limit float64) int64 {
	worse := enoughMultiple * limit
	if limit == 0 || worse >= 1 {
		return MaxCount // the shares of clients decide
	}
	return least(1, MaxCount, func(n int64) bool { return g.limit.evidence(worse*float64(n), float64(n)) >= g.limit.threshold })
}

// Halts returns why a release that came to these sums is to be halted, or
// CauseNone. The sums must be valid.
func (g *Guard) Halts(now *Sums) Cause {
	switch {
	case g.limit.p == 1:
		return CauseNone
	case g.limit.p == 0 && now.Failing > 0, refuted(&g.limit, now):
		return CauseLimit
	case g.settledBadly(now) > 0:
		return CauseSettled
	case refuted(&g.bar, now):
		return CauseBefore
	case g.waitsTooLong(now) > 0:
		return CauseWaiting
	}
	return CauseNone
}

// Holds returns why the next step has to wait although the release is not halted,
// or CauseNone. reach is how many clients the current step can reach, 0 if that is
// unknown.
func (g *Guard) Holds(now *Sums, reach int64) Cause {
	switch {
	case g.limit.p == 1:
		return CauseNone
	case now.Decided() < g.Needed(now, reach):
		return CauseEvidence
	case now.Waiting > now.Ages[settles].Waiting && g.early.refuted(now.Failing, now.Decided()):
		return CauseEarly
	case g.waitsTooMany(now) >= 0:
		return CauseWaiting
	}
	return CauseNone
}

// Needed returns how many outcomes the next step requires: those of half of the clients
// that the current step reaches, and of four in five clients that fetched the release.
// Clients that have waited for 81 h are left out of the four in five. Both numbers are
// lowered by the share of clients without an outcome in the release before. Needed never
// exceeds the outcomes that reveal one and a half times the limit.
func (g *Guard) Needed(now *Sums, reach int64) int64 {
	share := max(handedShare*float64(now.Handed()-now.Ages[settles].Waiting), reachShare*float64(max(reach, now.Handed())))
	return min(g.enough, int64(math.Ceil(g.comes*share)))
}

// refuted tests a claim about failures. It counts clients in the order in which they fetched
// the release, and waiting clients as not failed, so that failures which are known sooner than
// successes do not mislead. The clients of each age are a prefix of this order in which few
// still wait. A martingale may be read at any point, so each prefix is tested as well.
func refuted(c *claim, now *Sums) bool {
	for _, age := range now.Ages {
		if c.refuted(age.Failing, age.Reached) {
			return true
		}
	}
	return c.refuted(now.Failing, now.Handed())
}

// settledBadly tests the claim about the clients that came to an outcome within 81
// or 243 h, when failures are no longer known sooner than successes. Clients that
// are away for long can't dilute it. It returns the mark, 0 if there is none.
func (g *Guard) settledBadly(now *Sums) int {
	for k := settles; k < Marks; k++ {
		if age := now.Ages[k]; g.settled.refuted(age.Failing, age.Reached-age.Waiting) {
			return k
		}
	}
	return 0
}

// waitsTooLong compares the share of clients still waiting at an age with the
// share that still waited at a third of it with the release before, and only where
// nearly all were done by then: what a night or a weekend explains condemns nobody.
// It returns the oldest mark with an excess, 0 if there is none.
func (g *Guard) waitsTooLong(now *Sums) int {
	for k := Marks - 1; k > 0; k-- {
		if g.done[k-1] && g.excess(now, k, k-1) {
			return k
		}
	}
	return 0
}

// waitsTooMany compares at equal ages, which is stricter. It returns the oldest
// mark with an excess, -1 if there is none.
func (g *Guard) waitsTooMany(now *Sums) int {
	for k := Marks - 1; k >= 0; k-- {
		if g.excess(now, k, k) {
			return k
		}
	}
	return -1
}

// excess reports whether far more clients were waiting at a mark than with the
// release before at another, and still are.
func (g *Guard) excess(now *Sums, mark, before int) bool {
	c := &g.waits[before]
	return c.refuted(now.Ages[mark].Waiting, now.Ages[mark].Reached) && c.refuted(now.Waiting, now.Handed())
}

// least returns the smallest n in [low, high] that holds, high if none does. holds
// must be monotone.
func least(low, high int64, holds func(n int64) bool) int64 {
	step := int64(1)
	for high-low > step && !holds(low+step) { // answers are mostly small
		low += step
		step *= 2
	}
	high = min(high, low+step)
	for low < high {
		if middle := low + (high-low)/2; holds(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}
