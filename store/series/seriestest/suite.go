// Package seriestest holds the suite that every adapter of package series passes.
//
// The suite is hostile. It tries names that break out of a query, fields with the same name
// and different kinds, booleans under every aggregate, clocks that run ahead, cancelled
// contexts, and concurrent writers and readers.
package seriestest

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"tsmon/store/series"
)

// Clock is the present time in the suite. It is not a round number of seconds.
var Clock = time.Date(2026, 3, 5, 15, 4, 5, 678_000_000, time.UTC)

// Limits describe samples that an adapter refuses although the contract allows them. It must
// refuse them with ErrName or ErrInvalid before it writes anything. The suite checks that,
// and avoids such samples in all other tests.
type Limits struct {
	Since       time.Time              // the earliest time; zero for no bound
	Measurement func(name string) bool // reports whether a name is allowed; nil for all
	Column      func(name string) bool // the same for names of tags and fields
	Integer     int64                  // the greatest integer; zero for no bound
	TagsApart   bool                   // a tag can't have the name of a field of its measurement
}

func (l Limits) takes(measurement string) bool {
	return l.Measurement == nil || l.Measurement(measurement)
}

func (l Limits) hasColumn(name string) bool { return l.Column == nil || l.Column(name) }

// Suite runs every test of the contract. Each test gets a store from open and creates its own
// databases there. open fails the test if it can't open a store.
func Suite(t *testing.T, open func(t *testing.T, now func() time.Time) series.Store) {
	SuiteWithin(t, Limits{}, open)
}

// SuiteWithin is Suite for an adapter with limits.
func SuiteWithin(t *testing.T, limits Limits, open func(t *testing.T, now func() time.Time) series.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *fixture)
	}{
		{"Empty", empty},
		{"NoDatabase", noDatabase},
		{"CreateTwice", createTwice},
		{"Apart", apart},
		{"Last", last},
		{"LastLongAgo", lastLongAgo},
		{"LastMoves", lastMoves},
		{"LastAhead", lastAhead},
		{"Aggregates", aggregates},
		{"Windows", windows},
		{"SameNameOtherKind", sameNameOtherKind},
		{"TagSets", tagSets},
		{"TagNames", tagNames},
		{"Large", large},
		{"Replace", replace},
		{"WriteMany", writeMany},
		{"KindConflict", kindConflict},
		{"Fields", fields},
		{"BadNames", badNames},
		{"BadSamples", badSamples},
		{"BadRanges", badRanges},
		{"BeyondLimits", beyondLimits},
		{"WritableNames", writableNames},
		{"TryWrite", tryWrite},
		{"HostileNames", hostileNames},
		{"Thousand", thousand},
		{"SeriesMeans", seriesMeans},
		{"SeriesKinds", seriesKinds},
		{"SeriesWindows", seriesWindows},
		{"SeriesDays", seriesDays},
		{"SeriesLimit", seriesLimit},
		{"SeriesBatch", seriesBatch},
		{"SeriesAhead", seriesAhead},
		{"Keep", keep},
		{"KeepRefuses", keepRefuses},
		{"Cancelled", cancelled},
		{"WritersAndReaders", writersAndReaders},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fixture{now: Clock, limits: limits}
			f.store = open(t, func() time.Time { return f.now })
			f.database = f.create(t)
			c.test(t, f)
		})
	}
}

// fixture is a store and an empty database in it.
type fixture struct {
	store    series.Store
	database string
	now      time.Time
	limits   Limits
}

