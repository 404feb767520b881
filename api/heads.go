package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/store/object"
)

const (
	// maxLooks is how many looks at the store there are at once, of each kind.
	maxLooks = 4
	// maxAsked is how many names are remembered that no channel has.
	maxAsked = 1000
)

// errUnverified says that an object is not shown because it does not verify.
var errUnverified = errors.New("it does not verify")

// heads keeps the manifests of all channels in memory, so that a request costs
// the store nothing. One goroutine looks at the store's ETags at least every
// interval, and reads a manifest only when its ETag is another one. A channel
// that is not known yet is looked up when it is first asked for, once however
// many ask; a name that no channel has is not looked up again for an interval.
//
// What does not verify is never shown. Then, and while the store does not
// answer, the last manifest stays that did. One that is deleted is gone.
type heads struct {
	store    object.Store
	rules    manifest.Rules
	interval time.Duration
	patience time.Duration // for one look at the store
	now      func() time.Time
	log      *slog.Logger
	alarms   *alarms

	known   atomic.Pointer[map[string]*channel] // copied for each change, which takes mu
	looks   chan struct{}                       // holds one for each look-up
	begin   sync.Once
	running sync.WaitGroup

	mu     sync.Mutex
	asked  map[string]*lookup // by name
	closed bool
	stop   context.CancelFunc // nil until it runs

	// Of the goroutine alone:
	listed bool // the store's channels were listed
	silent bool // the store did not answer the last time
}

// channel is one that the store has.
type channel struct {
	name string
	head atomic.Pointer[head] // nil while none has verified
	asks atomic.Int64         // for the manifest, that are not counted yet

	offers    atomic.Pointer[channels.Offers] // nil while none have verified
	reading   sync.Mutex                      // of what follows
	log       *channels.Log                   // as far as it was read
	offeredAt string                          // ETag of the manifest that offers goes with
}

// lookup is the question whether there is a channel of some name.
type lookup struct {
	done  chan struct{} // closed when err and until are set
	err   error         // fs.ErrNotExist: there is none
	until time.Time     // that this is remembered
}

func (s *Server) newHeads() *heads {
	h := &heads{
		store: s.Objects, rules: manifest.Rules{Keys: s.Keys, AllowUnbound: true}, interval: s.Refresh, patience: 5 * time.Second, now: s.Now, log: s.Log,
		alarms: &alarms{log: s.Log, metrics: s.metrics, bad: map[string]alarm{}},
		looks:  make(chan struct{}, maxLooks), asked: map[string]*lookup{},
	}
	h.known.Store(&map[string]*channel{})
	return h
}

// watch starts to look at the store, the first time that it is called. The
// goroutine outlives the context and ends with close.
func (h *heads) watch(ctx context.Context) {
	h.begin.Do(func() {
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.closed {
			stop()
			return
		}
		h.stop = stop
		if len(h.rules.Keys) == 0 {
			h.log.Warn("no key is trusted: manifests are shown whoever signed their bundles")
		}
		h.running.Go(func() { h.run(ctx) })
	})
}

// close ends the goroutine and waits for it.
func (h *heads) close() {
	h.mu.Lock()
	h.closed = true
	if h.stop != nil {
		h.stop()
	}
	h.mu.Unlock()
	h.running.Wait()
}

