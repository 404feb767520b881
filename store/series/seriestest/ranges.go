package seriestest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tsmon/store/series"
)

// wantSeries checks the points of a series.
func (f *fixture) wantSeries(t *testing.T, r series.Range, points ...series.Point) {
	t.Helper()
	res := f.series(t, r)[0]
	if res.Truncated {
		t.Errorf("the series of %s is truncated", r.Key)
	}
	wantPoints(t, res.Points, points)
}

func wantPoints(t *testing.T, got, want []series.Point) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("the points are %v, not %v", got, want)
		return
	}
	for i := range got {
		if !got[i].Time.Equal(want[i].Time) || got[i].Number != want[i].Number {
			t.Errorf("point %d is %v, not %v", i, got[i], want[i])
		}
	}
}

func clock(hour, minute, second int) time.Time {
	return time.Date(2026, 3, 5, hour, minute, second, 0, time.UTC)
}

func (f *fixture) writeAt(t *testing.T, measurement, field string, values map[time.Time]any) {
	t.Helper()
	var samples []series.Sample
	for when, value := range values {
		samples = append(samples, series.Sample{Measurement: measurement, Fields: map[string]any{field: value}, Time: when})
	}
	f.write(t, samples...)
}

func seriesMeans(t *testing.T, f *fixture) {
	f.writeAt(t, "m", "f", map[time.Time]any{
		clock(9, 59, 59): 100.0, clock(10, 0, 0): 1.0, clock(10, 9, 59): 2.0, clock(10, 10, 0): 5.0, clock(10, 30, 1): 7.0,
		clock(10, 39, 0): 8.0, clock(11, 0, 0): 200.0,
	})
	r := series.Range{Key: key("m", "f"), Start: clock(10, 0, 0), Stop: clock(11, 0, 0), Every: 10 * time.Minute}
	f.wantSeries(t, r, series.Point{Time: clock(10, 0, 0), Number: 1.5}, series.Point{Time: clock(10, 10, 0), Number: 5},
		series.Point{Time: clock(10, 30, 0), Number: 7.5})
	r.Start, r.Stop = clock(10, 5, 0), clock(10, 35, 0) // the first window and the last are cut
	f.wantSeries(t, r, series.Point{Time: clock(10, 0, 0), Number: 2}, series.Point{Time: clock(10, 10, 0), Number: 5},
		series.Point{Time: clock(10, 30, 0), Number: 7})
	r.Start, r.Stop = clock(10, 10, 0), clock(10, 10, 0).Add(1)
	f.wantSeries(t, r, series.Point{Time: clock(10, 10, 0), Number: 5})
	r.Start, r.Stop = clock(12, 0, 0), clock(13, 0, 0)
	f.wantSeries(t, r)
}

// seriesKinds checks each kind of field, in series with different tags.
func seriesKinds(t *testing.T, f *fixture) {
	tagged := func(field string, value any, when time.Time, tag string) series.Sample {
		return series.Sample{Measurement: "m", Fields: map[string]any{field: value}, Time: when, Tags: map[string]string{"t": tag}}
	}
	f.write(t,
		tagged("f", 1.0, clock(10, 0, 1), "a"), tagged("f", 2.0, clock(10, 0, 1), "b"), tagged("f", 6.0, clock(10, 0, 2), "b"),
		tagged("i", int64(1), clock(10, 0, 1), "a"), tagged("i", int64(2), clock(10, 0, 1), "b"),
		tagged("b", true, clock(10, 0, 1), "a"), tagged("b", false, clock(10, 0, 2), "b"), tagged("b", true, clock(10, 1, 5), "b"),
		tagged("b", false, clock(10, 1, 4), "a"), tagged("b", false, clock(10, 2, 0), "a"), tagged("b", true, clock(10, 2, 0), "b"),
		tagged("x", "text", clock(10, 0, 1), "a"))
	r := series.Range{Start: clock(9, 0, 0), Stop: clock(11, 0, 0), Every: time.Minute}
	r.Key = key("m", "f")
	f.wantSeries(t, r, series.Point{Time: clock(10, 0, 0), Number: 3})
	r.Key = key("m", "i")
	f.wantSeries(t, r, series.Point{Time: clock(10, 0, 0), Number: 1.5})
	r.Key = key("m", "b")
	f.wantSeries(t, r, series.Point{Time: clock(10, 0, 0), Number: 0}, series.Point{Time: clock(10, 1, 0), Number: 1},
		series.Point{Time: clock(10, 2, 0), Number: 1})
	r.Key = key("m", "x")
	f.wantSeries(t, r)
}

