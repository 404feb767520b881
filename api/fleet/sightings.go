package fleet

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsmon/channels"
	"tsmon/store/record"
	"tsmon/store/series"
)

// Options are what Sightings need.
type Options struct {
	Records  record.Installs
	Series   series.Store
	Channels func() map[string]Channel // that are known
	Asks     func() map[string]int64   // requests for manifests since the last call, by channel
	Registry prometheus.Registerer
	Log      *slog.Logger
	Now      func() time.Time
}

// Sightings collects what is seen of clients. What each of them has goes to the
// records every second, how often each event happened to the time series every
// minute. No request waits for either. While the records don't answer it keeps up
// to maxSeen clients and counts the rest as lost.
type Sightings struct {
	Options
	metrics  *metrics
	admitted admitted

	mu   sync.Mutex
	seen pending
	// At most maxSeen each:
	offered  map[downloadKey]string // the channel that offered a client a version
	reported map[reportKey]bool     // what clients reported
	// Versions of clients that are older than the channel's log, at most maxBefore of
	// each channel.
	before map[string]map[string]bool

	recorded atomic.Uint64 // batches

	begin   sync.Once
	stop    context.CancelFunc // nil until it runs
	running sync.WaitGroup

	// Only the goroutine uses these:
	forgot  time.Time           // when clients were last forgotten
	counted map[countKey]counts // of this minute
	unsent  []series.Sample     // not in the time series yet
	failing bool                // the last write to the records failed
}

// NewSightings returns sightings that begin with the first event or with Start.
// Close ends them.
func NewSightings(o Options) *Sightings {
	return &Sightings{
		Options: o, metrics: newMetrics(o.Registry), seen: newPending(), offered: map[downloadKey]string{}, reported: map[reportKey]bool{},
		before: map[string]map[string]bool{}, counted: map[countKey]counts{},
	}
}

// Client is who sent a request.
type Client struct {
	ID      string // any text that stays the same; may be empty
	Network string // that it asks from
}

// identity is how a client is recorded.
type identity struct {
	id    record.ClientID
	known bool // it has an ID, and may be recorded
}

func (s *Sightings) identify(c Client) identity {
	if c.ID == "" {
		return identity{}
	}
	sum := sha256.Sum256([]byte("tsmon client\x00" + c.ID))
	found := identity{id: record.ClientID(sum[:16])}
	if found.known = s.admitted.admit(found.id, c.Network, s.Now()); !found.known {
		s.metrics.unrecorded.Inc()
	}
	return found
}

