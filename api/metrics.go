package api

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tsmon/store/record"
	"tsmon/store/series"
)

// metrics are what /metrics shows: the requests, the questions to the
// time-series database, what does not verify, and the process.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	queries  *prometheus.HistogramVec

	badManifests *prometheus.CounterVec
	unverified   prometheus.Gauge

	events        *prometheus.CounterVec
	lostSightings prometheus.Counter
	unrecorded    prometheus.Counter
	clients       *prometheus.GaugeVec
	tries         *prometheus.GaugeVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tsmon_http_request_duration_seconds", Help: "Time that requests took, by route, method and status.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"route", "method", "status"}),
		queries: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tsmon_series_query_duration_seconds", Help: "Time that questions to the time-series database took, behind the cache.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"question", "outcome"}),
		badManifests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsmon_updates_bad_manifests_total", Help: "Manifests that did not verify and were not shown, by channel.",
		}, []string{"channel"}),
		unverified: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tsmon_updates_unverified", Help: "Manifests and records of releases in the store that do not verify.",
		}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsmon_updates_events_total", Help: "What clients of updates asked, were offered, downloaded and reported, through this server.",
		}, []string{"event", "channel", "version", "target", "cohort"}),
		lostSightings: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsmon_updates_lost_sightings_total", Help: "What was seen of clients and could not be recorded.",
		}),
		unrecorded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsmon_updates_unrecorded_total", Help: "Questions and reports of clients beyond the number that is recorded in a day.",
		}),
		clients: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tsmon_updates_clients", Help: "Clients by what they have, through all servers, in the last 30 days.",
		}, []string{"channel", "version", "target", "cohort"}),
		tries: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tsmon_updates_newest_clients", Help: "Clients by what they came to with the newest release of a channel, through all servers.",
		}, []string{"channel", "version", "outcome"}),
	}
	m.registry.MustRegister(m.requests, m.queries, m.badManifests, m.unverified, m.events, m.lostSightings, m.unrecorded, m.clients, m.tries, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// happened counts the events of a second.
func (m *metrics) happened(k countKey, c counts) {
	for e, n := range c {
		if n > 0 {
			m.events.WithLabelValues(UpdateEvents[e], k.channel, k.version, k.target, k.cohort).Add(float64(n))
		}
	}
}

// clientsOf replaces what is shown of a channel's clients.
func (m *metrics) clientsOf(channel, newest string, clients []record.ClientCount, p record.Progress) {
	for _, gauges := range []*prometheus.GaugeVec{m.clients, m.tries} {
		gauges.DeletePartialMatch(prometheus.Labels{"channel": channel})
	}
	for _, c := range clients {
		m.clients.WithLabelValues(channel, c.Version, c.Target, c.Cohort).Set(float64(c.Clients))
	}
	for outcome, n := range map[string]int{
		"crashed": p.Crashed, "running": p.Running, "failed": p.Failed, "kept": p.Kept, "waiting": p.Waiting, "offered": p.Offered,
	} {
		m.tries.WithLabelValues(channel, newest, outcome).Set(float64(n))
	}
}

// countedStore measures the questions that reach a store.
type countedStore struct {
	series.Store
	queries *prometheus.HistogramVec
}

func (m *metrics) counted(store series.Store) series.Store { return countedStore{store, m.queries} }

func (c countedStore) Current(ctx context.Context, database string, wants []series.Want) (values []series.Value, err error) {
	defer c.observe("current", time.Now(), &err)
	return c.Store.Current(ctx, database, wants)
}

func (c countedStore) Series(ctx context.Context, database string, ranges []series.Range) (results []series.Result, err error) {
	defer c.observe("series", time.Now(), &err)
	return c.Store.Series(ctx, database, ranges)
}

func (c countedStore) observe(question string, began time.Time, err *error) {
	outcome := "ok"
	if *err != nil {
		outcome = "failed"
	}
	c.queries.WithLabelValues(question, outcome).Observe(time.Since(began).Seconds())
}

// measured answers /metrics, to this machine and to those that have the key.
func (s *Server) measured(w http.ResponseWriter, r *http.Request) {
	if !s.mayMeasure(r) {
		s.fail(w, r, refuse(http.StatusForbidden, "metrics are shown to this machine, or with a key"))
		return
	}
	promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// mayMeasure tells a local client by its connection; one that a proxy passes on
// comes from elsewhere.
func (s *Server) mayMeasure(r *http.Request) bool {
	if sameSecret(bearer(r), s.MetricsKey) {
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
	return err == nil && address.IsLoopback() && !s.BehindProxy
}
