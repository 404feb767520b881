package seriestest

import (
	"testing"
	"time"

	"tsmon/store/series"
)

// keep shortens the retention of a database. Its clock is the machine's, which servers
// go by.
func keep(t *testing.T, f *fixture) {
	const day = 24 * time.Hour
	f.now = time.Now().Truncate(time.Second)
	for ago := range 40 {
		f.write(t, series.Sample{Measurement: "m", Time: f.now.Add(-time.Duration(ago)*day - time.Minute), Fields: map[string]any{
			"f": float64(ago), "i": int64(ago), "b": ago%2 == 0, "t": "text",
		}})
	}
	f.wantBefore(t, f.now.Add(-20*day), 4*20)
	f.wantBefore(t, f.now.Add(-100*day), 0)
	if err := f.store.Keep(t.Context(), f.database, series.Keeping{Retention: 10 * day}); err != nil {
		t.Fatal(err)
	}
	f.awaitNoneBefore(t, f.now.Add(-18*day)) // the day or week of a value may have newer ones
	r := series.Range{Key: key("m", "f"), Start: f.now.Add(-9 * day), Stop: f.now, Every: day}
	results, err := f.store.Series(t.Context(), f.database, []series.Range{r})
	if err != nil || len(results[0].Points) != 9 && len(results[0].Points) != 10 {
		t.Errorf("%+v, %v", results, err)
	}
	old := series.Sample{Measurement: "m", Fields: map[string]any{"f": 1.0}, Time: f.now.Add(-12 * day)}
	recent := series.Sample{Measurement: "m", Fields: map[string]any{"f": 7.0}, Time: f.now.Add(-time.Second)}
	wantError(t, f.store.Write(t.Context(), f.database, []series.Sample{old, recent}), series.ErrExpired)
	f.wantLast(t, key("m", "f"), 7, recent.Time)
	if err := f.store.Keep(t.Context(), f.database, series.Keeping{}); err != nil {
		t.Fatal(err)
	}
	f.wantLast(t, key("m", "f"), 7, recent.Time)
}

func (f *fixture) wantBefore(t *testing.T, when time.Time, want int64) {
	t.Helper()
	if n, err := f.store.CountBefore(t.Context(), f.database, when); err != nil || n != want {
		t.Errorf("%d values before %s, %v, not %d", n, when, err, want)
	}
}

// awaitNoneBefore waits until the database has deleted what is older than a time.
func (f *fixture) awaitNoneBefore(t *testing.T, when time.Time) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := f.store.CountBefore(t.Context(), f.database, when)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%d values are left", n)
		case <-tick.C:
		}
	}
}

func keepRefuses(t *testing.T, f *fixture) {
	for _, retention := range []time.Duration{-1, 1, series.MinRetention - 1, series.MaxRetention + 1} {
		wantError(t, f.store.Keep(t.Context(), f.database, series.Keeping{Retention: retention}), series.ErrInvalid)
	}
	for _, zone := range []string{"America/Bogota", "Asia/Kathmandu"} {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.store.Keep(t.Context(), f.database, series.Keeping{Retention: series.MaxRetention, Zone: location}); err != nil {
			t.Error(err)
		}
	}
}
