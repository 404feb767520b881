package fleet

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"

	"tsmon/channels"
	"tsmon/store/record"
	"tsmon/store/series"
)

// Options configure Sightings.
type Options struct {
	Records  Records
	Clients  int // how many are recorded per channel and per release; of more, a sample is
	Series   series.Store
	Channels func() map[string]Channel // the known channels
	Asks     func() map[string]int64   // requests for manifests since the last call, by channel
	Registry prometheus.Registerer
	Log      *slog.Logger
	Now      func() time.Time
}

// Records are the records that Sightings need.
type Records interface {
	record.Installs
	record.Samples
	CreateSecret(ctx context.Context, name string, value []byte) ([]byte, error)
	Refuse(ctx context.Context, channel, version string, at time.Time) error
}

// Sightings collects observations of clients. The state of each client is written to the
// records every second, the counts of events to the time series every minute. No request waits
// for either. While the records don't answer, Sightings keeps observations of as many clients
// as two samples may have and counts the rest as lost. If the records have not answered since
// Start, all observations are lost, because clients are recorded by a digest whose salt is in
// the records.
type Sightings struct {
	Options
	metrics   *metrics
	admission *admission
	salt      salt

	mu   sync.Mutex
	seen pending
	// At most maxSeen each:
	offered  *lru.Cache[downloadKey, string] // the channel that offered a client a version
	reported *lru.Cache[reportKey, struct{}] // what clients reported
	// Versions that clients have and that are older than the channel's log, at most maxBefore
	// per channel.
	before map[string]map[string]bool
	// Why sightings were lost, and when.
	lost   string
	lostAt time.Time

	recorded atomic.Uint64 // batches

	background

	// Only the goroutine that writes uses these:
	counted map[countKey]counts  // events of this minute
	unsent  []series.Sample      // samples that are not in the time series yet
	said    said                 // about the records, the samples, and full rollouts
	told    map[string]time.Time // when the records were last told that a channel's rollout is full

	// unswept has the sampleKeys of samples whose rows in the records may include clients that no
	// longer belong to them.
	unswept      sync.Map
	saidSweeping said // only the goroutine that sweeps uses it
}

// NewSightings returns Sightings that collect from the first event or from Start on, until
// Close.
func NewSightings(o Options) *Sightings {
	offered, _ := lru.New[downloadKey, string](maxSeen) // fails for sizes below 1 only
	reported, _ := lru.New[reportKey, struct{}](maxSeen)
	return &Sightings{
		Options: o, metrics: newMetrics(o.Registry), seen: newPending(o.Clients), offered: offered, reported: reported,
		before: map[string]map[string]bool{}, counted: map[countKey]counts{}, told: map[string]time.Time{}, admission: newAdmission(o.Clients),
		salt: salt{records: o.Records}, said: said{}, saidSweeping: said{},
	}
}

// Client identifies the sender of a request.
type Client struct {
	ID      string // any text that stays the same; may be empty
	Network string // network that the request came from
}

// client is how a client is recorded.
type client struct {
	id      record.ClientID
	network record.Network
	known   bool // it has an ID
}

// recordOf returns how a client is recorded. While the salt is unknown no client is recorded.
func (s *Sightings) recordOf(c Client, now time.Time) client {
	who, ok := s.salt.client(c)
	if !ok && c.ID != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen.lost++
		s.lost, s.lostAt = "the records could not be read since this server was started", now
	}
	return who
}

// admit reports whether a client may be recorded in a sample. A client whose sighting is lost
// must not be admitted, since it would take the room of others for a day.
func (s *Sightings) admit(k sampleKey, c client, now time.Time) bool {
	if !c.known || k.version == Other || !s.hasRoom() {
		return false
	}
	d := s.admission.admit(k, c.id, c.network, now)
	if d.refused {
		s.metrics.unrecorded.Inc()
	}
	if d.smaller {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen.prune(k, s.admission.sample(k))
	}
	return d.in
}

// Asked records that a client asked a channel and was answered.
func (s *Sightings) Asked(ctx context.Context, channel string, in Channel, c channels.Client, answer channels.Answer, from Client) {
	s.Start(ctx)
	now := s.Now()
	who := s.recordOf(from, now)
	had := countKey{channel, s.version(in, channel, c.Version), c.Target, in.Cohort(c.Cohort)}
	happened := []event{eventCheck}
	if c.ID == "" {
		happened = append(happened, eventAnonymous)
	}
	if answer.Held {
		happened = append(happened, eventHeld)
	}
	counted := s.admit(sampleKey{channel: channel}, who, now)
	runs := who.known && had.version != Other && s.admission.runs(sampleKey{channel, had.version}, who.id, in.Rolling() == had.version, now)
	tries := answer.Offer != nil && s.admit(sampleKey{channel, answer.Offer.Version}, who, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.count(had, 1, happened...)
	if answer.Offer != nil {
		s.seen.count(countKey{channel, answer.Offer.Version, c.Target, had.cohort}, 1, eventOffer)
	}
	if s.noRoom(now) {
		return
	}
	if counted {
		s.seen.install(record.Installed{Channel: channel, Client: who.id, Version: had.version, Target: c.Key(), Cohort: had.cohort, Seen: now, Asked: now})
	}
	if runs {
		s.seen.try(record.Try{Channel: channel, Client: who.id, Version: had.version, Running: now, Round: in.roundOf(had.version)})
	}
	if tries {
		s.seen.try(record.Try{Channel: channel, Client: who.id, Version: answer.Offer.Version, Asked: now, Network: who.network, Round: in.roundOf(answer.Offer.Version)})
		s.offered.Add(downloadKey{who.id, answer.Offer.Version}, channel)
	}
}

func (s *Sightings) hasRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.hasRoom()
}

