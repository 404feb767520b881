package sqlite

import (
	"context"
	"errors"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"tsmon/store/series"
)

func (y *years) keep(t *testing.T, k series.Keeping) {
	t.Helper()
	if err := y.store.Keep(t.Context(), "db", k); err != nil {
		t.Fatal(err)
	}
}

// writeDays writes a value of each field every 97 seconds for some days.
func (y *years) writeDays(t *testing.T, days int) {
	t.Helper()
	for day := days; day > 0; day-- {
		var samples []series.Sample
		for at := y.now.AddDate(0, 0, -day); at.Before(y.now.AddDate(0, 0, 1-day)); at = at.Add(97 * time.Second) {
			samples = append(samples, series.Sample{Measurement: "m", Time: at, Fields: map[string]any{
				"f": float64(y.IntN(100000)) / 100, "x": y.NormFloat64(), "i": int64(y.IntN(1000)), "b": y.IntN(2) == 0, "t": "text",
			}})
		}
		if day%7 == 0 { // a day of few points
			samples = samples[:20]
		}
		if err := y.store.Write(t.Context(), "db", samples); err != nil {
			t.Fatal(err)
		}
	}
}

// answers returns the windows of some days until the clock, by field.
func (y *years) answers(t *testing.T, days int, every time.Duration) map[string][]series.Point {
	t.Helper()
	all := map[string][]series.Point{}
	for _, field := range []string{"f", "x", "i", "b"} {
		r := series.Range{Key: series.Key{Measurement: "m", Field: field}, Stop: y.now, Every: every, Zone: y.zone}
		r.Start = time.Date(y.now.Year(), y.now.Month(), y.now.Day()-days, 0, 0, 0, 0, y.zone)
		results, err := y.store.Series(t.Context(), "db", []series.Range{r})
		if err != nil {
			t.Fatal(err)
		}
		all[field] = results[0].Points
	}
	return all
}

func sameAnswers(a, b map[string][]series.Point) bool {
	return maps.EqualFunc(a, b, func(a, b []series.Point) bool {
		return slices.EqualFunc(a, b, func(a, b series.Point) bool { return a.Time.Equal(b.Time) && near(a.Number, b.Number) })
	})
}

// TestRollupsStay deletes values, and reads their rollups.
func TestRollupsStay(t *testing.T) {
	const day = 24 * time.Hour
	for seed, grain := range []time.Duration{time.Hour, time.Hour, time.Hour, 15 * time.Minute, 30 * time.Minute} {
		y := newYears(t, filepath.Join(t.TempDir(), "series.db"), byte(seed))
		y.writeDays(t, 40)
		y.keep(t, series.Keeping{Zone: y.zone})
		before := map[time.Duration]map[string][]series.Point{}
		for _, every := range []time.Duration{grain, time.Hour, 6 * time.Hour, day, 7 * day} {
			if seed > 2 && every == 6*time.Hour {
				continue
			}
			before[every] = y.answers(t, 37, every)
		}
		y.keep(t, series.Keeping{Zone: y.zone, Retention: 9 * day})
		if n, blocks := y.count(t, "rollups"), y.count(t, "blocks"); n < 4*38 || blocks > 4*11 {
			t.Errorf("%s: %d rollups and %d blocks", y.zone, n, blocks)
		}
		for every, want := range before {
			if got := y.answers(t, 37, every); !sameAnswers(got, want) || len(got["f"]) == 0 {
				t.Errorf("%s: windows of %s are\n%+v\nnot\n%+v", y.zone, every, got["f"], want["f"])
			}
		}
		if got := y.answers(t, 37, 5*time.Minute)["f"]; len(got) == 0 || got[0].Time.Before(y.now.Add(-11*day)) {
			t.Errorf("%s: of windows that have no rollups there are %d", y.zone, len(got))
		}
		y.keep(t, series.Keeping{Zone: y.zone, Retention: 4 * day})
		if got := y.answers(t, 37, day)["f"]; len(got) == 0 || got[0].Time.Before(y.now.Add(-22*day)) {
			t.Errorf("%s: after five times the retention there are %d days", y.zone, len(got))
		}
	}
}

