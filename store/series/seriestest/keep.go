package seriestest

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"tsmon/store/series"
)

const day = 24 * time.Hour

// keep shortens the retention of a database. Its hours, days and aggregates must stay the
// same. The test uses the machine's clock, since servers do.
func keep(t *testing.T, f *fixture) {
	f.now = time.Now().Truncate(time.Second)
	for _, name := range []string{"America/Bogota", "Asia/Kolkata", "Asia/Kathmandu", "changing"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := *f
			own.database = f.create(t)
			zone := changing(t, f.now.Add(-23*day).Truncate(time.Hour))
			if name != "changing" {
				var err error
				if zone, err = time.LoadLocation(name); err != nil {
					t.Fatal(err)
				}
			}
			keepIn(t, &own, zone)
		})
	}
}

// keepIn tests Keep for one time zone.
func keepIn(t *testing.T, f *fixture, zone *time.Location) {
	const perHour = 3
	var samples []series.Sample
	for i := range 80 * perHour {
		ago := time.Duration(i/perHour)*day/2 + time.Duration(i%perHour)*17*time.Minute + time.Minute
		fields := map[string]any{"f": float64(i) / 7, "i": int64(i), "b": i%5 == 0, "off": false, "t": "text"}
		if ago < 5*day {
			fields["new"] = float64(i) / 3
		}
		if ago > 25*day { // all values of these fields will be deleted
			fields["gone"], fields["over"] = float64(i)/5, i%3 == 0
		}
		samples = append(samples, series.Sample{Measurement: "m", Time: f.now.Add(-ago), Fields: fields})
	}
	f.write(t, samples...)
	f.wantBefore(t, f.now.Add(-20*day), (5*40+2*30)*perHour)
	f.wantBefore(t, f.now.Add(-100*day), 0)
	ranges, wants := keptQuestions(f.now, zone)
	elsewhere := daysElsewhere(t, f)
	before, values := f.series(t, ranges...), f.current(t, wants...)
	if err := f.store.Keep(t.Context(), f.database, series.Keeping{Retention: 10 * day, Zone: zone}); err != nil {
		t.Fatal(err)
	}
	f.awaitNoneBefore(t, f.now.Add(-18*day)) // the day or week of a value may have newer ones
	if cached, ok := f.store.(interface{ Forget(database string) }); ok {
		cached.Forget(f.database) // see the database as another server would
	}
	for i, result := range f.series(t, ranges...) {
		if !slices.EqualFunc(result.Points, before[i].Points, func(a, b series.Point) bool {
			return a.Time.Equal(b.Time) && near(a.Number, b.Number)
		}) {
			t.Errorf("%s every %s is\n%+v\nnot\n%+v", ranges[i].Key, ranges[i].Every, result.Points, before[i].Points)
		}
	}
	for i, value := range f.current(t, wants...) {
		if want := values[i]; value.Found != want.Found || !value.Time.Equal(want.Time) || !near(value.Number, want.Number) {
			t.Errorf("%s of %s within %s is %+v, not %+v", wants[i].Aggregate, wants[i].Key, wants[i].Window, value, want)
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
	if zone.String() == "America/Bogota" {
		keepElsewhere(t, f, elsewhere)
	}
	if err := f.store.Keep(t.Context(), f.database, series.Keeping{}); err != nil {
		t.Fatal(err)
	}
	f.wantLast(t, key("m", "f"), 7, recent.Time)
}

// daysElsewhere returns the days in a zone whose days don't begin at a full hour of UTC.
func daysElsewhere(t *testing.T, f *fixture) []series.Point {
	t.Helper()
	zone, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	today := f.now.In(zone)
	start := time.Date(today.Year(), today.Month(), today.Day()-35, 0, 0, 0, 0, zone)
	return f.series(t, series.Range{Key: key("m", "f"), Start: start, Stop: f.now, Every: day, Zone: zone})[0].Points
}

// keepElsewhere changes the time zone after the values of old days were deleted. No day may
// be missing. An hour may count for the day in which it began.
func keepElsewhere(t *testing.T, f *fixture, days []series.Point) {
	t.Helper()
	zone, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.Keep(t.Context(), f.database, series.Keeping{Retention: series.AsItIs, Zone: zone}); err != nil {
		t.Fatal(err)
	}
	if got := daysElsewhere(t, f); !slices.EqualFunc(got, days, func(a, b series.Point) bool { return a.Time.Equal(b.Time) }) || len(days) < 30 {
		t.Errorf("in %s the days are\n%+v\nnot\n%+v", zone, got, days)
	}
}

// keptQuestions returns questions that reach back beyond the retention.
func keptQuestions(now time.Time, zone *time.Location) (ranges []series.Range, wants []series.Want) {
	today := now.In(zone)
	for _, field := range []string{"f", "i", "b", "new", "gone", "over", "none"} {
		for _, every := range []time.Duration{time.Hour, 6 * time.Hour, day, 7 * day} {
			start := time.Date(today.Year(), today.Month(), today.Day()-35, 0, 0, 0, 0, zone)
			ranges = append(ranges, series.Range{Key: key("m", field), Start: start, Stop: now, Every: every, Zone: zone})
		}
	}
	for _, field := range []string{"f", "i", "b", "off", "new", "gone", "over", "none", "t"} {
		for _, window := range []time.Duration{day, 9 * day, 11 * day, 38 * day, 39*day + 12*time.Hour} {
			for a := series.Mean; a <= series.Sum; a++ {
				wants = append(wants, series.Want{Key: key("m", field), Aggregate: a, Window: window})
			}
		}
	}
	return ranges, wants
}

// near reports whether two sums differ at most by rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(b) }

// changing returns a zone whose offset changes from UTC-4 to UTC-5 at the given time, as in
// New York in November. It is built in the format of RFC 8536.
func changing(t *testing.T, at time.Time) *time.Location {
	t.Helper()
	data := append([]byte("TZif"), make([]byte, 16)...) // version 1
	for _, count := range []uint32{0, 0, 0, 1, 2, 8} {  // one change, two types, eight bytes of names
		data = binary.BigEndian.AppendUint32(data, count)
	}
	data = append(binary.BigEndian.AppendUint32(data, uint32(at.Unix())), 1) // to the second type
	for i, hours := range []int32{-4, -5} {
		data = append(binary.BigEndian.AppendUint32(data, uint32(hours*3600)), byte(1-i), byte(4*i))
	}
	zone, err := time.LoadLocationFromTZData("changing", append(data, "EDT\x00EST\x00"...))
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func (f *fixture) wantBefore(t *testing.T, when time.Time, want int64) {
	t.Helper()
	if n, err := f.store.CountBefore(t.Context(), f.database, when); err != nil || n != want {
		t.Errorf("%d values before %s, %v, not %d", n, when, err, want)
	}
}

// awaitNoneBefore waits until the database has deleted all values before a time. It asks
// seldom, because InfluxDB 1.8 can lock up where it deletes a shard while a statement begins to
// read several fields of it: the deletion waits for the statement and the statement for the
// deletion.
func (f *fixture) awaitNoneBefore(t *testing.T, when time.Time) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := f.store.CountBefore(t.Context(), f.database, when)
		if err != nil && !errors.Is(err, series.ErrUnavailable) { // InfluxDB can't count while it deletes
			t.Fatal(err)
		}
		if err == nil && n == 0 {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%d values are left, %v", n, err)
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
