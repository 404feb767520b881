package updates

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"tsmon/api/fleet"
	"tsmon/api/updates/alarm"
	"tsmon/api/web"
	"tsmon/channels"
	"tsmon/signing"
	"tsmon/store/object"
)

const (
	// maxLooks bounds the concurrent requests to the store, of each kind.
	maxLooks = 4
	// maxAbsent bounds the remembered names that no channel has.
	maxAbsent = 1000
)

// errUnverified means that an object is not shown because it does not verify.
var errUnverified = errors.New("it does not verify")

// Heads keep the manifests of all channels in memory, so that requests cost the store
// nothing. One goroutine compares the store's ETags at least every Interval, and reads a
// manifest and the log only if that has changed; it reads the log also every minute, and in
// each round while a release is being rolled out. An unknown channel is looked up when it is
// first requested, once for all concurrent requests; a name without a channel is not looked
// up again for an interval.
//
// What does not verify is never shown: the last manifest that did stays, as it does while
// the store does not answer. A channel whose manifest was deleted is gone.
type Heads struct {
	HeadsOptions
	patience time.Duration // for one answer of the store
	signed   bool          // operators sign some channel
	alarms   *alarm.Board

	known   atomic.Pointer[map[string]*channel] // copied on change, under mu
	lookUps singleflight.Group                  // of unknown channels, by name
	looks   chan struct{}                       // one element for each look-up that runs
	absent  *lru.Cache[string, time.Time]       // names that no channel has, and until when that is believed
	loop    web.Loop
	older   older
	rounds  rounds

	mu sync.Mutex

	// Only the loop uses these:
	begun  bool
	listed bool // the store's channels were listed
}

// channel is one that the store has.
type channel struct {
	name    string
	head    atomic.Pointer[head]          // nil until one has verified
	log     atomic.Pointer[channels.Log]  // as far as it was read and is believed; empty until then
	asks    atomic.Int64                  // requests for the manifest that are not counted yet
	offers  atomic.Pointer[compiled]      // nil until some have verified
	rings   atomic.Pointer[ringDocuments] // nil while they are unknown, or if the channel keeps none
	putBack atomic.Bool                   // a file beside the manifest is older than one that was there before

	pointer *pointer          // as it was last read; only rounds use it
	beside  map[string]beside // by key; only the loop of older uses it

	reading sync.Mutex // guards everything below
	// ahead is log with further entries that don't count: not all were read, or what they show
	// does not verify. It is nil if there are none.
	ahead     *channels.Log
	publicURL string    // in its manifests; empty while unknown
	offeredAt string    // ETag of the manifest that offers belong to
	stood     time.Time // when the newest entry of log was last found in the store

	broken     error     // why the log in the store is not believed, nil if it is
	uncompiled error     // what is wrong with the manifests of log, or of ahead
	altered    error     // what is wrong with entries before the end of log, as of whole
	whole      time.Time // when the log was last read from its beginning
	tried      string    // state of the channel in which reload last read the whole log
	triedAt    time.Time // when it did

	recalled   bool              // seen and laid were read from the records
	checked    bool              // log continues what was recorded
	unrecorded bool              // the end of log, or lay, is not in the records yet
	seen       channels.Position // end of the log in the records
	lay        uint64            // newest entry whose manifest was seen in the store
	laid       uint64            // the same in the records
}

// compiled is a channel's log, prepared to answer clients.
type compiled struct {
	*channels.Offers
	names *fleet.Names
	list  *downloads // nil without a log
}

// Trust is what a reader knows of the operators of a channel.
type Trust = channels.Trust

// HeadsOptions configure Heads.
type HeadsOptions struct {
	Objects object.Store
	Keys    signing.Keyring // that manifests must be signed by; empty: only their form is checked
	// Unbound are the channels whose signatures need not name the version. Such a channel could
	// announce an old bundle under a new version.
	Unbound map[string]bool
	// Trust is what is known of the operators of channels besides their logs.
	Trust map[string]Trust
	// Histories remember what servers have seen of logs.
	Histories fleet.Histories
	// PublicURL is the address of the store in manifests and offers; empty: the one in the
	// manifests of the store.
	PublicURL  string
	Downgrades map[string]bool                    // channels that have clients with allowDowngrades
	Rings      map[string]bool                    // channels that keep rings
	Interval   time.Duration                      // maximum age of a manifest
	Alarm      func(object, etag, problem string) // called when an object does not verify; may be nil
	Registry   prometheus.Registerer
	Log        *slog.Logger
	Now        func() time.Time
}

// NewHeads returns heads that begin to read with the first request.
func NewHeads(o HeadsOptions) *Heads {
	h := &Heads{
		HeadsOptions: o, patience: 5 * time.Second, looks: make(chan struct{}, maxLooks), rounds: rounds{now: o.Now, log: o.Log},
		alarms: alarm.NewBoard(alarm.Options{Log: o.Log, Now: o.Now, Tell: o.Alarm, Registry: o.Registry, Channels: maps.Keys(o.Rings)}),
	}
	for _, trust := range o.Trust {
		h.signed = h.signed || trust.Operators != nil
	}
	h.older.heads = h
	h.absent, _ = lru.New[string, time.Time](maxAbsent) // fails for sizes below 1 only
	h.known.Store(&map[string]*channel{})
	return h
}

func (h *Heads) channel(name string) *channel { return (*h.known.Load())[name] }

// watch starts the rounds, a little more often than Interval, so that no head gets older than
// that. Rounds never overlap, even while the store hangs.
func (h *Heads) watch(ctx context.Context) {
	h.loop.Start(ctx, h.Interval*3/4, h.round)
	h.older.loop.Start(ctx, standsEvery, h.older.round)
}