// run looks at the store a little more often than each interval, so that with
// the time that looking takes no head gets older. While the store hangs there is
// one look at it, and the next comes after that has ended.
func (h *heads) run(ctx context.Context) {
	tick := time.NewTicker(h.interval * 3 / 4)
	defer tick.Stop()
	for {
		h.round(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// round looks at every channel, and once it could at which ones there are.
func (h *heads) round(ctx context.Context) {
	var errs []error
	if !h.listed {
		err := h.list(ctx)
		h.listed = err == nil
		errs = append(errs, err)
	}
	known := *h.known.Load()
	failed := make(chan error, len(known))
	var group errgroup.Group
	group.SetLimit(maxLooks)
	for _, c := range known {
		group.Go(func() error { failed <- h.refresh(ctx, c); return nil })
	}
	_ = group.Wait() // the errors are in failed
	for range known {
		errs = append(errs, <-failed)
	}
	errs = append(errs, h.again(ctx))
	if ctx.Err() == nil {
		h.say(errors.Join(errs...))
	}
}

// say logs when the store falls silent, and when it answers again.
func (h *heads) say(err error) {
	switch silent := err != nil; {
	case silent && !h.silent:
		h.log.Warn("the store does not answer: channels are shown as they last were", "error", err)
	case !silent && h.silent:
		h.log.Info("the store answers again: channels are shown as they are")
	}
	h.silent = err != nil
}

// list looks up the channels that have a log.
func (h *heads) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	names, err := channels.Repository{Store: h.store}.Names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := h.of(ctx, name); err != nil && !errors.Is(err, errUnverified) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// refresh looks at a known channel. One whose manifest is gone is forgotten.
func (h *heads) refresh(ctx context.Context, c *channel) error {
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	err := h.look(ctx, c)
	if errors.Is(err, fs.ErrNotExist) {
		h.log.Warn("the manifest of a channel is gone", "channel", c.name)
		h.alarms.clear(channels.ManifestKey(c.name))
		h.change(func(known map[string]*channel) { delete(known, c.name) })
		return nil
	}
	return err
}

// look brings up to date what a channel shows, if its manifest verifies, and what
// it offers. A manifest is shown only after the log was read, which has its entry,
// so that the offers are never behind it. The errors are the store's.
func (h *heads) look(ctx context.Context, c *channel) error {
	next, err := h.readHead(ctx, c)
	if err != nil {
		return err
	}
	if next == nil {
		return nil
	}
	err = h.lookAtLog(ctx, c, next)
	if shown := c.head.Load(); shown != next && (err == nil || shown == nil) {
		c.head.Store(next)
		h.log.Info("channel shown", "channel", c.name, "version", next.version, "sequence", next.sequence)
	}
	return err
}

// readHead reads the manifest of a channel, if it is another one than is shown.
// One that does not verify is not returned, but the one that is shown, which is
// nil before the first.
func (h *heads) readHead(ctx context.Context, c *channel) (*head, error) {
	key := channels.ManifestKey(c.name)
	info, err := h.store.Stat(ctx, key)
	shown := c.head.Load()
	switch {
	case err != nil:
		return nil, err
	case shown != nil && shown.stored == info.ETag:
		h.alarms.clear(key)
		return shown, nil
	case h.alarms.raised(key, info.ETag):
		return shown, nil
	}
	data, info, err := readWhole(ctx, h.store, key, manifest.MaxSize)
	if err != nil {
		return nil, err
	}
	next, err := newHead(data, info, h.rules)
	if err != nil {
		h.alarms.raise(key, info.ETag, err)
		return shown, nil
	}
	h.alarms.clear(key)
	return next, nil
}

// readWhole reads an object. Of one that is longer than limit it returns one byte
// more than that.
func readWhole(ctx context.Context, store object.Store, key string, limit int64) ([]byte, object.Info, error) {
	body, info, err := store.Get(ctx, key)
	if err != nil {
		return nil, info, err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	return data, info, err
}

// change replaces the known channels.
func (h *heads) change(f func(map[string]*channel)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := map[string]*channel{}
	for name, c := range *h.known.Load() {
		known[name] = c
	}
	f(known)
	h.known.Store(&known)
}

// of returns the head of a channel. fs.ErrNotExist if there is no such channel,
// errUnverified if none of its manifests has verified yet, or the store's error.
func (h *heads) of(ctx context.Context, name string) (*head, error) {
	if c := (*h.known.Load())[name]; c != nil {
		return c.shown()
	}
	if err := channels.CheckName(name); err != nil {
		return nil, fs.ErrNotExist
	}
	h.watch(ctx)
	l, mine := h.join(name)
	if mine {
		h.lookUp(ctx, name, l)
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.err != nil {
		return nil, l.err
	}
	if c := (*h.known.Load())[name]; c != nil {
		return c.shown()
	}
	return nil, fs.ErrNotExist // it was deleted again
}

func (c *channel) shown() (*head, error) {
	if shown := c.head.Load(); shown != nil {
		return shown, nil
	}
	return nil, errUnverified
}

// join returns the question for a name, and whether it is the caller's to answer.
func (h *heads) join(name string) (l *lookup, mine bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.asked[name]; l != nil && !h.over(l) {
		return l, false
	}
	if len(h.asked) >= maxAsked {
		h.makeRoom()
	}
	l = &lookup{done: make(chan struct{}), err: fmt.Errorf("%w: the question was given up", object.ErrUnavailable)}
	h.asked[name] = l
	return l, true
}

// over says that a question was answered and has to be asked again.
func (h *heads) over(l *lookup) bool {
	select {
	case <-l.done:
		return !h.now().Before(l.until) || h.now().Add(h.interval).Before(l.until) // the clock was set back
	default:
		return false
	}
}

// makeRoom forgets the answers that are too old and, where that is not enough,
// any other; questions that run are bounded by the requests that wait for them.
func (h *heads) makeRoom() {
	for name, l := range h.asked {
		if h.over(l) {
			delete(h.asked, name)
		}
	}
	for name, l := range h.asked {
		if len(h.asked) < maxAsked {
			return
		}
		if !l.until.IsZero() {
			delete(h.asked, name)
		}
	}
}

// lookUp answers the question for a name, for all that wait, whether or not the
// one who came first stays.
func (h *heads) lookUp(ctx context.Context, name string, l *lookup) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.patience)
	defer cancel()
	defer func() { // also after a panic
		h.mu.Lock()
		defer h.mu.Unlock()
		if !errors.Is(l.err, fs.ErrNotExist) {
			delete(h.asked, name)
		}
		l.until = h.now().Add(h.interval)
		close(l.done)
	}()
	select {
	case h.looks <- struct{}{}:
		defer func() { <-h.looks }()
	case <-ctx.Done():
		return
	}
	c := &channel{name: name, log: &channels.Log{Channel: name}}
	if l.err = h.look(ctx, c); l.err == nil || c.head.Load() != nil {
		l.err = nil // of the log, at which the next round looks again
		h.change(func(known map[string]*channel) {
			if known[name] == nil { // else somebody was faster, and the rounds have perhaps seen more since
				known[name] = c
			}
		})
	}
}
