package seriestest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"tsmon/store/series"
)

// wantLast checks the number and the time of a last value.
func (f *fixture) wantLast(t *testing.T, k series.Key, number float64, when time.Time) {
	t.Helper()
	values := f.current(t, series.Want{Key: k, Timed: true}, series.Want{Key: k})
	if v := values[0]; !v.Found || v.Number != number || !v.Time.Equal(when) {
		t.Errorf("the last of %s is %+v, not %v at %s", k, v, number, when)
	}
	for _, v := range []series.Value{values[1], f.current(t, series.Want{Key: k})[0]} {
		if !v.Found || v.Number != number || !v.Time.IsZero() {
			t.Errorf("the last of %s, without its time, is %+v, not %v", k, v, number)
		}
	}
}

func last(t *testing.T, f *fixture) {
	f.write(t,
		sample("m", "f", 1.5, 3*time.Minute), sample("m", "f", -2.25, 2*time.Minute), sample("m", "f", 7.0, 4*time.Minute),
		sample("m", "i", int64(5), 2*time.Minute), sample("m", "b", false, 2*time.Minute), sample("m", "b", true, time.Minute),
		sample("m", "off", false, time.Second), sample("m", "t", "12.5", time.Minute))
	f.wantLast(t, key("m", "f"), -2.25, at(2*time.Minute))
	f.wantLast(t, key("m", "i"), 5, at(2*time.Minute))
	f.wantLast(t, key("m", "b"), 1, at(time.Minute))
	f.wantLast(t, key("m", "off"), 0, at(time.Second))
	f.wantMissing(t, key("m", "t"), key("m", "g"), key("n", "f"))
}

// lastLongAgo mixes values of very different ages in one batch.
func lastLongAgo(t *testing.T, f *fixture) {
	ages := []time.Duration{0, time.Nanosecond, 59 * time.Minute, 61 * time.Minute, 23 * time.Hour, 25 * time.Hour,
		100 * 24 * time.Hour, 60 * 365 * 24 * time.Hour}
	ages = slices.DeleteFunc(ages, func(age time.Duration) bool { return at(age).Before(f.limits.Since) })
	var samples []series.Sample
	wants := []series.Want{lastOf("m", "never")}
	for i, age := range ages {
		field := fmt.Sprint("f", i)
		samples = append(samples, sample("m", field, float64(i), age))
		timed := lastOf("m", field)
		timed.Timed = i%2 == 0
		wants = append(wants, timed, lastOf("never", field))
	}
	f.write(t, samples...)
	for range 3 { // the store may remember where it found the values
		values := f.current(t, wants...)
		for i, age := range ages {
			if v := values[2*i+1]; !v.Found || v.Number != float64(i) || i%2 == 0 && !v.Time.Equal(at(age)) {
				t.Errorf("the value of %s ago is %+v", age, v)
			}
			if values[2*i+2].Found {
				t.Errorf("a value of %s", wants[2*i+2].Key)
			}
		}
	}
}

// lastMoves follows a value that is missing, old, and new again.
func lastMoves(t *testing.T, f *fixture) {
	k := key("m", "f")
	f.wantMissing(t, k)
	f.write(t, sample("m", "f", 1.0, 30*24*time.Hour))
	f.wantLast(t, k, 1, at(30*24*time.Hour))
	f.write(t, sample("m", "f", 2.0, 12*time.Hour))
	f.wantLast(t, k, 2, at(12*time.Hour))
	f.write(t, sample("m", "f", 3.0, time.Minute))
	f.wantLast(t, k, 3, at(time.Minute))
	f.now = Clock.Add(40 * 24 * time.Hour)
	f.wantLast(t, k, 3, at(time.Minute))
	f.write(t, sample("m", "f", 4.0, -40*24*time.Hour))
	f.wantLast(t, k, 4, at(-40*24*time.Hour))
}

func lastAhead(t *testing.T, f *fixture) {
	f.write(t, sample("m", "f", 1.0, time.Minute), sample("m", "f", 2.0, -time.Nanosecond), sample("m", "f", 3.0, -200*365*24*time.Hour))
	f.wantLast(t, key("m", "f"), 1, at(time.Minute))
	f.wantNumber(t, series.Want{Key: key("m", "f"), Aggregate: series.Max}, 1)
	f.now = Clock.Add(time.Second)
	f.wantLast(t, key("m", "f"), 2, at(-time.Nanosecond))
}

// figures are the aggregates of a key, Mean to Sum.
type figures [4]float64