// seriesWindows tries windows of many lengths on both sides of midnight, of a change of the
// clocks, and of 1970.
func seriesWindows(t *testing.T, f *fixture) {
	for _, every := range []time.Duration{1, time.Millisecond, time.Second, 7 * time.Second, 90 * time.Minute, 24 * time.Hour, 7 * 24 * time.Hour} {
		for _, around := range []time.Time{
			time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), time.Date(2025, 10, 26, 1, 0, 0, 0, time.UTC),
			time.Unix(0, 0).UTC(), time.Date(1960, 2, 29, 12, 0, 0, 0, time.UTC),
		} {
			if around.Add(-5 * every).After(f.limits.Since) {
				f.oneSeries(t, every, around)
			}
		}
	}
}

// oneSeries compares a series around a time with windows that the test computes itself.
func (f *fixture) oneSeries(t *testing.T, every time.Duration, around time.Time) {
	t.Helper()
	k := key("around "+around.String(), "every "+every.String())
	var samples []series.Sample
	var want []series.Point
	for i := -4; i <= 4; i++ {
		when := around.Add(time.Duration(i) * (every/2 + 1))
		samples = append(samples, series.Sample{Measurement: k.Measurement, Fields: map[string]any{k.Field: i%2 == 0}, Time: when})
		n := when.UnixNano()
		if every == 7*24*time.Hour {
			n -= int64(4 * 24 * time.Hour) // weeks start on Mondays
		}
		start := when.Add(-time.Duration((n%int64(every) + int64(every)) % int64(every)))
		if len(want) == 0 || !want[len(want)-1].Time.Equal(start) {
			want = append(want, series.Point{Time: start})
		}
		want[len(want)-1].Number = float64(1 - (i%2+2)%2)
	}
	f.write(t, samples...)
	span := 4*(every/2+1) + 1
	res := f.series(t, series.Range{Key: k, Start: around.Add(-span), Stop: around.Add(span), Every: every})[0]
	wantPoints(t, res.Points, want)
}

// seriesDays tries days and weeks in which clocks change: by an hour, by half an hour, at
// midnight, and by a skipped day.
func seriesDays(t *testing.T, f *fixture) {
	for _, c := range []struct {
		zone   string
		around time.Time
	}{
		{"America/Bogota", time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)},
		{"Asia/Kathmandu", time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)},
		{"America/New_York", time.Date(2025, 3, 9, 7, 0, 0, 0, time.UTC)},
		{"America/New_York", time.Date(2025, 11, 2, 6, 0, 0, 0, time.UTC)},
		{"America/Sao_Paulo", time.Date(2018, 11, 4, 3, 0, 0, 0, time.UTC)},
		{"America/Havana", time.Date(2025, 11, 2, 5, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2025, 10, 4, 15, 30, 0, 0, time.UTC)},
		{"Pacific/Apia", time.Date(2011, 12, 30, 10, 0, 0, 0, time.UTC)},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		k := key("in "+strings.ReplaceAll(c.zone, "/", " "), "at "+c.around.String())
		var samples []series.Sample
		for i := range 20 * 24 {
			when := c.around.Add(time.Duration(i-10*24)*time.Hour + time.Millisecond)
			samples = append(samples, series.Sample{Measurement: k.Measurement, Fields: map[string]any{k.Field: float64(i)}, Time: when})
		}
		f.write(t, samples...)
		for _, days := range []int{1, 2, 7} {
			r := series.Range{Key: k, Start: c.around.AddDate(0, 0, -9), Stop: c.around.AddDate(0, 0, 9), Every: time.Duration(days) * 24 * time.Hour, Zone: zone}
			wantPoints(t, f.series(t, r)[0].Points, byDate(r, samples, days))
			r.Limit = 2
			want := byDate(r, samples, days)
			res := f.series(t, r)[0]
			wantPoints(t, res.Points, want[len(want)-2:])
			if res.Truncated != (len(want) > 2) {
				t.Errorf("%s: truncated %t", c.zone, res.Truncated)
			}
		}
	}
}

// byDate averages the samples of a range by their local dates.
func byDate(r series.Range, samples []series.Sample, days int) (points []series.Point) {
	epoch := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	if days == 7 {
		epoch = time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC) // a Monday
	}
	window := func(t time.Time) int {
		year, month, date := t.In(r.Zone).Date()
		return int(time.Date(year, month, date, 0, 0, 0, 0, time.UTC).Sub(epoch)/(24*time.Hour)) / days
	}
	before, count, sum := -1, 0.0, 0.0
	for _, s := range samples {
		if s.Time.Before(r.Start) || !s.Time.Before(r.Stop) {
			continue
		}
		if now := window(s.Time); now != before {
			first := s.Time.Truncate(time.Minute)
			for window(first.Add(-time.Minute)) == now {
				first = first.Add(-time.Minute)
			}
			before, count, sum = now, 0, 0
			points = append(points, series.Point{Time: first})
		}
		for _, value := range s.Fields {
			sum += value.(float64)
		}
		count++
		points[len(points)-1].Number = sum / count
	}
	return points
}

