package verdict

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Verdict is a decision with its numbers.
type Verdict struct {
	Decision Decision `json:"decision"`
	Cause    Cause    `json:"cause,omitempty"`
	Sentence string   `json:"sentence"` // for people

	Limit   float64 `json:"limit"`
	Failing Share   `json:"failing"` // share of the clients that fetched it; waiting ones have not failed
	// Doubt bounds the probability that a release within the limit looks as bad as this one at any
	// time.
	Doubt float64 `json:"doubt"`

	First  bool     `json:"first"`             // there is no release to compare with
	Before *Share   `json:"before,omitempty"`  // failing with the release before
	Bar    float64  `json:"bar"`               // share of failures that is tolerated in view of the previous release, at most the limit
	Ages   []Ageing `json:"waiting,omitempty"` // by age, where both releases have clients

	Outcomes int64 `json:"outcomes"` // clients that run it or failed
	Needed   int64 `json:"needed"`   // outcomes that the next step requires
	// ToHalt is how many failures in a row would halt it; 0 if none would, or it is halted.
	ToHalt int64 `json:"to_halt,omitempty"`
	// ToSettle is how many more clients, failing at the same rate, would show on which side of the
	// limit the release is; 0 if that is known, or takes too many.
	ToSettle int64 `json:"to_settle,omitempty"`
}

