package api

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"tsmon/channels"
)

// maxAlarms is how many records are remembered that do not verify; manifests
// always are.
const maxAlarms = 100

// alarms are the objects of the update tree that do not verify, until something
// else stands in their place. Each is logged and counted once.
type alarms struct {
	log     *slog.Logger
	metrics *metrics

	mu  sync.Mutex
	bad map[string]alarm // by key
}

// alarm is what is wrong with one object.
type alarm struct {
	etag  string
	cause string
}

// raise remembers that an object does not verify.
func (a *alarms) raise(key, etag string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bad[key].etag == etag || isRecord(key) && len(a.bad) >= maxAlarms {
		return
	}
	cause := fmt.Sprintf("%.1000s", err.Error()) // which may name a problem for each byte
	a.bad[key] = alarm{etag, cause}
	a.log.Error("an object of the store does not verify and is not shown", "object", key, "etag", etag, "error", cause)
	a.metrics.refused(key, len(a.bad))
}

// raised reports whether an object is known not to verify.
func (a *alarms) raised(key, etag string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bad[key].etag == etag
}

// clear forgets what was wrong with an object.
func (a *alarms) clear(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.bad[key]; !ok {
		return
	}
	delete(a.bad, key)
	a.log.Info("an object of the store is sound again", "object", key)
	a.metrics.unverified.Set(float64(len(a.bad)))
}

// records returns the keys of the records that do not verify.
func (a *alarms) records() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a.bad)), func(key string) bool { return !isRecord(key) })
}

// err names the objects that do not verify.
func (a *alarms) err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(a.bad)) {
		errs = append(errs, fmt.Errorf("%s: %s", key, a.bad[key].cause))
	}
	return errors.Join(errs...)
}

// refused counts an object that does not verify; all is how many there are now.
func (m *metrics) refused(key string, all int) {
	m.unverified.Set(float64(all))
	channel, _, _ := strings.Cut(key, "/")
	if key == channels.ManifestKey(channel) {
		m.badManifests.WithLabelValues(channel).Inc()
	}
}