func seriesLimit(t *testing.T, f *fixture) {
	var samples []series.Sample
	for i := range series.DefaultLimit + 1 {
		samples = append(samples, series.Sample{Measurement: "m", Time: clock(0, 0, i), Fields: map[string]any{"f": float64(i), "b": i%2 == 0}})
	}
	f.write(t, samples...)
	for _, c := range []struct {
		field         string
		limit, points int
		from          int
		truncated     bool
	}{
		{"f", 0, series.DefaultLimit, 0, true},
		{"b", 0, series.DefaultLimit, 0, true},
		{"f", 0, series.DefaultLimit, 1, false},
		{"f", 1, 1, 0, true},
		{"f", series.DefaultLimit + 1, series.DefaultLimit + 1, 0, false},
		{"b", 10, 10, series.DefaultLimit - 9, false},
	} {
		res := f.series(t, series.Range{Key: key("m", c.field), Start: clock(0, 0, c.from), Stop: clock(12, 0, 0), Every: time.Second, Limit: c.limit})[0]
		if len(res.Points) != c.points || res.Truncated != c.truncated {
			t.Fatalf("%+v gives %d points, truncated %t", c, len(res.Points), res.Truncated)
		}
		if newest := res.Points[len(res.Points)-1]; !newest.Time.Equal(clock(0, 0, series.DefaultLimit)) {
			t.Errorf("%+v ends with %+v", c, newest)
		}
		if first := res.Points[0].Time; !first.Equal(clock(0, 0, series.DefaultLimit+1-c.points)) {
			t.Errorf("%+v begins at %s", c, first)
		}
	}
}

func seriesBatch(t *testing.T, f *fixture) {
	f.write(t, sample("m", "f", 1.0, time.Minute), sample("m", "b", true, time.Minute), sample("n", "f", 2.0, time.Minute), sample("m", "t", "x", time.Minute))
	r := series.Range{Start: at(time.Hour), Stop: Clock, Every: time.Hour}
	var ranges []series.Range
	for range 20 {
		for _, k := range []series.Key{key("m", "f"), key("none", "f"), key("m", "b"), key("m", "t"), key("n", "f")} {
			r.Key = k
			ranges = append(ranges, r)
		}
	}
	want := []float64{1, -1, 1, -1, 2}
	for i, res := range f.series(t, ranges...) {
		number := want[i%len(want)]
		if number < 0 && len(res.Points) == 0 {
			continue
		}
		if len(res.Points) != 1 || res.Points[0].Number != number {
			t.Fatalf("result %d is %+v", i, res)
		}
	}
}

// seriesAhead checks that values later than the clock are ignored.
func seriesAhead(t *testing.T, f *fixture) {
	f.write(t, sample("m", "f", 1.0, 0), sample("m", "f", 5.0, -1), sample("m", "f", 9.0, -time.Hour))
	r := series.Range{Key: key("m", "f"), Start: at(time.Hour), Stop: at(-24 * time.Hour), Every: 1}
	f.wantSeries(t, r, series.Point{Time: Clock, Number: 1})
}

func badRanges(t *testing.T, f *fixture) {
	good := series.Range{Key: key("m", "f"), Start: at(time.Hour), Stop: Clock, Every: time.Minute}
	for name, change := range map[string]func(*series.Range){
		"no window":       func(r *series.Range) { r.Every = 0 },
		"negative window": func(r *series.Range) { r.Every = -time.Second },
		"endless window":  func(r *series.Range) { r.Every = 1<<63 - 1 },
		"no start":        func(r *series.Range) { r.Start = time.Time{} },
		"no stop":         func(r *series.Range) { r.Stop = time.Time{} },
		"backwards":       func(r *series.Range) { r.Start, r.Stop = r.Stop, r.Start },
		"no time":         func(r *series.Range) { r.Start = r.Stop },
		"far future":      func(r *series.Range) { r.Stop = at(-240 * 365 * 24 * time.Hour) },
		"negative limit":  func(r *series.Range) { r.Limit = -1 },
	} {
		bad := good
		change(&bad)
		if _, err := f.store.Series(t.Context(), f.database, []series.Range{good, bad}); !errors.Is(err, series.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []series.Want{{Key: good.Key, Aggregate: 5}, {Key: good.Key, Aggregate: series.Mean, Window: -1}} {
		wantError(t, errorOf(f.store.Current(t.Context(), f.database, []series.Want{bad})), series.ErrInvalid)
	}
}
