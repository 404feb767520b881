package series_test

import (
	"testing"
	"time"

	"tsmon/store/series"
)

func TestPoints(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	early, late := time.Date(1700, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(2249, 12, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		start, stop time.Time
		every       time.Duration
		limit, want int
	}{
		{start, start.Add(1), time.Hour, 0, 2}, // the window's own start is not known
		{start, start.Add(time.Hour), time.Hour, 0, 2},
		{start, start.Add(time.Hour + 1), time.Hour, 0, 3},
		{start, start.Add(24 * time.Hour), time.Minute, 0, 1441},
		{start, start.Add(24 * time.Hour), time.Minute, 100, 100},
		{start, start.Add(24 * time.Hour), time.Second, 0, series.DefaultLimit},
		{early, late, 1, 0, series.DefaultLimit},
		{early, late, 1, 1 << 30, 1 << 30},
		{early, late, 3660 * 24 * time.Hour, 0, 58},
	} {
		r := series.Range{Key: series.Key{Measurement: "m", Field: "f"}, Start: c.start, Stop: c.stop, Every: c.every, Limit: c.limit}
		if err := series.ValidRanges([]series.Range{r}); err != nil {
			t.Fatal(err)
		}
		if got := r.Points(); got != c.want {
			t.Errorf("%s to %s every %s, limit %d: %d points, want %d", c.start, c.stop, c.every, c.limit, got, c.want)
		}
	}
}
