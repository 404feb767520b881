package influx

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"tsmon/store/series"
)

// testOwnRetention: an operator gave a database a retention, and its values are not rolled up.
// Answers have all values that are left.
func testOwnRetention(t *testing.T, opts Options) {
	const keeps, ago = 30 * day, 30*day - 2*time.Hour
	now := time.Now().UTC()
	opts.Now = func() time.Time { return now }
	for name, keep := range map[string]bool{"untouched": false, "tenant": true} {
		database := "own-" + name
		s := open(t, opts)
		if err := s.Create(t.Context(), database); err != nil {
			t.Fatal(err)
		}
		_, policy, err := s.server.retention(t.Context(), database)
		if err == nil {
			err = s.server.setRetention(t.Context(), database, policy, keeps)
		}
		if err == nil && keep { // as when a tenant is made of it
			err = s.Keep(t.Context(), database, series.Keeping{Retention: series.AsItIs})
		}
		if err != nil {
			t.Fatal(err)
		}
		var samples []series.Sample
		for at := now.Add(-ago); at.Before(now); at = at.Add(12 * time.Hour) {
			samples = append(samples, series.Sample{Measurement: "m", Fields: map[string]any{"f": 1.0}, Time: at})
		}
		if err := s.Write(t.Context(), database, samples); err != nil {
			t.Fatal(err)
		}
		for _, every := range []time.Duration{5 * time.Minute, time.Hour} {
			r := series.Range{Key: series.Key{Measurement: "m", Field: "f"}, Start: now.Add(-keeps), Stop: now, Every: every, Limit: 100_000}
			results, err := s.Series(t.Context(), database, []series.Range{r})
			if err != nil {
				t.Fatal(err)
			}
			if n := len(results[0].Points); n != len(samples) {
				t.Errorf("%s every %s: %d of %d values", name, every, n, len(samples))
			}
		}
		r := series.Range{Key: series.Key{Measurement: "m", Field: "f"}, Start: samples[0].Time, Stop: now, Every: day}
		results, err := s.Series(t.Context(), database, []series.Range{r})
		if err != nil || len(results[0].Points) == 0 || results[0].Points[0].Time.After(samples[0].Time) {
			t.Errorf("%s: the first of %d days is missing, %v", name, len(results[0].Points), err)
		}
	}
}

// TestWindowsOfBefore: an answer that begins earlier than it was asked from adds no window
// twice.
func TestWindowsOfBefore(t *testing.T) {
	const border = int64(100 * day)
	answer := func(oldest, newest int64, value bool) [][]row {
		r := row{Columns: []string{"time", "last"}}
		for at := oldest; at <= newest; at += int64(day) {
			r.Values = append(r.Values, []any{json.Number(strconv.FormatInt(at, 10)), value})
		}
		return [][]row{{r}}
	}
	w := windows{boolean: true, every: int64(day)}
	if err := w.add(answer(border-int64(5*day)/2, border+int64(day)/2, true), border); err != nil { // the border lies within one
		t.Fatal(err)
	}
	if err := w.add(answer(border-int64(7*day)/2, border-int64(day)/2, false), border-int64(7*day)/2); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range w.points {
		got = append(got, fmt.Sprintf("%d:%v", (p.Time.UnixNano()-border)/int64(day/2), p.Number))
	}
	if want := []string{"1:1", "-1:1", "-3:0", "-5:0", "-7:0"}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

// testRollupsDropped: the database of rollups that the store has cached is dropped. Answers
// have all values that are left.
func testRollupsDropped(t *testing.T, opts Options) {
	const database = "bereft"
	s := open(t, opts)
	if err := s.Create(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	var samples []series.Sample
	for at := now.Add(-20 * day); at.Before(now); at = at.Add(6 * time.Hour) {
		samples = append(samples, series.Sample{Measurement: "m", Fields: map[string]any{"f": 1.0}, Time: at})
	}
	if err := s.Write(t.Context(), database, samples); err != nil {
		t.Fatal(err)
	}
	if err := s.Keep(t.Context(), database, series.Keeping{Retention: 10 * day}); err != nil {
		t.Fatal(err)
	}
	of := series.Key{Measurement: "m", Field: "f"}
	r := series.Range{Key: of, Start: samples[0].Time, Stop: now, Every: day}
	want := series.Want{Key: of, Aggregate: series.Sum, Window: 21 * day}
	for _, dropped := range []bool{false, true} {
		if dropped {
			drop(t, s, database)
		}
		var values []series.Value
		var results []series.Result
		var err error
		begin := time.Now()
		for again := true; again; again = errors.Is(err, series.ErrUnavailable) && time.Since(begin) < time.Minute { // it deletes
			if values, err = s.Current(t.Context(), database, []series.Want{want}); err == nil {
				results, err = s.Series(t.Context(), database, []series.Range{r})
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		days, sum := len(results[0].Points), int(values[0].Number)
		if t.Logf("dropped %t: %d days, %d values", dropped, days, sum); days < 10 || sum < 39 || !dropped && (days < 20 || sum != len(samples)) {
			t.Errorf("dropped %t: %d days, %d of %d values", dropped, days, sum, len(samples))
		}
	}
}

// drop drops the rollups of a database.
func drop(t *testing.T, s *Store, database string) {
	t.Helper()
	rollups := s.server.rollupsOf(database)
	has, err := s.server.hasBuckets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !has {
		q := s.server.query()
		q.add("DROP DATABASE " + quote(rollups))
		_, err = s.server.ask(t.Context(), "", q)
	} else {
		var id string
		if id, err = s.server.bucketOf(t.Context(), rollups); err == nil {
			buckets := s.server.client.BucketsAPI()
			err = buckets.DeleteBucketWithID(t.Context(), id)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
