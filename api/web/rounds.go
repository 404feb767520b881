package web

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Rounds lets others wait for the end of a Loop's round, and logs whether the store answers.
type Rounds struct {
	Now func() time.Time
	Log *slog.Logger

	mu   sync.Mutex
	next chan struct{} // closed at the end of the next round; nil while nobody waits
	// away is since when the store has not answered, zero if it did the last time.
	away time.Time
}

// Begin begins a round. It reports whether somebody waits for it, and returns a function that
// ends it and wakes them.
func (r *Rounds) Begin() (waits bool, over func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := r.next
	r.next = nil
	return ended != nil, func() {
		if ended != nil {
			close(ended)
		}
	}
}

// Await waits for the end of a round that has not begun yet.
func (r *Rounds) Await(ctx context.Context) {
	r.mu.Lock()
	if r.next == nil {
		r.next = make(chan struct{})
	}
	next := r.next
	r.mu.Unlock()
	select {
	case <-next:
	case <-ctx.Done():
	}
}

// Note logs when the store stops answering and when it answers again.
func (r *Rounds) Note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch silent := !r.away.IsZero(); {
	case err != nil && !silent:
		r.away = r.Now()
		r.Log.Warn("the store does not answer: channels are shown as they last were", "error", err)
	case err == nil && silent:
		r.away = time.Time{}
		r.Log.Info("the store answers again: channels are shown as they are")
	}
}

// AwaySince returns since when the store has not answered, zero if it answers.
func (r *Rounds) AwaySince() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.away
}

// Awaited reports whether somebody waits.
func (r *Rounds) Awaited() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next != nil
}
