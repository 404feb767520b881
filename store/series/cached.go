package series

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// Cached is a Store that caches current values for a short time and batches
// queries, so that any number of dashboards cost a database one query at a time.
// Other methods go straight to the underlying store.
//
// A last value is cached for 2 s from the start of the query, an aggregate for a thousandth
// of its window but between 2 s and 30 s. While a database runs a query, further wants are
// collected for the next one. A query is cancelled when the last caller that waits for it
// gives up. An error goes to all callers that wait; it is not cached, and no stale value is
// returned instead.
//
// Set its fields before the first use.
type Cached struct {
	Store
	// Now is the clock, time.Now by default.
	Now func() time.Time
	// Size is about how many values are cached, 100,000 by default.
	Size int
	// Batch is about how many wants one query has at most, 2,000 by default.
	Batch int
	// Timeout ends a query, after 30 s by default.
	Timeout time.Duration

	mu      sync.Mutex
	values  map[place]dated
	forgot  map[string]time.Time // when, by database
	queues  map[string][]*query  // by database; the first is running
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

// query is one call of the underlying store, with the callers that wait for it.
type query struct {
	wants   map[Want]int // their indexes in values
	order   []Want
	waiters int                // zero once all have given up
	cancel  context.CancelFunc // nil until it runs
	done    chan struct{}      // closed when values and err are set
	values  []Value
	err     error
}

// NewCached puts a cache in front of a store.
func NewCached(store Store) *Cached {
	return &Cached{
		Store: store, Now: time.Now, Size: 100_000, Batch: 2_000, Timeout: 30 * time.Second,
		values: map[place]dated{}, forgot: map[string]time.Time{}, queues: map[string][]*query{},
	}
}

// Close cancels running queries and waits for them. Their callers get
// ErrUnavailable, as does every later call of Current.
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
	if err := ValidWants(wants); err != nil { // or one caller's mistake would fail all of a batch
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

// Forget drops the cached values of a database to which another process has written.
// Those of running queries are not cached either.
func (c *Cached) Forget(database string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgot[database] = c.Now()
	maps.DeleteFunc(c.values, func(at place, _ dated) bool { return at.database == database })
}

// share maps a value of a query to its index in a caller's result.
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

// join fills in cached values, and joins queries that will return the rest.
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

// fresh reports whether a value may still be returned. One from the future, after
// the clock was set back, may not.
func (d dated) fresh(want Want, now time.Time) bool {
	age, lifetime := now.Sub(d.asked), min(max(want.Window/1000, 2*time.Second), 30*time.Second)
	return age >= 0 && age < lifetime
}

// queryFor returns the query that answers a want, and the want's index in it: a query that
// has it already, else the last one if it has not started, else a new one.
func (c *Cached) queryFor(ctx context.Context, database string, want Want) (*query, int) {
	queue := c.queues[database]
	for _, q := range queue {
		if at, ok := q.wants[want]; ok && q.waiters > 0 {
			return q, at
		}
	}
	var previous <-chan struct{}
	if n := len(queue); n > 0 {
		last := queue[n-1]
		if last.cancel == nil && last.waiters > 0 && len(last.order) < c.Batch {
			return last, last.add(want)
		}
		previous = last.done
	}
	q := &query{wants: map[Want]int{}, done: make(chan struct{})}
	at := q.add(want)
	c.queues[database] = append(queue, q)
	// The query belongs to all its waiters, not to one caller's context.
	shared := context.WithoutCancel(ctx)
	c.running.Go(func() { c.run(shared, database, q, previous) })
	return q, at
}

func (q *query) add(want Want) int {
	at := len(q.order)
	q.wants[want] = at
	q.order = append(q.order, want)
	return at
}

func (q *query) stop() {
	if q.cancel != nil {
		q.cancel()
	}
}

// leave cancels the queries that have no waiters left.
func (c *Cached) leave(joined map[*query][]share) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for q := range joined {
		if q.waiters--; q.waiters == 0 {
			q.stop()
		}
	}
}

// run runs a query once the previous one of its database is done.
func (c *Cached) run(shared context.Context, database string, q *query, previous <-chan struct{}) {
	if previous != nil {
		<-previous
	}
	ctx := c.begin(shared, q)
	asked := c.Now()
	if q.err = ctx.Err(); q.err == nil {
		q.values, q.err = c.ask(ctx, database, q.order)
	}
	c.end(database, q, asked)
}

func (c *Cached) ask(ctx context.Context, database string, wants []Want) (_ []Value, err error) {
	defer recovered("current values", &err)
	return c.Store.Current(ctx, database, wants)
}

// begin closes a query to further wants, and returns its context.
func (c *Cached) begin(shared context.Context, q *query) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(shared, c.Timeout)
	q.cancel = cancel
	if c.closed || q.waiters == 0 {
		cancel()
	}
	return ctx
}

// end removes the query from the queue and caches its values.
func (c *Cached) end(database string, q *query, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer q.cancel()
	defer close(q.done)
	if c.queues[database] = c.queues[database][1:]; len(c.queues[database]) == 0 {
		delete(c.queues, database)
	}
	if q.err != nil {
		q.err = q.shared()
		return
	}
	if at, ok := c.forgot[database]; ok && !asked.After(at) {
		return
	}
	c.makeRoom(len(q.order))
	for i, want := range q.order {
		c.values[place{database, want}] = dated{q.values[i], asked}
	}
}

// shared rewords errors of the query's own context, so that callers don't take them for
// those of theirs: the query took too long, or the cache was closed.
func (q *query) shared() error {
	switch {
	case errors.Is(q.err, context.DeadlineExceeded):
		return fmt.Errorf("current values: %w: %w", ErrSlow, q.err)
	case errors.Is(q.err, context.Canceled):
		return fmt.Errorf("current values: %w: %w", ErrUnavailable, q.err)
	}
	return q.err
}

// makeRoom drops values that are too old or, if that is not enough, all of them.
func (c *Cached) makeRoom(n int) {
	if len(c.values)+n <= c.Size {
		return
	}
	now := c.Now()
	maps.DeleteFunc(c.values, func(at place, found dated) bool { return !found.fresh(at.want, now) })
	if len(c.values)+n > c.Size {
		clear(c.values)
	}
}