// noRoom reports whether there is no room for more observations until some are written. The
// caller holds mu.
func (s *Sightings) noRoom(now time.Time) bool {
	if !s.seen.full() {
		return false
	}
	s.lost, s.lostAt = "more was seen of clients than this server can keep until it is recorded", now
	return true
}

// Full returns the reason why not all clients that were offered a release are recorded, empty
// if they are, and when an observation was last not recorded, zero for never. While clients are
// not recorded the outcomes are no evidence for the next step, because made-up clients may have
// taken the room of others.
func (s *Sightings) Full(channel, version string) (why string, at time.Time) {
	now := s.Now()
	why, at = s.admission.full(sampleKey{channel, version}, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.lostAt) < fullTime {
		why = s.lost
	}
	if s.lostAt.After(at) {
		at = s.lostAt
	}
	return why, at
}

// maxBefore bounds the versions per channel that are recorded by name although the log does not
// contain them: they were installed before the log began.
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
	s.Start(ctx)
	now := s.Now()
	who := s.recordOf(from, now)
	known := false
	for _, k := range offering {
		known = s.admit(sampleKey{k.channel, version}, who, now) || known
	}
	key := downloadKey{who.id, version}
	s.mu.Lock()
	defer s.mu.Unlock()
	counted := countKey{Other, version, Other, ""}
	last, _ := s.offered.Get(key)
	for _, k := range offering {
		if len(offering) == 1 || known && last == k.channel {
			counted = k
		}
	}
	s.seen.count(counted, 1, eventDownload)
	if known && !s.noRoom(now) {
		s.seen.downloads[key] = record.Download{Client: who.id, Version: version, Time: now.Add(after)}
	}
}

// Report is a report of an application about a release.
type Report struct {
	Channel string
	Version string // version of the release
	Target  string // OS-ARCH
	Cohort  string
	Event   string // started, installed, failed or crashed
	// At is when it happened. It is zero for a report whose sender is unknown, which is counted
	// in the time series but neither for nor against the release.
	At time.Time
}

var reportable = map[string]event{"started": eventStarted, "installed": eventInstalled, "failed": eventFailed, "crashed": eventCrashed}

// Reportable reports whether applications may report an event.
func Reportable(event string) bool { return reportable[event] != 0 }

// reportKey identifies a report that counts once.
type reportKey struct {
	tryKey
	event
	day int64 // since 1970, in UTC
}

// Reported records a report about a version that the channel's log contains. A
// client's event counts once a day.
func (s *Sightings) Reported(ctx context.Context, in Channel, r Report, from Client) {
	s.Start(ctx)
	now := s.Now()
	who := s.recordOf(from, now)
	k := countKey{r.Channel, in.Version(r.Version), in.Target(r.Target), in.Cohort(r.Cohort)}
	happened := reportable[r.Event]
	proven := !r.At.IsZero()
	tries := proven && s.admit(sampleKey{k.channel, k.version}, who, now)
	runs := proven && happened == eventStarted && s.admit(sampleKey{channel: k.channel}, who, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !who.known || s.noRoom(now) {
		return
	}
	once := reportKey{tryKey{clientKey{k.channel, who.id}, k.version}, happened, now.Unix() / (24 * 60 * 60)}
	if again, _ := s.reported.ContainsOrAdd(once, struct{}{}); !again {
		s.seen.count(k, 1, happened)
	}
	t := record.Try{Channel: k.channel, Client: who.id, Version: k.version, Round: in.roundOf(k.version)}
	switch happened {
	case eventStarted:
		t.Running = r.At
	case eventInstalled:
		t.Installed = r.At
	case eventFailed:
		t.Failed = r.At
	case eventCrashed:
		t.Crashed = r.At
	}
	if tries {
		s.seen.try(t)
	}
	if runs {
		s.seen.install(record.Installed{Channel: k.channel, Client: who.id, Version: k.version, Target: k.target, Cohort: k.cohort, Seen: now})
	}
}

const (
	sightEvery = time.Second
	countEvery = time.Minute
	sightTime  = 10 * time.Second // limit for a write
)

// tellFull is how often the records are updated while a rollout is full.
const tellFull = fullTime / 10
