package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/api/fleet/verdict"
	"tsmon/channels"
	"tsmon/release"
)

// judged is a rollout with a guard.
type judged struct {
	*apitest.Rollout
	*fleet.Guards
	t *testing.T
}

func judge(t *testing.T, w *apitest.World, guard fleet.Guard) judged {
	t.Helper()
	r := apitest.RollOut(t, w)
	return judged{r, &fleet.Guards{Default: guard, Channels: r.Heads.Channels, Records: r.Records, Now: r.Clock.Now}, t}
}

func (j judged) opinion() *fleet.Opinion {
	j.t.Helper()
	return apitest.Must[*fleet.Opinion](j.t)(j.Judge(j.t.Context(), j.Channel, j.Heads.Channels()[j.Channel]))
}

// wait waits until a number of clients are counted, and returns the guard's opinion.
func (j judged) wait(healthy, failing, waiting int64) (o *fleet.Opinion) {
	j.t.Helper()
	defer func() {
		if j.t.Failed() {
			j.t.Logf("counted are %+v", o.Clients)
		}
	}()
	apitest.Eventually(j.t, fmt.Sprintf("%d healthy, %d failing and %d waiting", healthy, failing, waiting), func() bool {
		o = j.opinion()
		return o.Clients.Healthy == healthy && o.Clients.Failing == failing && o.Clients.Waiting == waiting
	})
	return o
}

