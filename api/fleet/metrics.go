package fleet

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"tsmon/store/record"
)

type metrics struct {
	events        *prometheus.CounterVec
	lostSightings prometheus.Counter
	unrecorded    prometheus.Counter
	clients       *prometheus.GaugeVec
	rate          *prometheus.GaugeVec
	margin        *prometheus.GaugeVec
	full          *prometheus.GaugeVec
	tries         *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	add := promauto.With(registry)
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return add.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	counter := func(name, help string) prometheus.Counter {
		return add.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &metrics{
		events: add.NewCounterVec(prometheus.CounterOpts{
			Name: "tsmon_updates_events_total", Help: "What clients of updates asked, were offered, downloaded and reported, through this server.",
		}, []string{"event", "channel", "version", "target", "cohort"}),
		lostSightings: counter("tsmon_updates_lost_sightings_total", "What was seen of clients and could not be recorded."),
		unrecorded:    counter("tsmon_updates_unrecorded_total", "Questions and reports of clients that are not recorded, because their network has its share."),
		rate:          gauge("tsmon_updates_sample_ratio", "The share of the clients of a channel that is recorded; the numbers of clients are estimates from it.", "channel"),
		margin:        gauge("tsmon_updates_clients_margin", "By how many clients the number of all clients of a channel is off at most, in 19 of 20 cases.", "channel"),
		full:          gauge("tsmon_updates_rollout_full", "1 while clients of a rollout are not recorded for lack of room, so that its steps wait.", "channel"),
		clients:       gauge("tsmon_updates_clients", "Clients by what they have, through all servers, in the last 30 days.", "channel", "version", "target", "cohort"),
		tries:         gauge("tsmon_updates_newest_clients", "Clients by what they came to with the newest release of a channel, through all servers.", "channel", "version", "outcome"),
	}
}

// count adds the events of a second.
func (m *metrics) count(k countKey, c counts) {
	for e, n := range c {
		if n > 0 {
			m.events.WithLabelValues(Events[e], k.channel, k.version, k.target, k.cohort).Add(float64(n))
		}
	}
}

func (m *metrics) setClients(channel string, clients []record.ClientCount, n NewestCounts) {
	for _, gauges := range []*prometheus.GaugeVec{m.clients, m.tries} {
		gauges.DeletePartialMatch(prometheus.Labels{"channel": channel})
	}
	all, level := 0, record.Level(0)
	for _, c := range clients {
		all, level = all+c.Clients, c.Level
		m.clients.WithLabelValues(channel, c.Version, c.Target, c.Cohort).Set(float64(c.Estimate()))
	}
	m.rate.WithLabelValues(channel).Set(level.Rate())
	m.margin.WithLabelValues(channel).Set(float64(level.Margin(all)))
	for outcome, clients := range map[string]int{
		"crashed": n.Crashed, "running": n.Running, "failed": n.Failed, "kept": n.Kept, "waiting": n.Waiting, "offered": n.Offered,
	} {
		m.tries.WithLabelValues(channel, n.Version, outcome).Set(float64(clients))
	}
}
