package web

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics serves /metrics to those that have the key. An address is no proof: a proxy on
// this machine passes on the requests of strangers, and need not say so.
type Metrics struct {
	Registry prometheus.Gatherer
	Key      string // bearer token; empty: nobody
}

// ServeHTTP implements http.Handler.
func (m Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !SameSecret(Bearer(r), m.Key) {
		Responder{}.Fail(w, r, Refuse(http.StatusForbidden, "metrics are shown with a key, or at an address of their own"))
		return
	}
	m.Open(w, r)
}

// Open serves the metrics to anybody, for a listener of their own.
func (m Metrics) Open(w http.ResponseWriter, r *http.Request) {
	promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}
