package api

import (
	"context"
	"crypto/sha256"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"tsmon/channels"
	"tsmon/store/record"
	"tsmon/store/series"
)

// maxSeen bounds the clients that are remembered until they are in the records.
const maxSeen = 50_000

// installs gathers what is seen of the clients of updates: which version each of
// them has goes to the records every second, how often what was asked to the time
// series every minute. Nobody who asks waits for either. While the records don't
// answer it keeps what fits and counts what is lost.
type installs struct {
	records  record.Installs
	series   series.Store
	metrics  *metrics
	now      func() time.Time
	log      *slog.Logger
	admitted admitted

	mu   sync.Mutex
	seen sightings
	// What is remembered for a while, of at most maxSeen each:
	offered  map[downloadKey]string // the channel that offered a client a version
	reported map[reportKey]bool     // what clients reported
	// Versions that clients have from before the channel's log, at most maxBefore of
	// each channel.
	before map[string]map[string]bool

	begin   sync.Once
	stop    context.CancelFunc // nil until it runs
	running sync.WaitGroup

	offers func() map[string]*channels.Offers // of all channels that are known
	asks   func() map[string]int64            // for manifests, since the last call

	// Of the goroutine alone:
	forgot  time.Time           // when clients were last forgotten
	counted map[countKey]counts // of this minute
	unsaid  []series.Sample     // that the time series did not take yet
	silent  bool                // the records did not answer the last time
}

// sightings is what is not in the records yet.
type sightings struct {
	installed map[clientKey]record.Installed
	tries     map[tryKey]record.Try
	downloads map[downloadKey]record.Download
	counts    map[countKey]counts
	lost      int // sightings that did not fit
}

type clientKey struct {
	channel string
	client  record.ClientID
}

type tryKey struct {
	clientKey
	version string
}

type downloadKey struct {
	client  record.ClientID
	version string
}

func (s *Server) newInstalls() *installs {
	return &installs{
		records: s.Records, series: s.Series, metrics: s.metrics, now: s.Now, log: s.Log, offers: s.heads.allOffers, asks: s.heads.takeAsks,
		seen: newSightings(), offered: map[downloadKey]string{}, reported: map[reportKey]bool{}, before: map[string]map[string]bool{}, counted: map[countKey]counts{},
	}
}

func newSightings() sightings {
	return sightings{
		installed: map[clientKey]record.Installed{}, tries: map[tryKey]record.Try{}, downloads: map[downloadKey]record.Download{},
		counts: map[countKey]counts{},
	}
}

// countKey is what is counted apart. None of it is a client's own word.
type countKey struct{ channel, version, target, cohort string }

// event is something that is counted.
type event int

const (
	eventCheck     event = iota // somebody asked, having the version
	eventAnonymous              // of the checks: without an id
	eventHeld                   // of the checks: a rollout goes on without the client
	eventOffer                  // of the version
	eventDownload
	eventStarted
	eventInstalled
	eventFailed
	eventCrashed
	events
)

// UpdateEvents are what is counted of the clients of updates: fields of the time
// series, and values of the metric's label.
var UpdateEvents = [events]string{"checks", "anonymous", "held", "offers", "downloads", "started", "installed", "failed", "crashed"}

type counts [events]int64

func (s *sightings) count(k countKey, happened ...event) {
	c := s.counts[k]
	for _, e := range happened {
		c[e]++
	}
	s.counts[k] = c
}

// try merges what was seen of a client with a release.
func (s *sightings) try(t record.Try) {
	key := tryKey{clientKey{t.Channel, t.Client}, t.Version}
	if before, ok := s.tries[key]; ok {
		t = before.Merge(t)
	}
	s.tries[key] = t
}

// full says that no more fits. The caller holds the lock.
func (s *sightings) full() bool {
	if len(s.installed) < maxSeen && len(s.tries) < 2*maxSeen && len(s.downloads) < maxSeen {
		return false
	}
	s.lost++
	return true
}

// asker is a client whose id may be kept.
type asker struct {
	id    record.ClientID
	known bool // it has one, and that may be kept
}

// whoAsks digests the id of a client.
func (i *installs) whoAsks(id, address string) asker {
	if id == "" {
		return asker{}
	}
	sum := sha256.Sum256([]byte("tsmon client\x00" + id))
	a := asker{id: record.ClientID(sum[:16])}
	if a.known = i.admitted.admit(a.id, address, i.now()); !a.known {
		i.metrics.unrecorded.Inc()
	}
	return a
}

