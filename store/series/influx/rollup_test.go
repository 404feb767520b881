package influx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
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

// testTakenBack ends a change to shorter parts halfway, and takes it back.
func testTakenBack(t *testing.T, opts Options) {
	target, err := url.Parse(opts.URL)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	const database = "taken-back"
	var days atomic.Int64
	failing := opts
	failing.URL = serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Query().Get("db") == database+series.RollupsSuffix && bytes.HasPrefix(body, []byte("m ")) && days.Add(1) > 15 {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	})
	s := open(t, opts)
	if err := s.Create(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	today := time.Now().UTC().Truncate(day)
	var samples []series.Sample
	for at := today.Add(-20 * day).Add(40 * time.Minute); at.Before(today); at = at.Add(day) {
		samples = append(samples, series.Sample{Measurement: "m", Fields: map[string]any{"f": 1.0}, Time: at})
	}
	if err := s.Write(t.Context(), database, samples); err != nil {
		t.Fatal(err)
	}
	hours := series.Keeping{Retention: 21 * day}
	halves := series.Keeping{Retention: 21 * day, Zone: time.FixedZone("", int(5*time.Hour+30*time.Minute)/int(time.Second))}
	if err := s.Keep(t.Context(), database, hours); err != nil {
		t.Fatal(err)
	}
	for _, before := range []series.Keeping{hours, halves} {
		if err := open(t, failing).Keep(t.Context(), database, halves); !errors.Is(err, series.ErrUnavailable) {
			t.Errorf("the error is %v", err)
		}
		days.Store(0)
		if err := s.Keep(t.Context(), database, before); err != nil {
			t.Fatal(err)
		}
		if n := rolled(t, s, database, today.Add(-30*day), today); n != len(samples) {
			t.Errorf("%d values are rolled up, not %d", n, len(samples))
		}
	}
}

// testHoursGone changes to shorter parts when the first hours of a day have been deleted, as
// they are with a retention of less than two days. Their rollups stay.
func testHoursGone(t *testing.T, opts Options) {
	const database = "hours-gone"
	s := open(t, opts)
	if err := s.Create(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	today := time.Now().UTC().Truncate(day)
	var samples []series.Sample
	for at := today.Add(-2 * day).Add(40 * time.Minute); at.Before(today); at = at.Add(time.Hour) {
		samples = append(samples, series.Sample{Measurement: "m", Fields: map[string]any{"f": 1.0}, Time: at})
	}
	if err := s.Write(t.Context(), database, samples); err != nil {
		t.Fatal(err)
	}
	for _, zone := range []*time.Location{time.UTC, time.FixedZone("", int(5*time.Hour+30*time.Minute)/int(time.Second))} {
		if err := s.Keep(t.Context(), database, series.Keeping{Retention: 10 * day, Zone: zone}); err != nil {
			t.Fatal(err)
		}
		if n := rolled(t, s, database, today.Add(-3*day), today); n != len(samples) {
			t.Errorf("%d values are rolled up, not %d", n, len(samples))
		}
		q := s.server.query()
		q.add(fmt.Sprintf("DELETE WHERE time < %d", today.Add(-30*time.Hour).UnixNano()))
		if _, err := s.server.ask(t.Context(), database, q); err != nil && !errors.Is(err, errIncomplete) {
			t.Fatal(err)
		}
	}
}

// TestDeletesTooLittle stores the rollups of a day anew on a server that is writing its cache
// to the disk, and so keeps what it should delete.
func TestDeletesTooLittle(t *testing.T) {
	for missed, want := range map[int]error{0: nil, 1: nil, 1000: series.ErrUnavailable} {
		f := &forgetful{missed: missed, rows: map[string]bool{"0": true}}
		r := roller{
			Store: open(t, Options{URL: serve(t, f.answer)}), database: "db", grain: 30 * time.Minute,
			kinds: map[series.Key]series.Kind{{Measurement: "m", Field: "f"}: series.Float},
		}
		if err := r.roll(t.Context(), time.Unix(0, 0)); err != nil || f.requests != 2 {
			t.Errorf("%d requests for a day that needs nothing deleted, %v", f.requests, err)
		}
		r.anew = true
		if err := r.roll(t.Context(), time.Unix(0, 0)); !errors.Is(err, want) {
			t.Errorf("%d times nothing is deleted: the error is %v", missed, err)
		} else if err == nil && len(f.rows) != 1 {
			t.Errorf("%d times nothing is deleted: the rows are %v", missed, f.rows)
		}
	}
}

// forgetful is a server with a value in the second half of an hour.
type forgetful struct {
	missed   int             // how many times nothing is deleted
	rows     map[string]bool // times of rollups
	requests int
}

func (f *forgetful) answer(w http.ResponseWriter, r *http.Request) {
	f.requests++
	q, values := r.FormValue("q"), ""
	switch {
	case r.URL.Path == "/write":
		body, _ := io.ReadAll(r.Body)
		line := strings.Fields(string(body))
		f.rows[line[len(line)-1]] = true
		w.WriteHeader(http.StatusNoContent)
		return
	case strings.HasPrefix(q, "DELETE"):
		if f.missed--; f.missed < 0 {
			clear(f.rows)
		}
	case strings.Contains(q, "GROUP BY"):
		values = fmt.Sprintf("[%d,1,2,2,2]", 30*time.Minute)
	default: // a count of four fields
		values = strings.ReplaceAll("[0,N,N,N,N]", "N", strconv.Itoa(len(f.rows)))
	}
	fmt.Fprintf(w, `{"results":[{"statement_id":0,"series":[{"name":"m","values":[%s]}]}]}`, values)
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