// wantFigures checks the aggregates of keys, in one batch with their last values.
func (f *fixture) wantFigures(t *testing.T, window time.Duration, expected map[series.Key]figures) {
	t.Helper()
	var wants []series.Want
	for k := range expected {
		for a := series.Last; a <= series.Sum; a++ {
			wants = append(wants, series.Want{Key: k, Aggregate: a, Window: window})
		}
	}
	for i, v := range f.current(t, wants...) {
		w := wants[i]
		if w.Aggregate == series.Last {
			continue
		}
		if number := expected[w.Key][w.Aggregate-series.Mean]; !v.Found || v.Number != number || !v.Time.Equal(f.now) {
			t.Errorf("%s of %s is %+v, not %v", w.Aggregate, w.Key, v, number)
		}
	}
}

func aggregates(t *testing.T, f *fixture) {
	var samples []series.Sample
	for i := range 8 {
		samples = append(samples, series.Sample{Measurement: "m", Time: at(time.Duration(i+1) * time.Hour), Fields: map[string]any{
			"f": float64(i) - 2.5, "i": int64(i), "b": i%4 == 0, "on": true, "off": false, "t": "7",
		}})
	}
	f.write(t, samples...)
	f.wantFigures(t, 0, map[series.Key]figures{
		key("m", "f"): {1, 4.5, -2.5, 8}, key("m", "i"): {3.5, 7, 0, 28},
		key("m", "b"): {0.25, 1, 0, 2}, key("m", "on"): {1, 1, 1, 8}, key("m", "off"): {0, 0, 0, 0},
	})
	f.wantFigures(t, 4*time.Hour, map[series.Key]figures{
		key("m", "f"): {-1.5, -0.5, -2.5, -4.5}, key("m", "i"): {1, 2, 0, 3}, key("m", "b"): {1. / 3, 1, 0, 1},
	})
	f.wantMissing(t, key("m", "t"))
}

// windows checks that a window begins just after its start and ends with the clock.
func windows(t *testing.T, f *fixture) {
	f.write(t, sample("m", "f", 1.0, 0), sample("m", "f", 2.0, time.Hour-1), sample("m", "f", 4.0, time.Hour),
		sample("m", "b", true, 0), sample("m", "b", true, time.Hour-1), sample("m", "b", true, time.Hour))
	f.wantFigures(t, time.Hour, map[series.Key]figures{key("m", "f"): {1.5, 2, 1, 3}, key("m", "b"): {1, 1, 1, 2}})
	f.wantFigures(t, time.Hour+1, map[series.Key]figures{key("m", "f"): {7. / 3, 4, 1, 7}, key("m", "b"): {1, 1, 1, 3}})
	f.now = Clock.Add(2 * time.Hour)
	for _, v := range f.current(t, series.Want{Key: key("m", "b"), Aggregate: series.Sum, Window: time.Hour},
		series.Want{Key: key("m", "f"), Aggregate: series.Min, Window: time.Hour}) {
		if v.Found {
			t.Errorf("an empty window has %+v", v)
		}
	}
}

// sameNameOtherKind asks for every aggregate of fields with the same name and different
// kinds, in one batch.
func sameNameOtherKind(t *testing.T, f *fixture) {
	for _, ago := range []time.Duration{time.Minute, 2 * time.Minute} {
		f.write(t, sample("floats", "f", 2.5, ago), sample("booleans", "f", true, ago), sample("texts", "f", "x", ago),
			sample("integers", "f", int64(4), ago), sample("more floats", "f", 3.5, ago), sample("more booleans", "f", false, ago))
	}
	f.wantFigures(t, 0, map[series.Key]figures{
		key("floats", "f"): {2.5, 2.5, 2.5, 5}, key("more floats", "f"): {3.5, 3.5, 3.5, 7},
		key("booleans", "f"): {1, 1, 1, 2}, key("more booleans", "f"): {0, 0, 0, 0}, key("integers", "f"): {4, 4, 4, 8},
	})
	f.wantMissing(t, key("texts", "f"))
	f.wantLast(t, key("booleans", "f"), 1, at(time.Minute))
	f.wantLast(t, key("integers", "f"), 4, at(time.Minute))
}