// close ends the rounds and the checks of older entries, and waits for both.
func (h *Heads) close() {
	h.older.loop.Close()
	h.loop.Close()
}

// round refreshes every channel, and lists the channels until that has worked once.
func (h *Heads) round(ctx context.Context) {
	waits, over := h.rounds.begin()
	defer over()
	if !h.begun && len(h.Keys) == 0 {
		h.Log.Warn("no key is trusted: manifests are shown whoever signed their bundles")
	}
	h.begun = true
	var errs []error
	if !h.listed || waits { // somebody may wait for a channel that is new
		err := h.list(ctx)
		h.listed = err == nil
		errs = append(errs, err)
	}
	known := *h.known.Load()
	failed := make(chan error, len(known))
	var group errgroup.Group
	group.SetLimit(maxLooks)
	for _, c := range known {
		group.Go(func() error { failed <- h.refresh(ctx, c, waits); return nil })
	}
	_ = group.Wait() // the errors are in failed
	for range known {
		errs = append(errs, <-failed)
	}
	errs = append(errs, h.recheck(ctx))
	if ctx.Err() == nil {
		h.rounds.note(errors.Join(errs...))
	}
}

// list looks up the channels that have a log.
func (h *Heads) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	names, err := channels.Repository{Store: h.Objects}.Names(ctx)
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

// refresh updates a known channel. One whose manifest is gone is removed.
func (h *Heads) refresh(ctx context.Context, c *channel, whole bool) error {
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	err := h.look(ctx, c, whole)
	if errors.Is(err, fs.ErrNotExist) {
		h.Log.Warn("the manifest of a channel is gone", "channel", c.name)
		h.alarms.Clear(channels.ManifestKey(c.name))
		if h.strange(c.name) {
			h.alarms.Clear(channels.LogPrefix(c.name))
		}
		h.change(func(known map[string]*channel) { delete(known, c.name) })
		return nil
	}
	return err
}

// look updates what a channel shows and offers. It shows nothing before it has read the log,
// so that the offers are never behind the manifest. Errors are those of the store.
//
// A move writes its entry first and the manifest last. So while the manifest is that of the
// newest known entry and nothing is being rolled out, no move has been finished, and look
// reads only the manifest. With whole, and every standsEvery, it reads the log, too.
func (h *Heads) look(ctx context.Context, c *channel, whole bool) error {
	at, err := h.readPointer(ctx, c)
	if err != nil {
		return err
	}
	c.pointer = at
	if !whole && c.settled(h.Now()) {
		return nil
	}
	err = h.readLog(ctx, c, at)
	if shown := c.head.Load(); err == nil || shown == nil {
		if next := h.show(c); next != nil && next != shown {
			c.head.Store(next)
			h.Log.Info("channel shown", "channel", c.name, "version", next.version, "sequence", next.sequence)
		}
		c.seeManifest(ctx, h.Histories)
	}
	return err
}

// change replaces the known channels.
func (h *Heads) change(f func(map[string]*channel)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := maps.Clone(*h.known.Load())
	f(known)
	h.known.Store(&known)
}

// of returns a channel that shows a manifest. Errors are fs.ErrNotExist if there is no such
// channel, errUnverified if none of its manifests has verified yet, or the store's.
func (h *Heads) of(ctx context.Context, name string) (*channel, error) {
	if c := h.channel(name); c != nil {
		return c.shown()
	}
	if err := channels.CheckName(name); err != nil {
		return nil, fs.ErrNotExist
	}
	h.watch(ctx)
	lookUp := h.lookUps.DoChan(name, func() (any, error) { return nil, h.lookUp(context.WithoutCancel(ctx), name) })
	select {
	case result := <-lookUp:
		if result.Err != nil {
			return nil, result.Err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c := h.channel(name); c != nil {
		return c.shown()
	}
	return nil, fs.ErrNotExist // it was deleted again
}

func (c *channel) shown() (*channel, error) {
	if c.head.Load() == nil {
		return nil, errUnverified
	}
	return c, nil
}

// lookUp adds a channel to the known ones if the store has it. It remembers a name that no
// channel has for an interval. close waits for it.
func (h *Heads) lookUp(ctx context.Context, name string) error {
	done, ok := h.loop.Join()
	if !ok {
		return fmt.Errorf("%w: the server is ending", object.ErrUnavailable)
	}
	defer done()
	if until, ok := h.absent.Get(name); ok && h.Now().Before(until) && !h.Now().Add(h.Interval).Before(until) { // else the clock was set back
		return fs.ErrNotExist
	}
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	select {
	case h.looks <- struct{}{}:
		defer func() { <-h.looks }()
	case <-ctx.Done():
		return fmt.Errorf("%w: too many look-ups", object.ErrUnavailable)
	}
	c := &channel{name: name, whole: h.Now(), beside: map[string]beside{}}
	c.log.Store(&channels.Log{Channel: name})
	err := web.Safely(ctx, func(ctx context.Context) error { return h.look(ctx, c, true) })
	if errors.Is(err, fs.ErrNotExist) {
		h.absent.Add(name, h.Now().Add(h.Interval))
	}
	if err != nil && c.head.Load() == nil && c.ahead == nil { // else the next round goes on from there
		return err
	}
	h.change(func(known map[string]*channel) { // an error of the log is retried by the next round
		if known[name] == nil { // the rounds may have seen more since another look-up added it
			known[name] = c
		}
	})
	if c.head.Load() == nil {
		return err
	}
	return nil
}
