package monitor

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"tsmon/api/web"
)

const (
	// seriesTurns is how many questions for series run at a time. It leaves half of the
	// embedded store's readers to current values, which take no turns.
	seriesTurns = 2
	// maxWaiting is how many questions may wait.
	maxWaiting = 1000
	// writeTime is how long the next turn of a question is reserved while a part is
	// written: a slow client holds nobody up for longer.
	writeTime = 2 * time.Second
	// busyWait is when a client that was refused should try again.
	busyWait = 5 * time.Second
)

// errBusy says that a question could not begin in its time.
var errBusy = &web.Failure{
	Status: http.StatusInternalServerError, Wait: busyWait,
	Messages: []string{"the server is busy with other requests: try again in a few seconds"},
}

// turns lets questions for series run a few at a time. The next is one of the tenant
// that has read the fewest points while others waited, and of that tenant's the one
// with the least left to read: light questions pass heavy ones, and what has begun
// ends before more begins.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []*turn
	shares  map[string]*share // of tenants with a question that waits or runs
	passed  int64             // the share of the tenant whose question ran last
}

// turn is a part of a question.
type turn struct {
	tenant string
	points int64 // to read in this part
	left   int64 // to read in this part and those after it
	begun  bool  // a part before this one was read
	ready  chan struct{}
	slow   *time.Timer // ends the reservation
}

func newTurn(tenant string, points, left int64) *turn {
	return &turn{tenant: tenant, points: points, left: left, ready: make(chan struct{})}
}

// share is what a tenant has read.
type share struct {
	points    int64
	questions int
	reserved  []*turn // of questions that write a part, and whose next part nobody took yet
}

func newTurns() *turns { return &turns{free: seriesTurns, shares: map[string]*share{}} }

// take waits for a turn; give ends it. It returns the context's error, or errBusy if
// too many wait.
func (t *turns) take(ctx context.Context, w *turn) error {
	if err := t.enter(w); err != nil {
		return err
	}
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !remove(&t.waiting, w) {
		return nil // it was just called
	}
	t.leave(w.tenant)
	return ctx.Err()
}

func (t *turns) enter(w *turn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(w)
	if len(t.waiting) >= maxWaiting {
		t.call()
		return errBusy
	}
	t.join(w.tenant)
	t.waiting = append(t.waiting, w)
	t.call()
	return nil
}

// give ends a turn. If the question goes on, next is its next turn, which is reserved until
// take or forget, for writeTime at most: meanwhile no question of the tenant begins that has
// as much or more left to read.
func (t *turns) give(w, next *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if next != nil {
		t.join(next.tenant)
		next.begun = true
		next.slow = time.AfterFunc(writeTime, func() { t.forget(next) })
		s := t.shares[next.tenant]
		s.reserved = append(s.reserved, next)
	}
	t.free++
	t.leave(w.tenant)
	t.call()
}

// forget gives up a turn that was reserved, if it still is.
func (t *turns) forget(next *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(next)
	t.call()
}

func (t *turns) end(next *turn) {
	if s := t.shares[next.tenant]; s != nil && remove(&s.reserved, next) {
		next.slow.Stop()
		t.leave(next.tenant)
	}
}

// remove removes a turn from a list, and reports whether the list had it.
func remove(list *[]*turn, w *turn) bool {
	i := slices.Index(*list, w)
	if i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
	return i >= 0
}

func (t *turns) join(tenant string) {
	if t.shares[tenant] == nil {
		t.shares[tenant] = &share{points: t.passed} // what was read before others came is forgotten
	}
	t.shares[tenant].questions++
}

func (t *turns) leave(tenant string) {
	s := t.shares[tenant]
	if s.questions--; s.questions == 0 {
		delete(t.shares, tenant)
	}
}

// call gives the free turns to those that wait.
func (t *turns) call() {
	for t.free > 0 {
		w := t.next()
		if w == nil {
			return
		}
		remove(&t.waiting, w)
		t.free--
		s := t.shares[w.tenant]
		t.passed = s.points
		s.points += w.points
		close(w.ready)
	}
}

// next returns the waiting turn that comes next, or nil.
func (t *turns) next() (next *turn) {
	for _, w := range t.waiting {
		if (next == nil || t.before(w, next)) && !t.heldBack(w) {
			next = w
		}
	}
	return next
}

// heldBack reports whether a question has to wait for one of its tenant that has begun.
func (t *turns) heldBack(w *turn) bool {
	return !w.begun && slices.ContainsFunc(t.shares[w.tenant].reserved, func(r *turn) bool { return r.left <= w.left })
}

// before reports whether a goes before b, which has waited longer.
func (t *turns) before(a, b *turn) bool {
	if mine, theirs := t.shares[a.tenant].points, t.shares[b.tenant].points; mine != theirs {
		return mine < theirs
	}
	return a.tenant == b.tenant && a.left < b.left
}
