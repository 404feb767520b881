package fleet

import "time"

// watchTime is how long a server watches a step before the step may be over, even if it was due
// before the server started. By then NTP has set the clock of a machine that was just started.
const watchTime = 20 * time.Second

// watched decides when steps are over, also by a clock that nobody can set: the monotonic one of
// this machine. A step must be over by its date, and the time that was left when this server first
// saw it must have passed. So a clock that is set ahead ends no step; if it was behind, or the
// machine slept, the step ends later.
type watched struct {
	now     func() time.Time
	elapsed func() time.Duration
	steps   map[string]sight // by channel
}

// sight is when a step was first seen.
type sight struct {
	due  time.Time     // when it is over, by its date
	left time.Duration // time until then, when it was first seen
	at   time.Duration // when it was first seen, by elapsed
}

func newWatched(now func() time.Time, elapsed func() time.Duration) *watched {
	if elapsed == nil {
		began := time.Now()
		elapsed = func() time.Duration { return time.Since(began) }
	}
	return &watched{now: now, elapsed: elapsed, steps: map[string]sight{}}
}

// over reports whether the present step of a channel is over. early is true if it is over by its
// date alone.
func (w *watched) over(channel string, c Channel) (over, early bool) {
	due, ok := c.NextStep()
	if !ok {
		delete(w.steps, channel)
		return false, false
	}
	now, at := w.now(), w.elapsed()
	seen, known := w.steps[channel]
	if !known || !seen.due.Equal(due) {
		seen = sight{due, due.Sub(now), at}
		w.steps[channel] = seen
	}
	dated := !now.Before(due)
	passed := at-seen.at >= max(seen.left, watchTime)
	return dated && passed, dated && !passed
}
