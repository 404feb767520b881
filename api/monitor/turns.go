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

// turn is a part of a question that waits.
type turn struct {
	tenant string
	points int64 // to read in this part
	left   int64 // to read in this part and those after it
	ready  chan struct{}
}

// share is what a tenant has read.
type share struct {
	points    int64
	questions int
}

func newTurns() *turns { return &turns{free: seriesTurns, shares: map[string]*share{}} }

// take waits for a turn, which needs give. It returns the context's error, or errBusy if
// too many wait.
func (t *turns) take(ctx context.Context, tenant string, points, left int64) error {
	w := &turn{tenant, points, left, make(chan struct{})}
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
	i := slices.Index(t.waiting, w)
	if i < 0 {
		return nil // it was just called
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	t.leave(tenant)
	return ctx.Err()
}

func (t *turns) enter(w *turn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) >= maxWaiting {
		return errBusy
	}
	if t.shares[w.tenant] == nil {
		t.shares[w.tenant] = &share{points: t.passed} // what was read before others came is forgotten
	}
	t.shares[w.tenant].questions++
	t.waiting = append(t.waiting, w)
	t.call()
	return nil
}

// give ends a tenant's turn.
func (t *turns) give(tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	t.leave(tenant)
	t.call()
}

func (t *turns) leave(tenant string) {
	s := t.shares[tenant]
	if s.questions--; s.questions == 0 {
		delete(t.shares, tenant)
	}
}

// call calls as many of those that wait as there are free turns.
func (t *turns) call() {
	for t.free > 0 && len(t.waiting) > 0 {
		next := 0
		for i, w := range t.waiting {
			if t.before(w, t.waiting[next]) {
				next = i
			}
		}
		w := t.waiting[next]
		t.waiting = slices.Delete(t.waiting, next, next+1)
		t.free--
		s := t.shares[w.tenant]
		t.passed = s.points
		s.points += w.points
		close(w.ready)
	}
}

// before reports whether a goes before b, which has waited longer.
func (t *turns) before(a, b *turn) bool {
	if mine, theirs := t.shares[a.tenant].points, t.shares[b.tenant].points; mine != theirs {
		return mine < theirs
	}
	return a.tenant == b.tenant && a.left < b.left
}
