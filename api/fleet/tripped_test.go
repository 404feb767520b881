package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/release"
	"tsmon/store/record"
)

// guardsOf returns a guard of the rollout.
func guardsOf(r *apitest.Rollout, guard fleet.Guard) *fleet.Guards {
	return &fleet.Guards{Guards: map[string]fleet.Guard{r.Channel: guard}, Channels: r.Heads.Channels, Records: r.Records, Now: r.Clock.Now}
}

// TestTripped: the guard judges by the clients that tried, within its time, since
// the channel was last moved.
func TestTripped(t *testing.T) {
	w := apitest.Embedded(t)
	r := apitest.RollOut(t, w)
	guards := guardsOf(r, fleet.Guard{Failures: 20, Clients: 10, Within: time.Hour})
	tripped := func() string {
		t.Helper()
		var reasons []string
		for _, trip := range apitest.Must[[]fleet.Trip](t)(guards.Tripped(t.Context())) {
			reasons = append(reasons, trip.Reason())
		}
		return strings.Join(reasons, "; ")
	}
	w.Clock.Move(time.Second) // or all would be in the second of the log's entry
	for i := range 12 {
		r.Check(fmt.Sprint(i), "1.0.0")
	}
	for i := range 8 {
		r.Report(fmt.Sprint(i), "1.1.0", "started")
	}
	r.Report("8", "1.1.0", "failed")
	r.WaitProgress(t, record.Progress{Running: 8, Failed: 1, Offered: 3})
	if got := tripped(); got != "" {
		t.Errorf("with 9 clients: %s", got)
	}
	r.Report("9", "1.1.0", "crashed")
	r.WaitProgress(t, record.Progress{Running: 8, Failed: 1, Crashed: 1, Offered: 2})
	if got := tripped(); got != "" {
		t.Errorf("with 20 %%: %s", got)
	}
	r.Download("10", "1.1.0")
	r.Check("10", "1.0.0")
	r.WaitProgress(t, record.Progress{Running: 8, Failed: 1, Crashed: 1, Kept: 1, Offered: 1})
	if got := tripped(); got != "1.1.0 failed for 3 of 11 clients within 1h0m0s, more than 20 %" {
		t.Errorf("with 3 of 11: %s", got)
	}
	if _, err := r.Pause(t.Context(), release.Options{Channel: r.Channel, Why: "crashes"}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the pause", func() bool { return tripped() == "" })
	w.Clock.Move(time.Second)
	if _, err := r.Resume(t.Context(), release.Options{Channel: r.Channel}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the resumption", func() bool { return r.Check("11", "1.0.0").Version(t) == "1.1.0" })
	r.Check("10", "1.0.0")
	for i := range 8 {
		r.Check(fmt.Sprint(i), "1.1.0")
	}
	r.WaitProgress(t, record.Progress{Running: 8, Failed: 1, Crashed: 1, Kept: 1, Offered: 1})
	if got := tripped(); got != "" {
		t.Errorf("what a person has seen is held against the release again: %s", got)
	}
	for i := range 4 { // they try once more, and fail again
		r.Report(fmt.Sprint(i), "1.1.0", "failed")
	}
	r.Download("10", "1.1.0")
	r.Download("11", "1.1.0")
	r.WaitProgress(t, record.Progress{Running: 4, Failed: 5, Crashed: 1, Kept: 1, Waiting: 1})
	for _, id := range []string{"10", "11"} {
		r.Check(id, "1.0.0")
	}
	r.WaitProgress(t, record.Progress{Running: 4, Failed: 5, Crashed: 1, Kept: 2})
	if got := tripped(); got != "1.1.0 failed for 6 of 10 clients within 1h0m0s, more than 20 %" {
		t.Errorf("after they failed again: %q", got)
	}
}

// TestTrippedByFew: clients that fail again and again weigh no more than those
// that run the release and ask as often.
func TestTrippedByFew(t *testing.T) {
	w := apitest.Embedded(t)
	r := apitest.RollOut(t, w)
	guards := guardsOf(r, fleet.Guard{Failures: 20, Clients: 10, Within: time.Hour})
	w.Clock.Move(time.Second)
	const few, many = 3, 20
	for i := range few + many {
		r.Check(fmt.Sprint(i), "1.0.0")
		r.Download(fmt.Sprint(i), "1.1.0")
	}
	r.WaitProgress(t, record.Progress{Waiting: few + many})
	for hour := range 3 {
		for i := range few {
			r.Check(fmt.Sprint(i), "1.0.0")
		}
		for i := range many {
			r.Check(fmt.Sprint(few+i), "1.1.0")
		}
		r.WaitProgress(t, record.Progress{Running: many, Kept: few})
		if trips := apitest.Must[[]fleet.Trip](t)(guards.Tripped(t.Context())); len(trips) != 0 {
			t.Errorf("hour %d: %s", hour, trips[0].Reason())
		}
		w.Clock.Move(time.Hour)
	}
}
