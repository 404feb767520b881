package updates

import (
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
	"tsmon/release"
)

// maxAlarms bounds the records that are remembered because they do not verify.
// Manifests always are.
const maxAlarms = 100

// alarms are the objects of the update tree that do not verify, until they are
// replaced. Each is logged and counted once.
type alarms struct {
	log          *slog.Logger
	now          func() time.Time
	tell         func(object, etag, problem string) // may be nil
	badManifests *prometheus.CounterVec
	unverified   prometheus.Gauge

	mu  sync.Mutex
	bad map[string]alarm // by key
}

func newAlarms(log *slog.Logger, now func() time.Time, registry prometheus.Registerer, configured iter.Seq[string]) *alarms {
	a := &alarms{
		log: log, now: now, bad: map[string]alarm{},
		badManifests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsmon_updates_bad_manifests_total", Help: "Manifests that did not verify and were not shown, by channel.",
		}, []string{"channel"}),
		unverified: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tsmon_updates_unverified", Help: "Manifests and records of releases in the store that do not verify.",
		}),
	}
	registry.MustRegister(a.badManifests, a.unverified)
	for channel := range configured {
		a.badManifests.WithLabelValues(channel) // a counter that begins with its first event shows no increase
	}
	return a
}

// alarm is what is wrong with one object.
type alarm struct {
	etag  string
	cause string
	since time.Time
}

// raise records that an object does not verify.
func (a *alarms) raise(key, etag string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bad[key].etag == etag || release.IsRecord(key) && len(a.bad) >= maxAlarms {
		return
	}
	cause := fmt.Sprintf("%.1000s", err.Error()) // it may name a problem for each byte
	a.bad[key] = alarm{etag, cause, a.now()}
	if a.tell != nil {
		a.tell(key, etag, cause)
	}
	a.log.Error("an object of the store does not verify and is not shown", "object", key, "etag", etag, "error", cause)
	a.unverified.Set(float64(len(a.bad)))
	channel, _, _ := strings.Cut(key, "/")
	if key == channels.ManifestKey(channel) {
		a.badManifests.WithLabelValues(channel).Inc()
	}
}

// raised reports whether an object is known not to verify.
func (a *alarms) raised(key, etag string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bad[key].etag == etag
}

// clear removes the alarm of an object.
func (a *alarms) clear(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.bad[key]; !ok {
		return
	}
	delete(a.bad, key)
	a.log.Info("an object of the store verifies again", "object", key)
	a.unverified.Set(float64(len(a.bad)))
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
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a.bad)), func(key string) bool { return !release.IsRecord(key) })
}