func tagSets(t *testing.T, f *fixture) {
	f.write(t,
		sample("m", "f", 1.0, 3*time.Minute), sample("m", "f", 2.0, 2*time.Minute, "pump", "1"),
		sample("m", "f", 8.0, time.Minute, "pump", "2", "site", "a b"), sample("m", "f", 5.0, time.Minute, "pump", "2"),
		sample("m", "b", true, 3*time.Minute), sample("m", "b", false, 2*time.Minute, "pump", "1"),
		sample("m", "b", true, 2*time.Minute, "pump", "3"), sample("m", "b", false, 4*time.Minute, "pump", "3"))
	f.wantFigures(t, 0, map[series.Key]figures{key("m", "f"): {4, 8, 1, 16}, key("m", "b"): {0.5, 1, 0, 2}})
	f.wantLast(t, key("m", "f"), 8, at(time.Minute)) // the greater of two
	f.write(t, sample("m", "low", 9.0, 3*time.Minute, "pump", "1"), sample("m", "low", 2.0, time.Minute, "pump", "2"))
	f.wantLast(t, key("m", "low"), 2, at(time.Minute)) // the later of two
	f.wantLast(t, key("m", "b"), 1, at(2*time.Minute))
}

// tagNames checks that a tag is not a field, and that a field with the name of a tag is found.
func tagNames(t *testing.T, f *fixture) {
	tag := "f"
	if f.limits.TagsApart {
		tag = "g"
	}
	f.write(t, sample("m", "f", 1.0, time.Minute, "site", "12"), sample("n", "f", 2.0, time.Minute, tag, "12"))
	f.wantMissing(t, key("m", "site"), key("m", "time"), key("m", "*"), key("m", "f::float"), key("m.n", "f"), key("m/*", "f"), key("/m/", "f"))
	f.wantLast(t, key("n", "f"), 2, at(time.Minute))
	f.wantNumber(t, series.Want{Key: key("n", "f"), Aggregate: series.Sum}, 2)
}

func large(t *testing.T, f *fixture) {
	largest := cmp.Or(f.limits.Integer, math.MaxInt64)
	f.write(t, sample("m", "i", largest, time.Minute), sample("m", "f", 1e300, time.Minute),
		sample("m", "s", math.SmallestNonzeroFloat64, time.Minute), sample("m", "n", int64(math.MinInt64), time.Minute))
	f.wantLast(t, key("m", "i"), float64(largest), at(time.Minute))
	f.wantLast(t, key("m", "n"), math.MinInt64, at(time.Minute))
	f.wantLast(t, key("m", "f"), 1e300, at(time.Minute))
	f.wantLast(t, key("m", "s"), math.SmallestNonzeroFloat64, at(time.Minute))
	f.write(t, sample("m", "f", 1e300, 2*time.Minute))
	f.wantNumber(t, series.Want{Key: key("m", "f"), Aggregate: series.Sum}, 2e300)
}

func thousand(t *testing.T, f *fixture) {
	var samples []series.Sample
	var wants []series.Want
	for i := range 200 {
		s := sample(fmt.Sprint("m", i%40), fmt.Sprint("f", i), float64(i), time.Minute)
		if i%7 == 0 {
			s.Fields = map[string]any{fmt.Sprint("f", i): i%2 == 0}
		}
		samples = append(samples, s)
		for a := series.Last; a <= series.Sum; a++ {
			wants = append(wants, series.Want{Key: key(s.Measurement, fmt.Sprint("f", i)), Aggregate: a})
		}
	}
	f.write(t, samples...)
	for i, v := range f.current(t, append(wants, wants...)...) {
		number := float64(i % len(wants) / 5)
		if int(number)%7 == 0 {
			number = float64(1 - int(number)%2)
		}
		if !v.Found || v.Number != number {
			t.Fatalf("value %d is %+v, not %v", i, v, number)
		}
	}
}

// writersAndReaders checks that each reader sees its writer's values as soon as they are
// written.
func writersAndReaders(t *testing.T, f *fixture) {
	const rounds = 30
	var all sync.WaitGroup
	for w := range 4 {
		measurement := fmt.Sprint("m", w)
		written := make(chan int, rounds)
		all.Go(func() {
			defer close(written)
			for i := range rounds {
				s := sample(measurement, "f", float64(i), time.Hour-time.Duration(i)*time.Second, "writer", fmt.Sprint(i%3))
				if err := f.store.Write(t.Context(), f.database, []series.Sample{s}); err != nil {
					t.Error(err)
					return
				}
				written <- i
			}
		})
		all.Go(func() {
			for i := range written {
				values, err := f.store.Current(t.Context(), f.database,
					[]series.Want{lastOf(measurement, "f"), {Key: key(measurement, "f"), Aggregate: series.Max}})
				if err != nil {
					t.Error(err)
				} else if !values[0].Found || values[0].Number < float64(i) || values[1].Number < float64(i) {
					t.Errorf("%s: %d was written and %+v is read", measurement, i, values)
				}
			}
		})
	}
	all.Wait()
}