// TestZoneChanges remakes rollups when a zone needs other parts of an hour.
func TestZoneChanges(t *testing.T) {
	y := newYears(t, filepath.Join(t.TempDir(), "series.db"), 4)
	y.writeDays(t, 10)
	y.keep(t, series.Keeping{})
	parts := func() (n int) {
		t.Helper()
		if err := y.store.file.Writer.QueryRow("SELECT DISTINCT parts FROM rollups").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := parts(); n != 1 {
		t.Errorf("%d parts of an hour", n)
	}
	want := y.answers(t, 9, 24*time.Hour)
	y.keep(t, series.Keeping{Zone: y.zone})
	if n := parts(); n != 2 {
		t.Errorf("in %s %d parts of an hour", y.zone, n)
	}
	if got := y.answers(t, 9, 24*time.Hour); !sameAnswers(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
}

// TestZoneChangesWithRetention makes rollups anew before the values that they are made of
// go with the same call.
func TestZoneChangesWithRetention(t *testing.T) {
	for _, seed := range []byte{3, 4} {
		y := newYears(t, filepath.Join(t.TempDir(), "series.db"), seed)
		y.writeDays(t, 40)
		y.keep(t, series.Keeping{})
		want := y.answers(t, 37, 24*time.Hour)
		y.keep(t, series.Keeping{Zone: y.zone, Retention: 9 * 24 * time.Hour})
		if got := y.answers(t, 37, 24*time.Hour); !sameAnswers(got, want) {
			t.Errorf("%s: %+v, not %+v", y.zone, got["f"], want["f"])
		}
	}
}

// TestZoneChangesLate changes the zone once values are deleted: what an hour amounted to
// counts for the day in which it began.
func TestZoneChangesLate(t *testing.T) {
	for _, seed := range []byte{3, 4} {
		y := newYears(t, filepath.Join(t.TempDir(), "series.db"), seed)
		var samples []series.Sample
		sums := map[time.Time]float64{} // by day of the zone
		const perDay = 24 * 4
		for at := y.now.Truncate(time.Hour).AddDate(0, 0, -40); at.Before(y.now.Truncate(time.Hour)); at = at.Add(15 * time.Minute) {
			n := float64(y.IntN(1000))
			samples = append(samples, series.Sample{Measurement: "m", Time: at, Fields: map[string]any{"f": n}})
			began := at
			if at.Before(y.now.AddDate(0, 0, -9).Truncate(24 * time.Hour)) {
				began = at.Truncate(time.Hour)
			}
			year, month, day := began.In(y.zone).Date()
			sums[time.Date(year, month, day, 0, 0, 0, 0, y.zone).UTC()] += n
		}
		if err := y.store.Write(t.Context(), "db", samples); err != nil {
			t.Fatal(err)
		}
		y.keep(t, series.Keeping{Retention: 9 * 24 * time.Hour})
		y.keep(t, series.Keeping{Retention: series.AsItIs, Zone: y.zone})
		got := y.answers(t, 37, 24*time.Hour)["f"]
		if len(got) != 38 {
			t.Errorf("%s: %d days", y.zone, len(got))
		}
		for i, p := range got[:len(got)-1] { // the last one is not over
			want := sums[p.Time]
			switch age := y.now.Sub(p.Time); { // the first day, and that from which on there are values, have fewer or more
			case i == 0, age > 9*24*time.Hour && age < 11*24*time.Hour:
			case !near(p.Number*perDay, want):
				t.Errorf("%s: the values of %s are %v in all, not %v", y.zone, p.Time, p.Number*perDay, want)
			}
		}
	}
}

// TestExpired writes values that are older than the retention.
func TestExpired(t *testing.T) {
	y := newYears(t, filepath.Join(t.TempDir(), "series.db"), 1)
	y.writeDays(t, 20)
	y.keep(t, series.Keeping{Retention: 48 * time.Hour, Zone: y.zone})
	want := y.answers(t, 9, 24*time.Hour)
	late := series.Sample{Measurement: "m", Time: y.now.AddDate(0, 0, -5), Fields: map[string]any{"f": 1e9}}
	for _, move := range []time.Duration{0, -10 * 24 * time.Hour} { // and by a clock that was set back
		y.now = y.now.Add(move)
		if err := y.store.Write(t.Context(), "db", []series.Sample{late}); err == nil {
			t.Error("it is taken")
		}
		y.now = y.now.Add(-move)
		if err := y.store.upkeep(t.Context(), y.now); err != nil {
			t.Fatal(err)
		}
	}
	// Another process may have written it just before that.
	for _, text := range []string{"UPDATE databases SET first = first - 10", "", "UPDATE databases SET first = first + 10"} {
		if text == "" {
			y.store.packing.hour = y.now.Truncate(time.Hour) // so that writing doesn't pack
			many := slices.Repeat([]series.Sample{late}, minRollup)
			for i := range many {
				many[i].Time = late.Time.Add(time.Duration(i) * time.Second)
			}
			if err := y.store.Write(t.Context(), "db", many); err != nil {
				t.Fatal(err)
			}
		} else if _, err := y.store.file.Writer.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := y.store.upkeep(t.Context(), y.now); err != nil {
		t.Fatal(err)
	}
	if got := y.answers(t, 9, 24*time.Hour); !sameAnswers(got, want) || y.count(t, "chunks") > 0 {
		t.Errorf("%+v, not %+v", got, want)
	}
}

// interrupted is a context that has something done when a statement begins.
type interrupted struct {
	context.Context
	mu   *sync.Mutex
	left *int         // statements before it
	do   func() error // fails if the statement is one of a transaction that writes
}

func (i interrupted) Done() <-chan struct{} {
	if i.mu.TryLock() { // a transaction asks from a goroutine of its own too
		defer i.mu.Unlock()
		if *i.left--; *i.left < 0 && i.do() == nil {
			*i.left = math.MaxInt
		}
	}
	return i.Context.Done()
}

// TestRetentionWhilePacking has another process set the retention of one database at each
// statement of the upkeep for another, and finds what its deleted values amounted to.
func TestRetentionWhilePacking(t *testing.T) {
	const day = 24 * time.Hour
	var samples []series.Sample
	for hour := range 19 * 24 {
		at := present.Add(-time.Duration(hour+1) * time.Hour)
		samples = append(samples, series.Sample{Measurement: "m", Time: at, Fields: map[string]any{"f": float64(hour)}})
	}
	set := 0
	for step := range 24 {
		name := filepath.Join(t.TempDir(), "series.db")
		y := newYears(t, name, 0)
		y.store.packing.hour = present.Truncate(time.Hour) // so that writing doesn't pack
		if err := y.store.Write(t.Context(), "db", y.samples()); err != nil {
			t.Fatal(err)
		}
		elsewhere := open(t, name, Options{Now: func() time.Time { return present }})
		elsewhere.packing.hour = present.Truncate(time.Hour)
		if _, err := elsewhere.file.Writer.Exec("PRAGMA busy_timeout = 0"); err != nil {
			t.Fatal(err)
		}
		if err := elsewhere.Create(t.Context(), "other"); err != nil {
			t.Fatal(err)
		}
		days := func() ([]series.Point, error) {
			results, err := elsewhere.Series(t.Context(), "other", []series.Range{{
				Key: series.Key{Measurement: "m", Field: "f"}, Start: present.Add(-20 * day), Stop: present, Every: day, Zone: time.UTC,
			}})
			if err != nil {
				return nil, err
			}
			return results[0].Points, nil
		}
		var mu sync.Mutex
		var want []series.Point
		left := step
		err := y.store.upkeep(interrupted{t.Context(), &mu, &left, func() error {
			err := elsewhere.Write(t.Context(), "other", samples)
			if err == nil {
				want, err = days()
			}
			if err == nil {
				_, err = elsewhere.file.Writer.Exec(setKeeping, 9*day, 1, "other") // as Keep begins
			}
			return err
		}}, present)
		mu.Lock() // for good: nothing is done any more
		if err != nil {
			t.Fatal(err)
		}
		if want != nil {
			set++
		}
		if err := elsewhere.upkeep(t.Context(), present); err != nil {
			t.Fatal(err)
		}
		same := func(a, b series.Point) bool { return a.Time.Equal(b.Time) && near(a.Number, b.Number) }
		got, err := days()
		if err != nil {
			t.Fatal(err)
		}
		if want != nil && (len(want) < 19 || !slices.EqualFunc(got, want, same)) {
			t.Errorf("step %d: the days are\n%+v\nnot\n%+v", step, got, want)
		}
	}
	if set < 8 {
		t.Errorf("the retention was set in %d upkeeps", set)
	}
}

// TestKeptForEverWhilePacking has another process end the retention of a database at each
// statement of the upkeep. While the upkeep still packs, nothing is deleted.
func TestKeptForEverWhilePacking(t *testing.T) {
	const days = 19
	var samples []series.Sample
	for hour := range days * 24 {
		at := present.Add(-time.Duration(hour+1) * time.Hour)
		samples = append(samples, series.Sample{Measurement: "m", Time: at, Fields: map[string]any{"f": float64(hour)}})
	}
	set := 0
	for step := range 24 {
		name := filepath.Join(t.TempDir(), "series.db")
		s, elsewhere := open(t, name, Options{Now: func() time.Time { return present }}), open(t, name, Options{})
		s.packing.hour = present.Truncate(time.Hour) // so that writing doesn't pack
		err := s.Create(t.Context(), "db")
		if err == nil {
			err = s.Write(t.Context(), "db", samples)
		}
		if err == nil {
			_, err = s.file.Writer.Exec(setKeeping, 9*24*time.Hour, 1, "db") // as Keep begins
		}
		if err == nil {
			_, err = elsewhere.file.Writer.Exec("PRAGMA busy_timeout = 0")
		}
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		left, chunks := step, 0
		err = s.upkeep(interrupted{t.Context(), &mu, &left, func() error {
			if _, err := elsewhere.file.Writer.Exec(setKeeping, 0, 1, "db"); err != nil {
				return err
			}
			return elsewhere.file.Readers.QueryRow("SELECT count(*) FROM chunks").Scan(&chunks)
		}}, present)
		mu.Lock() // for good: nothing is done any more
		if err != nil {
			t.Fatal(err)
		}
		if chunks == 0 {
			continue // it had packed
		}
		set++
		if n, err := elsewhere.CountBefore(t.Context(), "db", present); err != nil || n != days*24 {
			t.Errorf("step %d: %d values of %d are left, %v", step, n, days*24, err)
		}
	}
	if set < 2 {
		t.Errorf("the retention ended in %d upkeeps that still packed", set)
	}
}

// TestCountIsPatient: a store whose questions have no time counts values all the same.
func TestCountIsPatient(t *testing.T) {
	name := filepath.Join(t.TempDir(), "series.db")
	y := newYears(t, name, 1)
	y.writeDays(t, 3)
	hasty := open(t, name, Options{Now: func() time.Time { return y.now }, Timeout: 1})
	if _, err := hasty.Current(t.Context(), "db", []series.Want{{Key: series.Key{Measurement: "m", Field: "f"}}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a question that has no time: %v", err)
	}
	want, err := y.store.CountBefore(t.Context(), "db", y.now)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := hasty.CountBefore(t.Context(), "db", y.now); err != nil || n != want || n == 0 {
		t.Errorf("%d of %d values, %v", n, want, err)
	}
	if countTime != 10*time.Minute {
		t.Errorf("values are counted for %s", countTime)
	}
}
