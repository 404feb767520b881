package influx

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/store/series"
	"tsmon/store/servertest"
)

// rolled returns how many values the rollups of m.f hold from start until just before
// stop.
func rolled(t *testing.T, s *Store, database string, start, stop time.Time) int {
	t.Helper()
	r := series.Range{Key: series.Key{Measurement: "m", Field: "f.count"}, Start: start, Stop: stop, Every: 15 * time.Minute, Limit: 100_000}
	q := query{}
	windowed(&q, r, r.Spans(), `sum("f.count")`, start.UnixNano(), stop.UnixNano())
	rows, err := s.server.ask(t.Context(), s.server.rollupsOf(database), q)
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

// testRollups writes values late and changes the zone.
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
		if n := rolled(t, s, "rolled", today.Add(-20*day), today); n != 4*20+2 {
			t.Errorf("%s: %d values are rolled up", name, n)
		}
	}
	every := 41 * day // or as much longer as all lies in one window
	for n := func(at time.Time) int64 { return at.Unix() / int64(every/time.Second) }; n(today.Add(-20*day)) != n(today.Add(-1)) || every%(7*day) == 0; {
		every += day
	}
	r := series.Range{Key: series.Key{Measurement: "m", Field: "f"}, Start: today.Add(-20 * day), Stop: today, Every: every}
	results, err := s.Series(t.Context(), "rolled", []series.Range{r})
	want := (80. + 7 + 5) / 82
	if err != nil || len(results[0].Points) != 1 || math.Abs(results[0].Points[0].Number-want) > 1e-12 {
		t.Errorf("the mean is %+v, %v, not %v", results, err, want)
	}
}

// testResumes ends the first call of Keep halfway.
func testResumes(t *testing.T, server *servertest.InfluxDB) {
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	var writes atomic.Int64
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("db") == "resumed"+series.RollupsSuffix && r.URL.Path == "/write" && writes.Add(1) > 45 {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	})
	s := open(t, Options{URL: server.URL})
	if err := s.Create(t.Context(), "resumed"); err != nil {
		t.Fatal(err)
	}
	today := time.Now().UTC().Truncate(day)
	var samples []series.Sample
	for i := range 70 {
		samples = append(samples, series.Sample{Measurement: "m", Fields: map[string]any{"f": 1.0}, Time: today.Add(-time.Duration(i) * day).Add(-time.Hour)})
	}
	if err := s.Write(t.Context(), "resumed", samples); err != nil {
		t.Fatal(err)
	}
	k := series.Keeping{Retention: 200 * day}
	if err := open(t, Options{URL: proxy}).Keep(t.Context(), "resumed", k); !errors.Is(err, series.ErrUnavailable) || writes.Load() <= 45 {
		t.Errorf("the error is %v after %d writes", err, writes.Load())
	}
	r := roller{Store: s, database: "resumed", grain: time.Hour}
	if done, err := r.progress(t.Context()); err != nil || !done.Equal(today.Add(-41*day)) {
		t.Errorf("done until %s, %v", done, err)
	}
	if err := s.Keep(t.Context(), "resumed", k); err != nil {
		t.Fatal(err)
	}
	if n := rolled(t, s, "resumed", today.Add(-80*day), today); n != 70 {
		t.Errorf("%d values are rolled up", n)
	}
}
