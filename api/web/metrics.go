package web

import (
	"net"
	"net/http"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics serves /metrics to this machine and to those that have the key.
type Metrics struct {
	Registry    prometheus.Gatherer
	Key         string // bearer token; empty: only this machine
	BehindProxy bool
}

// ServeHTTP implements http.Handler.
func (m Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !m.allowed(r) {
		Responder{}.Fail(w, r, Refuse(http.StatusForbidden, "metrics are shown to this machine, or with a key"))
		return
	}
	promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// allowed recognises a local client by its connection. A request that a proxy
// passes on is not local.
func (m Metrics) allowed(r *http.Request) bool {
	if SameSecret(Bearer(r), m.Key) {
		return true
	}
	for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Via"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback() && !m.BehindProxy
}
