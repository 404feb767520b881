package fleet

import (
	"errors"
	"math"
	"testing"

	"tsmon/api/fleet/verdict"
)

func TestGuardCheck(t *testing.T) {
	for _, g := range []Guard{{2, 3}, {0, 1}, {100, maxNetworks}} {
		if err := g.Check(); err != nil {
			t.Errorf("%+v: %v", g, err)
		}
	}
	for name, g := range map[string]Guard{
		"below zero": {-1, 3}, "above all": {100.1, 3}, "no number": {math.NaN(), 3}, "no networks": {2, 0}, "too many networks": {2, maxNetworks + 1},
	} {
		if err := g.Check(); !errors.Is(err, ErrGuard) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDecide: failures in few networks don't halt a rollout, but hold the next step. Clients that
// can't be recorded hold it too.
func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		verdict verdict.Decision
		cause   verdict.Cause
		spread  Spread
		full    bool
		want    verdict.Decision
		why     bool
	}{
		"all is well":             {verdict.Continue, verdict.CauseNone, Spread{Networks: 9}, false, verdict.Continue, false},
		"full":                    {verdict.Continue, verdict.CauseNone, Spread{Networks: 9}, true, verdict.Wait, true},
		"waiting":                 {verdict.Wait, verdict.CauseEvidence, Spread{Networks: 9}, true, verdict.Wait, true},
		"failing in three":        {verdict.Halt, verdict.CauseLimit, Spread{Networks: 9, Failing: 3}, true, verdict.Halt, true},
		"failing in two":          {verdict.Halt, verdict.CauseLimit, Spread{Networks: 9, Failing: 2}, false, verdict.Wait, true},
		"never starting in three": {verdict.Halt, verdict.CauseWaiting, Spread{Networks: 3}, false, verdict.Halt, true},
		"never starting in two":   {verdict.Halt, verdict.CauseWaiting, Spread{Networks: 2}, false, verdict.Wait, true},
	} {
		o := Opinion{Verdict: &verdict.Verdict{Decision: c.verdict, Cause: c.cause, Sentence: "So it is."}, Networks: c.spread, Required: 3}
		o.decide(c.full)
		if o.Decision != c.want || (o.Why != "") != c.why {
			t.Errorf("%s: %s, %q", name, o.Decision, o.Why)
		}
	}
}
