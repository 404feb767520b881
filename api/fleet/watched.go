package fleet

import "time"

// watchTime is how long a server watches a step before it may be over, also one that was
// due before the server began. A clock that NTP puts right after the start of a machine is
// right by then.
const watchTime = 20 * time.Second

// watched decides when steps are over by a clock that nobody can set: the monotonic one of
// this machine. A step has to be over by its own date, and the time has to have passed that
// was left when this server first saw it. A clock that is set ahead ends no step; one that
// was behind, or a machine that slept, ends it later.
type watched struct {
	now     func() time.Time
	elapsed func() time.Duration
	steps   map[string]sight // by channel
}

// sight is when a step was first seen.
type sight struct {
	due  time.Time     // when it is over, by its date
	left time.Duration // until then
	at   time.Duration
}

func newWatched(now func() time.Time, elapsed func() time.Duration) *watched {
	if elapsed == nil {
		began := time.Now()
		elapsed = func() time.Duration { return time.Since(began) }
	}
	return &watched{now: now, elapsed: elapsed, steps: map[string]sight{}}
}

// over reports whether the present step of a channel is over. early is true if it is by its
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