// Share is an observed share with its confidence bounds. Each bound holds at all times with a
// probability of 1-Error.
type Share struct {
	Count int64   `json:"count"`
	Of    int64   `json:"of"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Error float64 `json:"error"`
}

// Ageing compares the clients still waiting at an age.
type Ageing struct {
	Hours  float64 `json:"hours"` // since the release was fetched
	Now    Share   `json:"now"`
	Before Share   `json:"before"`
	Bar    float64 `json:"bar"` // share of waiting clients above which the next step is held
	Excess bool    `json:"excess,omitempty"`
}

// Judge returns the verdict on a release with these sums. reach is the number of clients that
// the current step can reach, 0 if unknown. Errors wrap ErrInput; the verdict is then nil.
func (g *Guard) Judge(now Sums, reach int64) (*Verdict, error) {
	if err := now.Check(); err != nil {
		return nil, err
	}
	if reach < 0 || reach > MaxCount {
		return nil, fmt.Errorf("%w: a step that reaches %d clients", ErrInput, reach)
	}
	v := &Verdict{
		Decision: Continue, Limit: g.limit.p, Bar: min(g.limit.p, g.bar.p), First: g.before == nil,
		Failing: sharp.share(now.Failing, now.Handed(), LimitError), Doubt: g.doubt(&now),
		Outcomes: now.Decided(), Needed: g.Needed(&now, reach),
	}
	if g.before != nil {
		before := broad.share(g.before.Failing, g.before.Decided(), FailingError/2)
		v.Before, v.Ages = &before, g.ageing(&now)
	}
	if v.Cause = g.Halts(&now); v.Cause != CauseNone {
		v.Decision = Halt
	} else if v.Cause = g.Holds(&now, reach); v.Cause != CauseNone {
		v.Decision = Wait
	}
	if v.Decision != Halt {
		v.ToHalt, v.ToSettle = g.toHalt(&now), g.toSettle(&now)
	}
	v.Sentence = g.sentence(v, &now)
	return v, nil
}

func (m *mixture) share(s, n int64, err float64) Share {
	return Share{Count: s, Of: n, Low: m.lower(s, n, err), High: m.upper(s, n, err), Error: err}
}

func (g *Guard) doubt(now *Sums) float64 {
	if g.limit.p == 0 && now.Failing > 0 {
		return 0
	}
	most := g.limit.evidence(float64(now.Failing), float64(now.Handed()))
	for _, age := range now.Ages {
		most = max(most, g.limit.evidence(float64(age.Failing), float64(age.Reached)))
	}
	return min(1, math.Exp(-most))
}

func (g *Guard) ageing(now *Sums) []Ageing {
	var all []Ageing
	for k, mark := range MarkAges {
		b, n := g.before.Ages[k], now.Ages[k]
		if b.Reached == 0 || n.Reached == 0 {
			continue
		}
		all = append(all, Ageing{
			Hours: mark.Hours(), Now: broad.share(n.Waiting, n.Reached, pairError), Before: broad.share(b.Waiting, b.Reached, pairError),
			Bar: g.waits[k].p, Excess: g.excess(now, k, k),
		})
	}
	return all
}

// toHalt lets waiting clients fail first, then new ones.
func (g *Guard) toHalt(now *Sums) int64 {
	const most = int64(1) << 40
	if g.limit.p == 1 {
		return 0
	}
	n := least(1, most, func(k int64) bool {
		then := *now
		then.Failing += k
		then.Waiting = max(0, now.Waiting-k)
		return g.Halts(&then) != CauseNone
	})
	if n == most {
		return 0
	}
	return n
}

func (g *Guard) toSettle(now *Sums) int64 {
	const most = int64(1) << 30
	if g.limit.p == 0 || g.limit.p == 1 {
		return 0
	}
	s, n := float64(now.Failing), float64(now.Handed())
	share := s / max(1, float64(now.Decided()))
	within := sharp.claim(1-g.limit.p, LimitError) // about the clients that do not fail
	k := least(0, most, func(k int64) bool {
		s, n := s+share*float64(k), n+float64(k)
		return g.limit.evidence(s, n) >= g.limit.threshold || within.evidence(n-s, n) >= within.threshold
	})
	if k == most {
		return 0
	}
	return k
}

func (g *Guard) sentence(v *Verdict, now *Sums) string {
	if g.limit.p == 1 {
		return "The guard is off: its limit is 100 %."
	}
	if now.Handed() == 0 && v.Needed == 0 {
		return "No client is known to have fetched it: steps pass by time alone."
	}
	var b strings.Builder
	f := v.Failing
	fmt.Fprintf(&b, "%d of %s failed", f.Count, clients(f.Of))
	if f.Of > 0 {
		fmt.Fprintf(&b, " (%s; between %s and %s, each with %s certainty)", percent(float64(f.Count)/float64(f.Of)), percent(f.Low), percent(f.High), percent(1-f.Error))
	}
	fmt.Fprintf(&b, "; running: %d, waiting: %d, limit: %s.", now.Healthy, now.Waiting, percent(g.limit.p))
	switch v.Cause {
	case CauseLimit:
		fmt.Fprintf(&b, " Halt: a release within the limit would look this bad with a probability %s.", Chance(v.Doubt))
	case CauseSettled:
		age := now.Ages[g.settledBadly(now)]
		fmt.Fprintf(&b, " Halt: %d of %s that came to an outcome within %s failed.", age.Failing, clients(age.Reached-age.Waiting), hours(MarkAges[g.settledBadly(now)]))
	case CauseBefore:
		fmt.Fprintf(&b, " Halt: with the release before, %d of %s failed; more than %s is far worse.", v.Before.Count, clients(v.Before.Of), percent(v.Bar))
	case CauseEvidence:
		fmt.Fprintf(&b, " Wait: the next step requires the outcome of %s; there are %d so far.", clients(v.Needed), v.Outcomes)
	case CauseEarly:
		b.WriteString(" Wait: suspiciously many of the outcomes so far are failures, and more are awaited.")
	case CauseWaiting:
		g.waitingSentence(&b, v, now)
	case CauseNone:
		b.WriteString(" Continue.")
	}
	if v.ToHalt > 0 {
		fmt.Fprintf(&b, " %s in a row would halt it.", Plural(v.ToHalt, "more failure", "more failures"))
	}
	if v.First {
		b.WriteString(" Nothing is known of a release before it: reports and the limit alone decide.")
	}
	return b.String()
}

func (g *Guard) waitingSentence(b *strings.Builder, v *Verdict, now *Sums) {
	verb, k := "Wait", g.waitsTooMany(now)
	before := k
	if v.Decision == Halt {
		verb, k = "Halt", g.waitsTooLong(now)
		before = k - 1
	}
	n, o := now.Ages[k], g.before.Ages[before]
	fmt.Fprintf(b, " %s: %s after fetching it, %d of %s were still waiting; with the release before, %d of %s after %s.", verb,
		hours(MarkAges[k]), n.Waiting, clients(n.Reached), o.Waiting, clients(o.Reached), hours(MarkAges[before]))
}

// Chance words an upper bound of a probability for people.
func Chance(bound float64) string {
	if bound < 0.001 {
		return "below 0.1 %"
	}
	return "of at most " + percent(bound)
}

func percent(x float64) string     { return fmt.Sprintf("%.3g %%", math.Round(x*1e4)/100) }
func clients(n int64) string       { return Plural(n, "client", "clients") }
func hours(d time.Duration) string { return fmt.Sprintf("%g h", d.Hours()) }

// Plural returns a number with its noun.
func Plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n) + " " + many
}
