package monitor

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsmon/store/series"
)

// measured is a store of time series whose queries are measured.
type measured struct {
	series.Store
	queries *prometheus.HistogramVec
}

func newMeasured(store series.Store, registry prometheus.Registerer) measured {
	queries := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tsmon_series_query_duration_seconds", Help: "Time that questions to the time-series database took, behind the cache.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
	}, []string{"question", "outcome"})
	registry.MustRegister(queries)
	for _, question := range []string{"current", "series"} {
		for _, outcome := range []string{"ok", "failed"} {
			queries.WithLabelValues(question, outcome)
		}
	}
	return measured{store, queries}
}

func (m measured) Current(ctx context.Context, database string, wants []series.Want) (values []series.Value, err error) {
	defer m.observe("current", time.Now(), &err)
	return m.Store.Current(ctx, database, wants)
}

func (m measured) Series(ctx context.Context, database string, ranges []series.Range) (results []series.Result, err error) {
	defer m.observe("series", time.Now(), &err)
	return m.Store.Series(ctx, database, ranges)
}

func (m measured) observe(question string, began time.Time, err *error) {
	outcome := "ok"
	if *err != nil {
		outcome = "failed"
	}
	m.queries.WithLabelValues(question, outcome).Observe(time.Since(began).Seconds())
}