// TestTripped: the guard judges by the clients that tried the release since it was last started
// or resumed.
func TestTripped(t *testing.T) {
	w := apitest.Embedded(t)
	j := judge(t, w, fleet.Guard{Failures: 20, Networks: 1})
	tripped := func() string {
		t.Helper()
		var reasons []string
		for _, trip := range apitest.Must[[]fleet.Trip](t)(j.Tripped(t.Context())) {
			reasons = append(reasons, trip.Why)
		}
		return strings.Join(reasons, "; ")
	}
	for i := range 12 {
		j.Check(fmt.Sprint(i), "1.0.0")
	}
	for i := range 4 {
		j.Report(fmt.Sprint(i), "1.1.0", "started")
	}
	for i := range 2 {
		j.Report(fmt.Sprint(4+i), "1.1.0", "failed")
	}
	for i := range 2 {
		j.Download(fmt.Sprint(6+i), "1.1.0")
	}
	if o := j.wait(4, 2, 2); o.Decision == verdict.Halt || !o.Verdict.First || tripped() != "" {
		t.Errorf("with 2 of 8: %s, %s", o.Decision, o.Why)
	}
	for i := range 2 { // who comes back without it waits, and has not failed
		j.Check(fmt.Sprint(6+i), "1.0.0")
	}
	apitest.Eventually(t, "the second question", func() bool { return j.opinion().Clients.Kept == 2 })
	if got := tripped(); got != "" {
		t.Error(got)
	}
	for i := range 6 {
		j.Report(fmt.Sprint(6+i), "1.1.0", "crashed")
	}
	if o := j.wait(4, 8, 0); o.Decision != verdict.Halt || !strings.HasPrefix(tripped(), "8 of 12 clients failed") {
		t.Errorf("with 8 of 12: %s, %s", o.Decision, tripped())
	}
	if _, err := j.Pause(t.Context(), release.Options{Channel: j.Channel, Why: "crashes"}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the pause", func() bool { return tripped() == "" })
	if _, err := j.Resume(t.Context(), release.Options{Channel: j.Channel}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the resumption", func() bool { return j.Check("11", "1.0.0").Version(t) == "1.1.0" })
	for i := range 4 {
		j.Check(fmt.Sprint(i), "1.1.0")
	}
	if o := j.wait(4, 0, 0); tripped() != "" {
		t.Errorf("what a person has seen is held against the release again: %s", o.Why)
	}
	for i := range 8 { // they try once more, and fail again
		j.Report(fmt.Sprint(4+i), "1.1.0", "failed")
	}
	if o := j.wait(4, 8, 0); o.Decision != verdict.Halt || tripped() == "" {
		t.Errorf("after they failed again: %s, %s", o.Decision, o.Verdict.Sentence)
	}
}

// TestTrippedByFew: clients that keep asking without running the release don't count as failed.
// They hold the next step while most other clients are not known to run it.
func TestTrippedByFew(t *testing.T) {
	w := apitest.Embedded(t)
	j := judge(t, w, fleet.Guard{Failures: 20, Networks: 1})
	const few, many = 3, 20
	for i := range few + many {
		j.Check(fmt.Sprint(i), "1.0.0")
		j.Download(fmt.Sprint(i), "1.1.0")
	}
	if o := j.wait(0, 0, few+many); o.Decision != verdict.Wait || o.Verdict.Cause != verdict.CauseEvidence {
		t.Errorf("before anybody runs it: %s, %s", o.Decision, o.Why)
	}
	for hour := range 3 {
		for i := range few {
			j.Check(fmt.Sprint(i), "1.0.0")
		}
		for i := range many {
			j.Check(fmt.Sprint(few+i), "1.1.0")
		}
		if o := j.wait(many, 0, few); o.Decision != verdict.Continue {
			t.Errorf("hour %d: %s, %s", hour, o.Decision, o.Why)
		}
		w.Clock.Move(time.Hour)
	}
}

// TestCompared: the result of a release is kept, and the next release is compared with it. One
// that is far worse is halted below the limit. One that reports nothing is halted because of the
// number of waiting clients.
func TestCompared(t *testing.T) {
	w := apitest.Embedded(t)
	j := judge(t, w, fleet.Guard{Failures: 50, Networks: 1})
	const clients = 100
	for i := range clients {
		j.Check(fmt.Sprint(i), "1.0.0")
		j.Download(fmt.Sprint(i), "1.1.0")
	}
	j.wait(0, 0, clients)
	w.Clock.Move(30 * time.Minute)
	for i := range clients {
		j.Check(fmt.Sprint(i), "1.1.0")
	}
	j.wait(clients, 0, 0)
	if _, err := j.Publisher.Rollout(t.Context(), release.Options{Channel: j.Channel, Rollout: &channels.Rollout{Steps: []int{100}}}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "1.1.0 for everybody", func() bool { return j.Heads.Channels()[j.Channel].Rolling() == "" })
	w.Clock.Move(30 * 24 * time.Hour)
	if err := j.Keep(t.Context(), j.Channel, j.Heads.Channels()[j.Channel]); err != nil {
		t.Fatal(err)
	}
	apitest.Must[int64](t)(w.Records.ForgetClients(t.Context(), w.Clock.Now()))
	j.PublishWith(t, "1.2.0", func(o *release.PublishOptions) { o.Channel = j.Channel })
	apitest.Eventually(t, "1.2.0", func() bool { return j.Heads.Channels()[j.Channel].Newest() == "1.2.0" })
	o := j.opinion()
	if o.Before != "1.1.0" || o.BeforeClients == nil || o.BeforeClients.Healthy != clients || o.BeforeClients.Ages[0] != (verdict.Age{Reached: clients}) || o.Verdict.First {
		t.Fatalf("%s: %+v", o.Before, o.BeforeClients)
	}
	if o.Verdict.Bar >= o.Verdict.Limit {
		t.Errorf("the release before lowers the bar to %v", o.Verdict.Bar)
	}
	for i := range clients {
		j.Check(fmt.Sprint(i), "1.1.0")
		j.Download(fmt.Sprint(i), "1.2.0")
	}
	j.wait(0, 0, clients)
	w.Clock.Move(2 * time.Hour)
	if o := j.opinion(); o.Decision != verdict.Wait || o.Clients.Ages[0].Waiting != clients {
		t.Errorf("after two hours: %s, %s", o.Decision, o.Why)
	}
	w.Clock.Move(2 * time.Hour)
	if o := j.opinion(); o.Decision != verdict.Halt || o.Verdict.Cause != verdict.CauseWaiting {
		t.Errorf("after four hours: %s, %s", o.Decision, o.Why)
	}
}
