package updates

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// rounds lets requests wait for the end of a round, and logs whether the store answers.
type rounds struct {
	now func() time.Time
	log *slog.Logger

	mu   sync.Mutex
	next chan struct{} // closed at the end of the next round; nil while nobody waits
	away time.Time     // since when the store has not answered, zero if it answers
}

// begin begins a round. It reports whether somebody waits for it, and returns a function that
// ends it and wakes them.
func (r *rounds) begin() (waits bool, over func()) {
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

// await waits for the end of a round that has not begun yet.
func (r *rounds) await(ctx context.Context) {
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

// note logs when the store stops answering and when it answers again.
func (r *rounds) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch silent := !r.away.IsZero(); {
	case err != nil && !silent:
		r.away = r.now()
		r.log.Warn("the store does not answer: channels are shown as they last were", "error", err)
	case err == nil && silent:
		r.away = time.Time{}
		r.log.Info("the store answers again: channels are shown as they are")
	}
}

// awaySince returns since when the store has not answered, zero if it answers.
func (r *rounds) awaySince() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.away
}
