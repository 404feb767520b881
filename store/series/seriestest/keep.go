package seriestest

import (
	"math"
	"slices"
	"testing"
	"time"

	"tsmon/store/series"
)

// keep shortens the retention of a database, whose hours and days stay as they were. Its clock is the machine's, which servers
// go by.
func keep(t *testing.T, f *fixture) {
	const day = 24 * time.Hour
	f.now = time.Now().Truncate(time.Second)
	for ago := range 80 {
		f.write(t, series.Sample{Measurement: "m", Time: f.now.Add(-time.Duration(ago)*day/2 - time.Minute), Fields: map[string]any{
			"f": float64(ago) / 7, "i": int64(ago), "b": ago%3 == 0, "t": "text",
		}})
	}
	f.wantBefore(t, f.now.Add(-20*day), 4*40)
	f.wantBefore(t, f.now.Add(-100*day), 0)
	zone, err := time.LoadLocation("America/Bogota")
	if err != nil {
		t.Fatal(err)
	}
	var ranges []series.Range
	for _, field := range []string{"f", "i", "b", "none"} {
		for _, every := range []time.Duration{time.Hour, 6 * time.Hour, day, 7 * day} {
			start := time.Date(f.now.Year(), f.now.Month(), f.now.Day()-35, 0, 0, 0, 0, zone)
			ranges = append(ranges, series.Range{Key: key("m", field), Start: start, Stop: f.now, Every: every, Zone: zone})
		}
	}
	before := f.series(t, ranges...)
	if err := f.store.Keep(t.Context(), f.database, series.Keeping{Retention: 10 * day, Zone: zone}); err != nil {
		t.Fatal(err)
	}
	f.awaitNoneBefore(t, f.now.Add(-18*day)) // the day or week of a value may have newer ones
	for i, result := range f.series(t, ranges...) {
		if !slices.EqualFunc(result.Points, before[i].Points, func(a, b series.Point) bool {
			return a.Time.Equal(b.Time) && math.Abs(a.Number-b.Number) < 1e-12*math.Abs(b.Number)+1e-300
		}) {
			t.Errorf("%s every %s is\n%+v\nnot\n%+v", ranges[i].Key, ranges[i].Every, result.Points, before[i].Points)
		}
	}
	old := series.Sample{Measurement: "m", Fields: map[string]any{"f": 1.0}, Time: f.now.Add(-12 * day)}
	recent := series.Sample{Measurement: "m", Fields: map[string]any{"f": 7.0}, Time: f.now.Add(-time.Second)}
	wantError(t, f.store.Write(t.Context(), f.database, []series.Sample{old, recent}), series.ErrExpired)
	f.wantLast(t, key("m", "f"), 7, recent.Time)
	if err := f.store.Keep(t.Context(), f.database, series.Keeping{Retention: series.AsItIs}); err != nil {
		t.Fatal(err)
	}
	wantError(t, f.store.Write(t.Context(), f.database, []series.Sample{old}), series.ErrExpired)
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
	for _, retention := range []time.Duration{-2, 1, series.MinRetention - 1, series.MaxRetention + 1} {
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
