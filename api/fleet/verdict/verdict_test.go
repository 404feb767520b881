package verdict_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"tsmon/api/fleet/verdict"
)

func judge(t *testing.T, limit float64, before *verdict.Sums, now verdict.Sums, reach int64) *verdict.Verdict {
	t.Helper()
	g, err := verdict.New(limit, before)
	if err != nil {
		t.Fatal(err)
	}
	v, err := g.Judge(now, reach)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// curve returns sums of which so many in a hundred still waited at each mark, all
// of them having passed the first n marks.
func curve(clients, failing int64, marks int, waiting ...int64) verdict.Sums {
	s := verdict.Sums{Failing: failing, Waiting: clients * waiting[len(waiting)-1] / 100}
	s.Healthy = clients - s.Failing - s.Waiting
	for k := range marks {
		w := clients * waiting[k] / 100
		s.Ages[k] = verdict.Age{Reached: clients, Waiting: w, Failing: min(failing, clients-w)}
	}
	return s
}

func TestDecisions(t *testing.T) {
	prompt := curve(1200, 12, 6, 30, 2, 1, 1, 0, 0)
	late := curve(1200, 12, 6, 96, 88, 63, 5, 2, 1)
	clean := curve(100_000, 100, 6, 30, 2, 1, 1, 0, 0)
	for name, c := range map[string]struct {
		limit    float64
		before   *verdict.Sums
		now      verdict.Sums
		reach    int64
		decision verdict.Decision
		cause    verdict.Cause
		says     string
	}{
		"nothing known, nobody to ask":   {0.02, nil, verdict.Sums{}, 0, verdict.Continue, verdict.CauseNone, "by time alone"},
		"nothing known yet":              {0.02, nil, verdict.Sums{}, 60, verdict.Wait, verdict.CauseEvidence, "the outcome of 30 clients; there are 0 so far"},
		"a first release":                {0.02, nil, verdict.Sums{Healthy: 60}, 60, verdict.Continue, verdict.CauseNone, "Nothing is known of a release before it"},
		"the second has something":       {0.02, &prompt, verdict.Sums{Healthy: 60}, 60, verdict.Continue, verdict.CauseNone, "Continue"},
		"few outcomes":                   {0.02, nil, verdict.Sums{Healthy: 40, Waiting: 20}, 60, verdict.Wait, verdict.CauseEvidence, "48 clients; there are 40"},
		"one failure":                    {0.02, nil, verdict.Sums{Failing: 1}, 1, verdict.Continue, verdict.CauseNone, "1 of 1 client failed"},
		"twice as many as the limit":     {0.02, nil, verdict.Sums{Healthy: 960, Failing: 40}, 1000, verdict.Halt, verdict.CauseLimit, "Halt"},
		"a little more":                  {0.02, nil, verdict.Sums{Healthy: 985, Failing: 36}, 1000, verdict.Halt, verdict.CauseLimit, "with a probability of at most 1.02 %."},
		"as many as the limit":           {0.02, nil, verdict.Sums{Healthy: 980, Failing: 20}, 1000, verdict.Continue, verdict.CauseNone, "Continue"},
		"half of the first twenty":       {0.02, nil, verdict.Sums{Healthy: 10, Failing: 10}, 60, verdict.Halt, verdict.CauseLimit, "Halt"},
		"failures known before the rest": {0.02, nil, verdict.Sums{Failing: 20, Waiting: 980}, 1000, verdict.Wait, verdict.CauseEvidence, "Wait"},
		"suspicious outcomes":            {0.02, nil, verdict.Sums{Healthy: 46, Failing: 4, Waiting: 10}, 60, verdict.Wait, verdict.CauseEarly, "suspiciously"},
		"limit 0, no failure":            {0, nil, verdict.Sums{Healthy: 60}, 60, verdict.Continue, verdict.CauseNone, "Continue"},
		"limit 0, a failure":             {0, nil, verdict.Sums{Healthy: 1000, Failing: 1}, 60, verdict.Halt, verdict.CauseLimit, "with a probability below 0.1 %."},
		"limit 100 %":                    {1, &late, verdict.Sums{Failing: 1000}, 1000, verdict.Continue, verdict.CauseNone, "off"},
		"clients that wait as before":    {0.02, &late, curve(300, 3, 3, 96, 88, 63), 300, verdict.Wait, verdict.CauseEvidence, "Wait"},
		"installed as late as before":    {0.02, &late, curve(300, 3, 4, 95, 90, 65, 6), 300, verdict.Continue, verdict.CauseNone, "Continue"},
		"never starts, prompt":           {0.02, &prompt, curve(60, 0, 3, 100, 100, 100), 60, verdict.Halt, verdict.CauseWaiting, "9 h after fetching it, 60 of 60 clients were still waiting; with the release before, 24 of 1200 clients after 3 h"},
		"never starts, late, too soon":   {0.02, &late, curve(60, 0, 4, 100, 100, 100, 100), 60, verdict.Wait, verdict.CauseEvidence, "Wait"},
		"never starts, late":             {0.02, &late, curve(60, 0, 5, 100, 100, 100, 100, 100), 60, verdict.Halt, verdict.CauseWaiting, "81 h"},
		"a weekend, late":                {0.02, &late, curve(60, 0, 4, 100, 100, 98, 95), 60, verdict.Wait, verdict.CauseEvidence, "Wait"},
		"after the weekend, late":        {0.02, &late, curve(60, 0, 5, 100, 100, 98, 95, 5), 60, verdict.Continue, verdict.CauseNone, "Continue"},
		"never starts, nothing before":   {0.02, nil, curve(60, 0, 6, 100, 100, 100, 100, 100, 100), 60, verdict.Wait, verdict.CauseEvidence, "Nothing is known of a release before it"},
		"a third does not start":         {0.02, &prompt, curve(300, 3, 3, 60, 35, 35), 300, verdict.Halt, verdict.CauseWaiting, "Halt"},
		"a few more wait":                {0.02, &prompt, curve(1200, 12, 4, 35, 5, 4, 3), 1200, verdict.Continue, verdict.CauseNone, "Continue"},
		"far more wait":                  {0.02, &prompt, curve(1000, 10, 2, 85, 20), 1000, verdict.Wait, verdict.CauseWaiting, "3 h after fetching it, 200 of 1000"},
		"far more waited":                {0.02, &prompt, curve(1000, 10, 2, 85, 1), 1000, verdict.Continue, verdict.CauseNone, "Continue"},
		"far worse than before":          {0.02, &clean, verdict.Sums{Healthy: 49_100, Failing: 900}, 50_000, verdict.Halt, verdict.CauseBefore, "with the release before, 100 of 100000"},
		"worse, but half of the limit":   {0.02, &clean, verdict.Sums{Healthy: 49_500, Failing: 500}, 50_000, verdict.Continue, verdict.CauseNone, "Continue"},
		"clients that went away":         {0.02, nil, curve(400, 20, 5, 90, 60, 60, 60, 60), 400, verdict.Halt, verdict.CauseLimit, "Halt"},
		"that would dilute it":           {0.02, nil, curve(1000, 18, 5, 70, 70, 70, 70, 70), 1000, verdict.Halt, verdict.CauseSettled, "18 of 300 clients that came to an outcome within 81 h failed"},
	} {
		v := judge(t, c.limit, c.before, c.now, c.reach)
		if v.Decision != c.decision || v.Cause != c.cause || !strings.Contains(v.Sentence, c.says) {
			t.Errorf("%s: %s, %q: %s", name, v.Decision, v.Cause, v.Sentence)
		}
		if v.First != (c.before == nil) {
			t.Errorf("%s: first %v", name, v.First)
		}
	}
}

// TestNumbers: what a verdict says of itself holds.
func TestNumbers(t *testing.T) {
	now := verdict.Sums{Healthy: 200, Failing: 8, Waiting: 2}
	v := judge(t, 0.02, nil, now, 300)
	if v.Decision == verdict.Halt || v.ToHalt < 2 || v.ToSettle == 0 || v.Outcomes != 208 || v.Doubt >= 1 || v.Doubt <= verdict.LimitError || v.Failing.Low > 0.02 || v.Failing.High < 0.03 {
		t.Fatalf("%+v", v)
	}
	worse := now
	worse.Failing, worse.Waiting = now.Failing+v.ToHalt-1, max(0, now.Waiting-v.ToHalt+1)
	if got := judge(t, 0.02, nil, worse, 300); got.Decision == verdict.Halt {
		t.Errorf("halted after %d more failures, not %d", v.ToHalt-1, v.ToHalt)
	}
	worse.Failing, worse.Waiting = now.Failing+v.ToHalt, max(0, now.Waiting-v.ToHalt)
	if got := judge(t, 0.02, nil, worse, 300); got.Decision != verdict.Halt || got.ToHalt != 0 || got.Doubt > verdict.LimitError {
		t.Errorf("not halted after %d more failures: %s", v.ToHalt, got.Sentence)
	}
	settled := judge(t, 0.02, nil, verdict.Sums{Healthy: 3000, Failing: 10}, 300)
	if settled.ToSettle != 0 || settled.Failing.High > 0.02 {
		t.Errorf("%+v", settled)
	}
}

var severity = map[verdict.Decision]int{verdict.Continue: 0, verdict.Wait: 1, verdict.Halt: 2}

// TestNeverMilder: a client that fails instead of running the release, and one
// more that fails where the rollout is halted, never make the verdict milder.
func TestNeverMilder(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	before := curve(1200, 12, 6, 96, 88, 63, 5, 2, 1)
	guards := []*verdict.Guard{}
	for _, limit := range []float64{0, 0.001, 0.02, 0.3, 1} {
		for _, b := range []*verdict.Sums{nil, &before} {
			g, err := verdict.New(limit, b)
			if err != nil {
				t.Fatal(err)
			}
			guards = append(guards, g)
		}
	}
	for range 400 {
		now := verdict.Sums{Healthy: 1 + r.Int64N(500), Failing: r.Int64N(20), Waiting: r.Int64N(100)}
		reached := r.Int64N(now.Healthy)
		now.Ages[0] = verdict.Age{Reached: reached, Waiting: r.Int64N(reached + 1)}
		failed, added := now, now
		failed.Healthy, failed.Failing = now.Healthy-1, now.Failing+1
		added.Failing++
		for _, g := range guards {
			v, err := g.Judge(now, 600)
			worse, err2 := g.Judge(failed, 600)
			more, err3 := g.Judge(added, 600)
			if err != nil || err2 != nil || err3 != nil {
				t.Fatal(err, err2, err3)
			}
			if severity[worse.Decision] < severity[v.Decision] || v.Decision == verdict.Halt && more.Decision != verdict.Halt {
				t.Fatalf("%+v: %s\none fails: %s\none more fails: %s", now, v.Sentence, worse.Sentence, more.Sentence)
			}
		}
	}
}

// FuzzJudge: any sums are either refused or judged, with numbers that JSON can hold
// and a sentence.
func FuzzJudge(f *testing.F) {
	before, _ := json.Marshal(curve(1200, 12, 6, 96, 88, 63, 5, 2, 1))
	now, _ := json.Marshal(curve(60, 3, 3, 100, 90, 80))
	f.Add(0.02, before, now, int64(60))
	f.Add(0.0, []byte(`{}`), []byte(`{"failing": 1125899906842624, "healthy": 1125899906842624}`), int64(0))
	f.Add(1e-300, []byte(`{"waiting": 5, "ages": [{"reached": 5, "waiting": 5}]}`), []byte(`{"waiting": -1}`), int64(1)<<60)
	f.Fuzz(func(t *testing.T, limit float64, before, now []byte, reach int64) {
		var b, n verdict.Sums
		if json.Unmarshal(before, &b) != nil || json.Unmarshal(now, &n) != nil {
			return
		}
		g, err := verdict.New(limit, &b)
		if err != nil {
			return
		}
		v, err := g.Judge(n, reach)
		if err != nil {
			return
		}
		if _, err := json.Marshal(v); err != nil || v.Sentence == "" || strings.Contains(v.Sentence, "NaN") {
			t.Errorf("%+v: %v", v, err)
		}
		if v.Doubt < 0 || v.Doubt > 1 || v.Failing.Low > v.Failing.High || v.Needed < 0 {
			t.Errorf("%+v", v)
		}
	})
}
