package series

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Cached is a Store that remembers current values for a short while and joins
// equal questions, so that any number of dashboards that poll one database cost
// it one query at a time. The other methods are those of the store below.
//
// A last value is remembered for 2 s, an aggregate for a thousandth of its
// window, between 2 s and 30 s, counted from before it was asked for. While a
// query of a database runs, wants that it does not cover wait and go together
// into the next one. A query goes on when a caller gives up, and ends when the
// last one that waits for it has. An error is answered to those that wait for
// it and is not remembered; neither is anything older ever answered instead.
//
// Its fields are set before its first use. Close ends it.
type Cached struct {
	Store
	// Now is the clock, time.Now by default.
	Now func() time.Time
	// Size is about how many values are remembered, 100,000 by default.
	Size int
	// Batch is about how many wants one query has at most, 2,000 by default.
	Batch int
	// Timeout ends a query, after 30 s by default.
	Timeout time.Duration

	mu      sync.Mutex
	values  map[place]dated
	queues  map[string][]*query // by database, while it is worked on; the first is running
	running sync.WaitGroup
	closed  bool
}

type place struct {
	database string
	want     Want
}

type dated struct {
	Value
	asked time.Time
}

// query is one question to the store below and those that wait for it.
type query struct {
	wants   map[Want]int // their places in values
	order   []Want
	waiters int
	left    bool               // by all of them
	cancel  context.CancelFunc // nil until it runs
	done    chan struct{}      // closed when values and err are set
	values  []Value
	err     error
}

// NewCached puts a cache in front of a store.
func NewCached(store Store) *Cached {
	return &Cached{
		Store: store, Now: time.Now, Size: 100_000, Batch: 2_000, Timeout: 30 * time.Second,
		values: map[place]dated{}, queues: map[string][]*query{},
	}
}

// Close ends the queries that run and waits for them. Whoever waits for one
// gets ErrUnavailable, as does every later call of Current.
func (c *Cached) Close() {
	c.mu.Lock()
	c.closed = true
	for _, queue := range c.queues {
		for _, q := range queue {
			q.stop()
		}
	}
	c.mu.Unlock()
	c.running.Wait()
}

// Current implements Reader.
func (c *Cached) Current(ctx context.Context, database string, wants []Want) ([]Value, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := ValidDatabase(database); err != nil {
		return nil, err
	}
	if err := ValidWants(wants); err != nil { // or one caller's mistake would be everyone's
		return nil, err
	}
	values := make([]Value, len(wants))
	joined, err := c.join(ctx, database, wants, values)
	if err != nil {
		return nil, err
	}
	for q, shares := range joined {
		if err = q.wait(ctx); err != nil {
			break
		}
		for _, s := range shares {
			values[s.to] = q.values[s.from]
		}
	}
	c.leave(joined)
	if err != nil {
		return nil, err
	}
	return values, nil
}

// share is a value of a query, and its place in what one caller gets.
type share struct{ from, to int }

// wait returns the query's error, or the context's if that ends first.
func (q *query) wait(ctx context.Context) error {
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join fills in what is remembered, and returns the queries that will answer
// the rest with the places that each of them fills.
func (c *Cached) join(ctx context.Context, database string, wants []Want, values []Value) (map[*query][]share, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("the cache is closed: %w", ErrUnavailable)
	}
	now := c.Now()
	joined := map[*query][]share{}
	for i, want := range wants {
		want = want.Normal()
		if found, ok := c.values[place{database, want}]; ok && found.fresh(want, now) {
			values[i] = found.Value
			continue
		}
		q, at := c.queryFor(ctx, database, want)
		if joined[q] == nil {
			q.waiters++
		}
		joined[q] = append(joined[q], share{at, i})
	}
	return joined, nil
}

// fresh reports whether a value may still be answered. One from the future,
// after the clock was set back, may not.
func (d dated) fresh(want Want, now time.Time) bool {
	age := now.Sub(d.asked)
	return age >= 0 && age < lifetime(want)
}