// create creates another database and returns its name.
func (f *fixture) create(t *testing.T) string {
	t.Helper()
	name := "db-" + strings.ToLower(rand.Text()[:10])
	if err := f.store.Create(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// at returns a time before the clock.
func at(ago time.Duration) time.Time { return Clock.Add(-ago) }

// sample makes a sample of one field.
func sample(measurement, field string, value any, ago time.Duration, tags ...string) series.Sample {
	s := series.Sample{Measurement: measurement, Fields: map[string]any{field: value}, Time: at(ago)}
	for i := 0; i < len(tags); i += 2 {
		if s.Tags == nil {
			s.Tags = map[string]string{}
		}
		s.Tags[tags[i]] = tags[i+1]
	}
	return s
}

func key(measurement, field string) series.Key {
	return series.Key{Measurement: measurement, Field: field}
}

func lastOf(measurement, field string) series.Want {
	return series.Want{Key: key(measurement, field)}
}

func (f *fixture) write(t *testing.T, samples ...series.Sample) {
	t.Helper()
	if err := f.store.Write(t.Context(), f.database, samples); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) current(t *testing.T, wants ...series.Want) []series.Value {
	t.Helper()
	return each(t, f, wants, f.store.Current)
}

// each asks a store questions and checks that there is an answer to each.
func each[Q, A any](t *testing.T, f *fixture, questions []Q, ask func(context.Context, string, []Q) ([]A, error)) []A {
	t.Helper()
	answers, err := ask(t.Context(), f.database, questions)
	if err != nil {
		t.Fatal(err)
	}
	if len(answers) != len(questions) {
		t.Fatalf("%d answers to %d questions", len(answers), len(questions))
	}
	return answers
}

// wantNumber checks one value.
func (f *fixture) wantNumber(t *testing.T, want series.Want, number float64) {
	t.Helper()
	if v := f.current(t, want)[0]; !v.Found || v.Number != number {
		t.Errorf("%s of %s is %+v, not %v", want.Aggregate, want.Key, v, number)
	}
}

// fields returns the kinds of all fields.
func (f *fixture) fields(t *testing.T) map[series.Key]series.Kind {
	t.Helper()
	kinds, err := f.store.Fields(t.Context(), f.database)
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

// wantMissing checks that keys have no value under any aggregate, and no series.
func (f *fixture) wantMissing(t *testing.T, keys ...series.Key) {
	t.Helper()
	var wants []series.Want
	for _, k := range keys {
		for a := series.Last; a <= series.Sum; a++ {
			wants = append(wants, series.Want{Key: k, Aggregate: a})
		}
	}
	for i, v := range f.current(t, wants...) {
		if v != (series.Value{}) {
			t.Errorf("%s of %s is %+v", wants[i].Aggregate, wants[i].Key, v)
		}
	}
	for _, k := range keys {
		r := series.Range{Key: k, Start: at(24 * time.Hour), Stop: at(-time.Hour), Every: time.Hour}
		if res := f.series(t, r)[0]; len(res.Points) != 0 || res.Truncated {
			t.Errorf("the series of %s is %+v", k, res)
		}
	}
}

func (f *fixture) series(t *testing.T, ranges ...series.Range) []series.Result {
	t.Helper()
	return each(t, f, ranges, f.store.Series)
}

// errorOf returns the error of a call.
func errorOf[T any](_ T, err error) error { return err }

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, not %q", err, want)
	}
}

// calls are the methods that take a database.
func (f *fixture) calls() map[string]func(context.Context, string) error {
	k := key("m", "f")
	return map[string]func(context.Context, string) error{
		"Current": func(ctx context.Context, database string) error {
			return errorOf(f.store.Current(ctx, database, []series.Want{{Key: k}, {Key: k, Aggregate: series.Mean}}))
		},
		"Series": func(ctx context.Context, database string) error {
			r := series.Range{Key: k, Start: at(time.Hour), Stop: Clock, Every: time.Minute}
			return errorOf(f.store.Series(ctx, database, []series.Range{r}))
		},
		"Fields": func(ctx context.Context, database string) error { return errorOf(f.store.Fields(ctx, database)) },
		"Write": func(ctx context.Context, database string) error {
			return f.store.Write(ctx, database, []series.Sample{sample("m", "f", 1.0, time.Minute)})
		},
		"Keep": func(ctx context.Context, database string) error { return f.store.Keep(ctx, database, series.Keeping{}) },
		"CountBefore": func(ctx context.Context, database string) error {
			return errorOf(f.store.CountBefore(ctx, database, Clock))
		},
	}
}

func empty(t *testing.T, f *fixture) {
	f.wantMissing(t, key("m", "f"), key("another one", "ñ"))
	if all := f.fields(t); len(all) != 0 {
		t.Errorf("fields %v", all)
	}
	if got := f.current(t); len(got) != 0 {
		t.Errorf("no wants give %v", got)
	}
	if got := f.series(t); len(got) != 0 {
		t.Errorf("no ranges give %v", got)
	}
	f.write(t)
	if err := f.store.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// tryWrite checks that readers don't see the writes of TryWrite.
func tryWrite(t *testing.T, f *fixture) {
	for range 2 {
		if err := f.store.TryWrite(t.Context(), f.database); err != nil {
			t.Error(err)
		}
	}
	wantError(t, f.store.TryWrite(t.Context(), "no-such-database"), series.ErrNoDatabase)
	if fields := f.fields(t); len(fields) != 0 {
		t.Errorf("fields %v", fields)
	}
	if n, err := f.store.CountBefore(t.Context(), f.database, Clock.AddDate(10, 0, 0)); err != nil || n != 0 {
		t.Errorf("%d values, error %v", n, err)
	}
}

func noDatabase(t *testing.T, f *fixture) {
	for name, call := range f.calls() {
		t.Run(name, func(t *testing.T) { wantError(t, call(t.Context(), "no-such-database"), series.ErrNoDatabase) })
	}
}

func createTwice(t *testing.T, f *fixture) {
	f.write(t, sample("m", "f", 1.5, time.Minute))
	if err := f.store.Create(t.Context(), f.database); err != nil {
		t.Fatal(err)
	}
	f.wantNumber(t, lastOf("m", "f"), 1.5)
}

func apart(t *testing.T, f *fixture) {
	f.write(t, sample("m", "f", 1.5, time.Minute))
	other := *f
	other.database = f.create(t)
	other.wantMissing(t, key("m", "f"))
	other.write(t, sample("m", "f", true, time.Minute))
	f.wantNumber(t, lastOf("m", "f"), 1.5)
	other.wantNumber(t, series.Want{Key: key("m", "f"), Aggregate: series.Sum}, 1)
}

func cancelled(t *testing.T, f *fixture) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range f.calls() {
		t.Run(name, func(t *testing.T) { wantError(t, call(ctx, f.database), context.Canceled) })
	}
	t.Run("Create", func(t *testing.T) { wantError(t, f.store.Create(ctx, "db-cancelled"), context.Canceled) })
	t.Run("Ping", func(t *testing.T) { wantError(t, f.store.Ping(ctx), context.Canceled) })
	t.Run("TryWrite", func(t *testing.T) { wantError(t, f.store.TryWrite(ctx, f.database), context.Canceled) })
	f.wantMissing(t, key("m", "f"))
}
