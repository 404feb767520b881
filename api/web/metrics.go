package web

import (
	"context"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics serves /metrics to those that have the key. An address on this machine is no proof,
// since a proxy there may pass on the requests of strangers without saying so.
type Metrics struct {
	Registry prometheus.Gatherer
	Key      string                // bearer token; empty: nobody
	Look     func(context.Context) // brings gauges up to date; may be nil
}

func (m Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !SameSecret(Bearer(r), m.Key) {
		Responder{}.Fail(w, r, Refuse(http.StatusForbidden, "metrics are shown with a key, or at an address of their own"))
		return
	}
	m.Open(w, r)
}

// Open serves the metrics to anybody, for a listener of their own.
func (m Metrics) Open(w http.ResponseWriter, r *http.Request) {
	if m.Look != nil {
		m.Look(r.Context())
	}
	promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// Build says what the program was built from.
type Build struct{ Version, Commit string }

// BuildInfo returns a metric that is always 1 and names the build in its labels.
func BuildInfo(b Build) *prometheus.GaugeVec {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tsmon_build_info", Help: "What the program was built from; always 1.",
	}, []string{"version", "commit", "go"})
	info.WithLabelValues(b.Version, b.Commit, runtime.Version()).Set(1)
	return info
}