// Asked records that a client asked a channel and was answered.
func (s *Sightings) Asked(ctx context.Context, channel string, in Channel, c channels.Client, answer channels.Answer, from Client) {
	who := s.identify(from)
	s.Start(ctx)
	now := s.Now()
	had := countKey{channel, s.version(in, channel, c.Version), c.Target, in.Cohort(c.Cohort)}
	happened := []event{eventCheck}
	if c.ID == "" {
		happened = append(happened, eventAnonymous)
	}
	if answer.Held {
		happened = append(happened, eventHeld)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.count(had, happened...)
	if answer.Offer != nil {
		s.seen.count(countKey{channel, answer.Offer.Version, c.Target, had.cohort}, eventOffer)
	}
	if !who.known || s.seen.full() {
		return
	}
	s.seen.install(had, who, now)
	if answer.Offer != nil {
		s.seen.try(record.Try{Channel: channel, Client: who.id, Version: answer.Offer.Version, Asked: now})
		if len(s.offered) >= maxSeen {
			clear(s.offered)
		}
		s.offered[downloadKey{who.id, answer.Offer.Version}] = channel
	}
}

// maxBefore bounds the versions of a channel that its log does not contain and that
// are recorded by name all the same: they were installed before the log began.
const maxBefore = 20

// version returns the name of a version that a client has.
func (s *Sightings) version(in Channel, channel, text string) string {
	if name := in.Version(text); name != Other || !in.Older(text) {
		return name
	}
	text = strings.TrimLeft(text, "v")
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.before[channel]
	switch {
	case known[text]:
	case len(known) >= maxBefore:
		return Other
	case known == nil:
		s.before[channel] = map[string]bool{text: true}
	default:
		known[text] = true
	}
	return text
}

// Downloaded records that a client has a bundle, or will have it after some time. It
// counts for the channel that last offered the version to the client, or for the
// only one that contains it.
func (s *Sightings) Downloaded(ctx context.Context, version, file, cohort string, after time.Duration, from Client) {
	var offering []countKey
	for name, c := range s.Channels() {
		if target, ok := c.TargetOf(version, file); ok {
			offering = append(offering, countKey{name, version, target, c.Cohort(cohort)})
		}
	}
	if len(offering) == 0 {
		return
	}
	who := s.identify(from)
	s.Start(ctx)
	key := downloadKey{who.id, version}
	s.mu.Lock()
	defer s.mu.Unlock()
	counted := countKey{Other, version, Other, ""}
	for _, k := range offering {
		if len(offering) == 1 || who.known && s.offered[key] == k.channel {
			counted = k
		}
	}
	s.seen.count(counted, eventDownload)
	if who.known && !s.seen.full() {
		s.seen.downloads[key] = record.Download{Client: who.id, Version: version, Time: s.Now().Add(after)}
	}
}

// Report is what an application reports of a release.
type Report struct {
	Channel string
	Version string // of the release
	Target  string // OS-ARCH
	Cohort  string
	Event   string // started, installed, failed or crashed
}

var reportable = map[string]event{"started": eventStarted, "installed": eventInstalled, "failed": eventFailed, "crashed": eventCrashed}

// Reportable reports whether applications may report an event.
func Reportable(event string) bool { return reportable[event] != 0 }

// reportKey counts once.
type reportKey struct {
	tryKey
	event
	day int64 // since 1970, in UTC
}

// Reported records a report about a version that the channel's log contains. A
// client's event counts once a day.
func (s *Sightings) Reported(ctx context.Context, in Channel, r Report, from Client) {
	who := s.identify(from)
	s.Start(ctx)
	now := s.Now()
	k := countKey{r.Channel, in.Version(r.Version), in.Target(r.Target), in.Cohort(r.Cohort)}
	happened := reportable[r.Event]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !who.known || s.seen.full() {
		return
	}
	once := reportKey{tryKey{clientKey{k.channel, who.id}, k.version}, happened, now.Unix() / (24 * 60 * 60)}
	if !s.reported[once] {
		s.seen.count(k, happened)
	}
	if len(s.reported) >= maxSeen {
		clear(s.reported)
	}
	s.reported[once] = true
	t := record.Try{Channel: k.channel, Client: who.id, Version: k.version}
	switch happened {
	case eventStarted:
		s.seen.install(k, who, now)
		return
	case eventInstalled:
		t.Installed = now
	case eventFailed:
		t.Failed = now
	case eventCrashed:
		t.Crashed = now
	}
	s.seen.try(t)
}

// Start begins to write what was seen, the first time that it is called. Writing
// ends with Close, not with the context.
func (s *Sightings) Start(ctx context.Context) {
	s.begin.Do(func() {
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
		s.mu.Lock()
		s.stop = stop
		s.mu.Unlock()
		s.running.Go(func() { s.run(ctx) })
	})
}

// Close writes what is left and waits until that is done.
func (s *Sightings) Close() {
	s.begin.Do(func() {}) // Start does nothing from now on
	s.mu.Lock()
	stop := s.stop
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
	s.running.Wait()
}

const (
	sightEvery = time.Second
	countEvery = time.Minute
	sightTime  = 10 * time.Second // for a write
)

func (s *Sightings) run(ctx context.Context) {
	sight, count := time.NewTicker(sightEvery), time.NewTicker(countEvery)
	defer sight.Stop()
	defer count.Stop()
	for {
		select {
		case <-sight.C:
			s.writeSightings(ctx)
		case <-count.C:
			s.writeCounts(ctx)
			s.countClients(ctx)
		case <-ctx.Done():
			last := context.WithoutCancel(ctx)
			s.writeSightings(last)
			s.writeCounts(last)
			return
		}
	}
}

// writeSightings writes what was seen since the last time to the records. What they
// don't accept is kept for the next time.
func (s *Sightings) writeSightings(ctx context.Context) {
	s.mu.Lock()
	p := s.seen
	s.seen = newPending()
	s.mu.Unlock()
	for name, n := range s.Asks() { // which don't say who asks or which version they have
		key := countKey{name, Other, Other, ""}
		c := p.counts[key]
		c[eventCheck] += n
		c[eventAnonymous] += n
		p.counts[key] = c
	}
	for key, c := range p.counts {
		s.metrics.count(key, c)
		sum := s.counted[key]
		for e, n := range c {
			sum[e] += n
		}
		s.counted[key] = sum
	}
	s.metrics.lostSightings.Add(float64(p.lost))
	if len(p.installed)+len(p.tries)+len(p.downloads) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sightTime)
	defer cancel()
	var err error
	for batch := range p.batches() {
		if err = s.Records.Sight(ctx, batch); err != nil {
			s.mu.Lock()
			s.seen.keep(p) // to write a batch again changes nothing
			s.mu.Unlock()
			break
		}
		s.recorded.Add(1)
	}
	s.note(err)
}

// Recorded returns a number that grows whenever something new is in the records.
func (s *Sightings) Recorded() uint64 { return s.recorded.Load() }

// note logs when writing to the records begins to fail, and when it works again.
func (s *Sightings) note(err error) {
	switch failing := err != nil; {
	case failing && !s.failing:
		s.Log.Warn("what clients have can't be recorded", "error", err)
	case !failing && s.failing:
		s.Log.Info("what clients have is recorded again")
	}
	s.failing = err != nil
}
