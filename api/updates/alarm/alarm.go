// Package alarm keeps the alarms of objects in the store that can't be believed: manifests, logs
// and records of releases. An object has one alarm at a time, which is logged, sent and counted
// once. It stays until the object verifies, or is replaced by another that does not.
package alarm

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
	"github.com/prometheus/client_golang/prometheus/promauto"

	"tsmon/channels"
	"tsmon/release/library"
)

// Max bounds the alarms of records of releases, because anybody may ask for any record. Manifests
// and logs always have theirs.
const Max = 100

// The kinds of alarms, as tsmon_updates_alarms counts them.
const (
	Manifest = "manifest" // latest.json does not verify, or is not what the log shows
	Log      = "log"      // the log can't be read, or shows what does not verify
	Unsigned = "unsigned" // the log lacks signatures of operators
	History  = "history"  // the log was shortened or rewritten
	Clock    = "clock"    // the log has entries from the future
	Record   = "record"   // the record of a release does not verify
)

// KindOf returns the kind of the alarm of a log that is not believed.
func KindOf(err error) string {
	switch {
	case errors.Is(err, channels.ErrHistory):
		return History
	case errors.Is(err, channels.ErrFuture):
		return Clock
	case errors.Is(err, channels.ErrUnsigned):
		return Unsigned
	}
	return Log
}

// Options configure a Board.
type Options struct {
	Log      *slog.Logger
	Now      func() time.Time
	Tell     func(object, etag, problem string) // called with each new alarm; may be nil
	Registry prometheus.Registerer
	Channels iter.Seq[string] // the configured ones, whose counters begin with zero
}

// Board holds the alarms that are raised.
type Board struct {
	Options
	badManifests *prometheus.CounterVec
	raisedNow    *prometheus.GaugeVec

	mu  sync.Mutex
	bad map[string]raised // by key
}

// NewBoard returns a board without alarms.
func NewBoard(o Options) *Board {
	add := promauto.With(o.Registry)
	b := &Board{
		Options: o, bad: map[string]raised{},
		badManifests: add.NewCounterVec(prometheus.CounterOpts{
			Name: "tsmon_updates_bad_manifests_total", Help: "Manifests that did not verify and were not shown, by channel.",
		}, []string{"channel"}),
		raisedNow: add.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tsmon_updates_alarms", Help: "Objects of the store that are not shown because they can't be believed, by channel (empty for records of releases) and kind: manifest, log, unsigned, history, clock, record.",
		}, []string{"channel", "kind"}),
	}
	for channel := range o.Channels {
		b.badManifests.WithLabelValues(channel) // a counter that begins with its first event shows no increase
		for _, kind := range []string{Manifest, Log, Unsigned, History, Clock} {
			b.raisedNow.WithLabelValues(channel, kind)
		}
	}
	b.raisedNow.WithLabelValues("", Record)
	return b
}

type raised struct {
	etag, kind string
	cause      string
	since      time.Time
	looked     time.Time // when it was last found not to verify
}

// count adds to the alarms of a kind that are raised for the channel of an object.
func (b *Board) count(key, kind string, n float64) {
	channel, rest, _ := strings.Cut(key, "/")
	if name, _, ok := strings.Cut(rest, "/"); ok && key == channels.LogPrefix(name) {
		channel = name
	}
	if kind == Record {
		channel = ""
	}
	b.raisedNow.WithLabelValues(channel, kind).Add(n)
}

// Raise records that an object does not verify.
func (b *Board) Raise(key, etag, kind string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, again := b.bad[key]
	if before.etag == etag && before.kind == kind {
		before.looked = b.Now()
		b.bad[key] = before
		return
	}
	if library.IsRecord(key) && len(b.bad) >= Max {
		return
	}
	cause := fmt.Sprintf("%.1000s", err.Error()) // it may name a problem for each byte
	if again {
		b.count(key, before.kind, -1)
	}
	b.bad[key] = raised{etag, kind, cause, b.Now(), b.Now()}
	b.count(key, kind, 1)
	if b.Tell != nil {
		b.Tell(key, etag, cause)
	}
	b.Log.Error("an object of the store does not verify and is not shown", "object", key, "etag", etag, "error", cause)
	channel, _, _ := strings.Cut(key, "/")
	if key == channels.ManifestKey(channel) {
		b.badManifests.WithLabelValues(channel).Inc()
	}
}

// Raised reports whether an object was found not to verify within a time. An older finding does
// not count, because what makes a record good may be another object.
func (b *Board) Raised(key, etag string, within time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	age := b.Now().Sub(b.bad[key].looked)
	return b.bad[key].etag == etag && age >= 0 && age < within
}

// Clear removes the alarm of an object.
func (b *Board) Clear(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, ok := b.bad[key]
	if !ok {
		return
	}
	b.count(key, before.kind, -1)
	delete(b.bad, key)
	b.Log.Info("an object of the store verifies again", "object", key)
}

// Alarm is an object of the store that does not verify and is not shown.
type Alarm struct {
	Object  string    `json:"object"`
	Problem string    `json:"problem"`
	Since   time.Time `json:"since"` // as this server saw it
}

// All returns the alarms, sorted by object.
func (b *Board) All() []Alarm {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := []Alarm{}
	for _, key := range slices.Sorted(maps.Keys(b.bad)) {
		all = append(all, Alarm{key, b.bad[key].cause, b.bad[key].since})
	}
	return all
}

// Records returns the keys of the records that do not verify.
func (b *Board) Records() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(b.bad)), func(key string) bool { return !library.IsRecord(key) })
}