// checked notes a client that asked and was answered.
func (i *installs) checked(ctx context.Context, o *channels.Offers, channel string, c channels.Client, answer channels.Answer, who asker) {
	i.start(ctx)
	now := i.now()
	had := countKey{channel, i.version(o, channel, c.Version), c.Target, o.Cohort(c.Cohort)}
	happened := []event{eventCheck}
	if c.ID == "" {
		happened = append(happened, eventAnonymous)
	}
	if answer.Held {
		happened = append(happened, eventHeld)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seen.count(had, happened...)
	if answer.Offer != nil {
		i.seen.count(countKey{channel, answer.Offer.Version, c.Target, had.cohort}, eventOffer)
	}
	if !who.known || i.seen.full() {
		return
	}
	i.seen.has(had, who, now)
	if answer.Offer != nil {
		i.seen.try(record.Try{Channel: channel, Client: who.id, Version: answer.Offer.Version, Asked: now})
		if len(i.offered) >= maxSeen {
			clear(i.offered)
		}
		i.offered[downloadKey{who.id, answer.Offer.Version}] = channel
	}
}

// maxBefore bounds the versions of a channel that its log does not know and that
// have a name all the same: applications were installed before the log began.
const maxBefore = 20

// version returns the name of a version that a client has.
func (i *installs) version(o *channels.Offers, channel, text string) string {
	if name := o.Version(text); name != channels.Other || !o.Older(text) {
		return name
	}
	text = strings.TrimLeft(text, "v")
	i.mu.Lock()
	defer i.mu.Unlock()
	known := i.before[channel]
	switch {
	case known[text]:
	case len(known) >= maxBefore:
		return channels.Other
	case known == nil:
		i.before[channel] = map[string]bool{text: true}
	default:
		known[text] = true
	}
	return text
}

// has notes the version that a client has.
func (s *sightings) has(k countKey, who asker, now time.Time) {
	s.installed[clientKey{k.channel, who.id}] = record.Installed{Channel: k.channel, Client: who.id, Version: k.version, Target: k.target, Cohort: k.cohort, Seen: now}
	if k.version != channels.Other {
		s.try(record.Try{Channel: k.channel, Client: who.id, Version: k.version, Running: now})
	}
}

// fetched notes a client that has a bundle, to its end, or will have it after some
// time. It counts for the channel that offered it to the client a moment ago, or for
// the only one that has it.
func (i *installs) fetched(ctx context.Context, offering []countKey, after time.Duration, who asker) {
	i.start(ctx)
	key := downloadKey{who.id, offering[0].version}
	i.mu.Lock()
	defer i.mu.Unlock()
	counted := countKey{channels.Other, key.version, channels.Other, ""}
	for _, k := range offering {
		if len(offering) == 1 || who.known && i.offered[key] == k.channel {
			counted = k
		}
	}
	i.seen.count(counted, eventDownload)
	if who.known && !i.seen.full() {
		i.seen.downloads[key] = record.Download{Client: who.id, Version: key.version, Time: i.now().Add(after)}
	}
}

// start lets the goroutine run, the first time. It outlives the context and ends
// with close.
func (i *installs) start(ctx context.Context) {
	i.begin.Do(func() {
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
		i.mu.Lock()
		i.stop = stop
		i.mu.Unlock()
		i.running.Go(func() { i.run(ctx) })
	})
}

// close writes what is left and ends the goroutine.
func (i *installs) close() {
	i.begin.Do(func() {}) // it does not start any more
	i.mu.Lock()
	stop := i.stop
	i.mu.Unlock()
	if stop != nil {
		stop()
	}
	i.running.Wait()
}

const (
	sightEvery = time.Second
	countEvery = time.Minute
	sightTime  = 10 * time.Second // that a write may take
)

func (i *installs) run(ctx context.Context) {
	sight, count := time.NewTicker(sightEvery), time.NewTicker(countEvery)
	defer sight.Stop()
	defer count.Stop()
	for {
		select {
		case <-sight.C:
			i.writeSightings(ctx)
		case <-count.C:
			i.writeCounts(ctx)
			i.countClients(ctx)
		case <-ctx.Done():
			last := context.WithoutCancel(ctx)
			i.writeSightings(last)
			i.writeCounts(last)
			return
		}
	}
}

// writeSightings writes to the records what was seen since it last did. What they
// don't take is kept for the next time.
func (i *installs) writeSightings(ctx context.Context) {
	i.mu.Lock()
	s := i.seen
	i.seen = newSightings()
	i.mu.Unlock()
	for name, n := range i.asks() { // of which nobody says who asks, or what they have
		key := countKey{name, channels.Other, channels.Other, ""}
		c := s.counts[key]
		c[eventCheck] += n
		c[eventAnonymous] += n
		s.counts[key] = c
	}
	for key, c := range s.counts {
		i.metrics.happened(key, c)
		sum := i.counted[key]
		for e, n := range c {
			sum[e] += n
		}
		i.counted[key] = sum
	}
	i.metrics.lostSightings.Add(float64(s.lost))
	if len(s.installed)+len(s.tries)+len(s.downloads) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sightTime)
	defer cancel()
	var err error
	for part := range s.parts() {
		if err = i.records.Sight(ctx, part); err != nil {
			i.keep(s) // to write a part again changes nothing
			break
		}
	}
	i.say(err)
}

// maxPart bounds the entries of one write, which holds up other writers.
const maxPart = 2000

// parts yields what was seen in pieces. Downloads come last: they are merged into
// tries.
func (s *sightings) parts() iter.Seq[record.Sightings] {
	return func(yield func(record.Sightings) bool) {
		for installed := range slices.Chunk(slices.Collect(maps.Values(s.installed)), maxPart) {
			if !yield(record.Sightings{Installed: installed}) {
				return
			}
		}
		for tries := range slices.Chunk(slices.Collect(maps.Values(s.tries)), maxPart) {
			if !yield(record.Sightings{Tries: tries}) {
				return
			}
		}
		for downloads := range slices.Chunk(slices.Collect(maps.Values(s.downloads)), maxPart) {
			if !yield(record.Sightings{Downloads: downloads}) {
				return
			}
		}
	}
}

// keep puts back what was not written, behind what was seen since.
func (i *installs) keep(s sightings) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for key, installed := range s.installed {
		if _, newer := i.seen.installed[key]; !newer && !i.seen.full() {
			i.seen.installed[key] = installed
		}
	}
	for _, t := range s.tries {
		if !i.seen.full() {
			i.seen.try(t)
		}
	}
	for key, d := range s.downloads {
		if _, newer := i.seen.downloads[key]; !newer && !i.seen.full() {
			i.seen.downloads[key] = d
		}
	}
}

// say logs when the records stop taking sightings, and when they do again.
func (i *installs) say(err error) {
	switch silent := err != nil; {
	case silent && !i.silent:
		i.log.Warn("what clients have can't be recorded", "error", err)
	case !silent && i.silent:
		i.log.Info("what clients have is recorded again")
	}
	i.silent = err != nil
}