func lifetime(want Want) time.Duration {
	return min(max(want.Window/1000, 2*time.Second), 30*time.Second)
}

// queryFor returns the query that answers a want, and at which place: one that
// has it already, or the last that waits for its turn, or a new one.
func (c *Cached) queryFor(ctx context.Context, database string, want Want) (*query, int) {
	queue, working := c.queues[database]
	for _, q := range queue {
		if at, ok := q.wants[want]; ok && !q.left {
			return q, at
		}
	}
	if n := len(queue); n > 0 && queue[n-1].cancel == nil && !queue[n-1].left && len(queue[n-1].order) < c.Batch {
		return queue[n-1], queue[n-1].add(want)
	}
	q := &query{wants: map[Want]int{}, done: make(chan struct{})}
	at := q.add(want)
	c.queues[database] = append(queue, q)
	if !working {
		// The query belongs to all that wait for it, not to one caller's context.
		shared := context.WithoutCancel(ctx)
		c.running.Go(func() { c.work(shared, database) })
	}
	return q, at
}

// add returns the place of a want that the query did not have.
func (q *query) add(want Want) int {
	at := len(q.order)
	q.wants[want] = at
	q.order = append(q.order, want)
	return at
}

// stop ends a query that runs.
func (q *query) stop() {
	if q.cancel != nil {
		q.cancel()
	}
}

// leave ends the queries that nobody waits for any more.
func (c *Cached) leave(joined map[*query][]share) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for q := range joined {
		if q.waiters--; q.waiters == 0 {
			q.left = true
			q.stop()
		}
	}
}

// work runs the queries of a database, one after another, until there is none.
func (c *Cached) work(shared context.Context, database string) {
	for {
		q, ctx := c.begin(shared, database)
		if q == nil {
			return
		}
		asked := c.Now()
		if q.err = ctx.Err(); q.err == nil {
			q.values, q.err = c.ask(ctx, database, q.order)
		}
		c.end(database, q, asked)
	}
}

// ask asks the store below. Its panic is the query's error: on this goroutine it
// would end the process, and with it what has nothing to do with the query.
func (c *Cached) ask(ctx context.Context, database string, wants []Want) (values []Value, err error) {
	defer func() {
		if found := recover(); found != nil {
			err = fmt.Errorf("current values: panic: %v\n%s", found, debug.Stack())
		}
	}()
	return c.Store.Current(ctx, database, wants)
}

// begin starts the first query of the queue.
func (c *Cached) begin(shared context.Context, database string) (*query, context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	queue := c.queues[database]
	if len(queue) == 0 {
		delete(c.queues, database)
		return nil, nil
	}
	q := queue[0]
	ctx, cancel := context.WithTimeout(shared, c.Timeout)
	q.cancel = cancel
	if c.closed || q.left {
		cancel()
	}
	return q, ctx
}

// end takes the query off the queue and remembers what it answered.
func (c *Cached) end(database string, q *query, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer q.cancel()
	defer close(q.done)
	c.queues[database] = c.queues[database][1:]
	if q.err != nil {
		q.err = q.shared()
		return
	}
	c.makeRoom(len(q.order))
	for i, want := range q.order {
		c.values[place{database, want}] = dated{q.values[i], asked}
	}
}

// shared turns the end of the query's own context, which no caller knows, into
// what it means to them.
func (q *query) shared() error {
	if errors.Is(q.err, context.Canceled) || errors.Is(q.err, context.DeadlineExceeded) {
		return fmt.Errorf("current values: %w: %w", ErrUnavailable, q.err)
	}
	return q.err
}

// makeRoom forgets what is too old to be answered and, where that is not
// enough, whatever comes first.
func (c *Cached) makeRoom(n int) {
	if len(c.values)+n <= c.Size {
		return
	}
	now := c.Now()
	for at, found := range c.values {
		if !found.fresh(at.want, now) {
			delete(c.values, at)
		}
	}
	for at := range c.values {
		if len(c.values)+n <= c.Size*3/4 {
			return
		}
		delete(c.values, at)
	}
}
