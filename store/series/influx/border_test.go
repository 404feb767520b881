package influx

import (
	"testing"
	"time"

	"tsmon/store/series"
)

// testOwnRetention: an operator gave a database a retention, and nobody rolls its values
// up. All that it still has is answered.
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
