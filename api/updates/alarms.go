package updates

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsmon/channels"
	"tsmon/release/library"
)

// maxAlarms bounds the records that are remembered because they do not verify.
// Manifests always are.
const maxAlarms = 100

// The kinds of alarms, as tsmon_updates_alarms counts them.
const (
	kindManifest = "manifest" // latest.json does not verify, or is not what the log shows
	kindLog      = "log"      // the log can't be read, or shows what does not verify
	kindUnsigned = "unsigned" // the log lacks signatures of operators
	kindHistory  = "history"  // the log was shortened or rewritten
	kindClock    = "clock"    // the log has entries from the future
	kindRecord   = "record"   // the record of a release does not verify
)

var kinds = []string{kindManifest, kindLog, kindUnsigned, kindHistory, kindClock, kindRecord}

// kindOf returns the kind of the alarm of a log that is not believed.
func kindOf(err error) string {
	switch {
	case errors.Is(err, channels.ErrHistory):
		return kindHistory
	case errors.Is(err, channels.ErrFuture):
		return kindClock
	case errors.Is(err, channels.ErrUnsigned):
		return kindUnsigned
	}
	return kindLog
}

// alarms are the objects of the update tree that do not verify, until they are
// replaced. Each is logged and counted once.
type alarms struct {
	log          *slog.Logger
	now          func() time.Time
	tell         func(object, etag, problem string) // may be nil
	badManifests *prometheus.CounterVec
	raisedNow    *prometheus.GaugeVec

	mu  sync.Mutex
	bad map[string]alarm // by key
}

func newAlarms(log *slog.Logger, now func() time.Time, registry prometheus.Registerer, configured iter.Seq[string]) *alarms {
	a := &alarms{
		log: log, now: now, bad: map[string]alarm{},
		badManifests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsmon_updates_bad_manifests_total", Help: "Manifests that did not verify and were not shown, by channel.",
		}, []string{"channel"}),
		raisedNow: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tsmon_updates_alarms", Help: "Objects of the store that are not shown because they can't be believed, by channel (empty for records of releases) and kind: manifest, log, unsigned, history, clock, record.",
		}, []string{"channel", "kind"}),
	}
	registry.MustRegister(a.badManifests, a.raisedNow)
	for channel := range configured {
		a.badManifests.WithLabelValues(channel) // a counter that begins with its first event shows no increase
		for _, kind := range kinds {
			if kind != kindRecord {
				a.raisedNow.WithLabelValues(channel, kind)
			}
		}
	}
	a.raisedNow.WithLabelValues("", kindRecord)
	return a
}

// alarm is what is wrong with one object.
type alarm struct {
	etag, kind string
	cause      string
	since      time.Time
	looked     time.Time // when it was last found not to verify
}

// count adds to the alarms of a kind that are raised for the channel of an object.
func (a *alarms) count(key, kind string, n float64) {
	channel, rest, _ := strings.Cut(key, "/")
	if name, _, ok := strings.Cut(rest, "/"); ok && key == channels.LogPrefix(name) {
		channel = name
	}
	if kind == kindRecord {
		channel = ""
	}
	a.raisedNow.WithLabelValues(channel, kind).Add(n)
}

// raise records that an object does not verify.
func (a *alarms) raise(key, etag, kind string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, again := a.bad[key]
	if before.etag == etag && before.kind == kind {
		before.looked = a.now()
		a.bad[key] = before
		return
	}
	if library.IsRecord(key) && len(a.bad) >= maxAlarms {
		return
	}
	cause := fmt.Sprintf("%.1000s", err.Error()) // it may name a problem for each byte
	if again {
		a.count(key, before.kind, -1)
	}
	a.bad[key] = alarm{etag, kind, cause, a.now(), a.now()}
	a.count(key, kind, 1)
	if a.tell != nil {
		a.tell(key, etag, cause)
	}
	a.log.Error("an object of the store does not verify and is not shown", "object", key, "etag", etag, "error", cause)
	channel, _, _ := strings.Cut(key, "/")
	if key == channels.ManifestKey(channel) {
		a.badManifests.WithLabelValues(channel).Inc()
	}
}

// raised reports whether an object was found not to verify within standsEvery: what makes a
// record good may be another object.
func (a *alarms) raised(key, etag string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	age := a.now().Sub(a.bad[key].looked)
	return a.bad[key].etag == etag && age >= 0 && age < standsEvery
}

// clear removes the alarm of an object.
func (a *alarms) clear(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, ok := a.bad[key]
	if !ok {
		return
	}
	a.count(key, before.kind, -1)
	delete(a.bad, key)
	a.log.Info("an object of the store verifies again", "object", key)
}

// Alarm is an object of the store that does not verify and is not shown.
type Alarm struct {
	Object  string    `json:"object"`
	Problem string    `json:"problem"`
	Since   time.Time `json:"since"` // as this server saw it
}

// all returns the alarms, sorted by object.
func (a *alarms) all() []Alarm {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := []Alarm{}
	for _, key := range slices.Sorted(maps.Keys(a.bad)) {
		all = append(all, Alarm{key, a.bad[key].cause, a.bad[key].since})
	}
	return all
}

// records returns the keys of the records that do not verify.
func (a *alarms) records() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a.bad)), func(key string) bool { return !library.IsRecord(key) })
}
