package influx

import (
	"math"
	"testing"
	"time"

	"tsmon/store/series"
)

// rolled returns how many values the rollups of m.f hold from start until just before
// stop.
func rolled(t *testing.T, s *Store, database string, start, stop time.Time) int {
	t.Helper()
	r := series.Range{Key: series.Key{Measurement: "m", Field: "f.count"}, Start: start, Stop: stop, Every: 15 * time.Minute, Limit: 100_000}
	q := query{}
	windowed(&q, r, r.Spans(), `sum("f.count")`, start.UnixNano(), stop.UnixNano())
	rows, err := s.ask(t.Context(), rollupsOf(database), q)
	if err != nil || len(rows[0]) > 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	total := 0
	for _, r := range rows[0] {
		for _, cells := range r.Values {
			n, _ := number(cells[1])
			total += int(n)
		}
	}
	return total
}

// testRollups has values come late and the zone change.
func testRollups(t *testing.T, opts Options) {
	now := time.Now().UTC()
	opts.Now = func() time.Time { return now }
	s := open(t, opts)
	if err := s.Create(t.Context(), "rolled"); err != nil {
		t.Fatal(err)
	}
	today := now.Truncate(day)
	write := func(at time.Time, value float64) {
		t.Helper()
		sample := series.Sample{Measurement: "m", Tags: map[string]string{"a": "b"}, Fields: map[string]any{"f": value}, Time: at}
		if err := s.Write(t.Context(), "rolled", []series.Sample{sample}); err != nil {
			t.Fatal(err)
		}
	}
	for at := today.Add(-20 * day); at.Before(today); at = at.Add(6 * time.Hour) {
		write(at.Add(40*time.Minute), 1)
	}
	zone := func(name string) *time.Location {
		t.Helper()
		found, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	keep := func(k series.Keeping) {
		t.Helper()
		if err := s.Keep(t.Context(), "rolled", k); err != nil {
			t.Fatal(err)
		}
	}
	keep(series.Keeping{Retention: 10 * day})
	if n := rolled(t, s, "rolled", today.Add(-20*day), today); n != 4*20 {
		t.Errorf("%d values are rolled up", n)
	}

	// What comes late is added: of the last days, and of those that go next.
	write(today.Add(-30*time.Hour), 5)
	write(today.Add(-30*time.Hour), 7) // corrected
	write(today.Add(-8*day).Add(time.Hour), 5)
	keep(series.Keeping{Retention: series.AsItIs})
	if n := rolled(t, s, "rolled", today.Add(-9*day), today); n != 4*9+2 {
		t.Errorf("%d values are rolled up", n)
	}

	// Other parts of an hour, and again hours, count each value once.
	for _, name := range []string{"Asia/Kolkata", "UTC"} {
		keep(series.Keeping{Retention: 10 * day, Zone: zone(name)})
		if n := rolled(t, s, "rolled", today.Add(-8*day), today); n != 4*8+2 {
			t.Errorf("%s: %d values are rolled up", name, n)
		}
	}
	r := series.Range{Key: series.Key{Measurement: "m", Field: "f"}, Start: today.Add(-20 * day), Stop: today, Every: 40 * day}
	results, err := s.Series(t.Context(), "rolled", []series.Range{r})
	want := (80. + 7 + 5) / 82
	if err != nil || len(results[0].Points) == 0 {
		t.Fatalf("%+v, %v", results, err)
	}
	var sum, count float64
	for _, p := range results[0].Points { // one window, or two
		sum, count = sum+p.Number, count+1
	}
	if count == 1 && math.Abs(sum-want) > 1e-12 {
		t.Errorf("the mean is %v, not %v", sum, want)
	}
}
