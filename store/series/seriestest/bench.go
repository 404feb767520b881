package seriestest

import (
	"fmt"
	"testing"
	"time"

	"tsmon/store/series"
)

// View returns the questions of a dashboard: the last values of 50 keys in 17 measurements.
func View() []series.Want {
	var wants []series.Want
	for i := range 50 {
		wants = append(wants, lastOf(fmt.Sprint("m", i%17), fmt.Sprint("f", i/17)))
	}
	return wants
}

// Fill creates a database and writes a day of the values that View asks for. There is a value
// every ten seconds until Clock, 440,640 in all.
func Fill(tb testing.TB, store series.Store, database string) {
	tb.Helper()
	if err := store.Create(tb.Context(), database); err != nil {
		tb.Fatal(err)
	}
	for m := range 17 {
		var samples []series.Sample
		for i := range 8640 {
			samples = append(samples, series.Sample{
				Measurement: fmt.Sprint("m", m), Time: at(time.Duration(i) * 10 * time.Second), Tags: map[string]string{"site": "a"},
				Fields: map[string]any{"f0": float64(i), "f1": float64(i % 100), "f2": float64(i%7) / 2},
			})
		}
		if err := store.Write(tb.Context(), database, samples); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkView measures View for two aggregates, without a cache.
func BenchmarkView(b *testing.B, store series.Store, database string) {
	for _, a := range []series.Aggregate{series.Last, series.Mean} {
		wants := View()
		for i := range wants {
			wants[i].Aggregate = a
			wants[i].Window = time.Hour
		}
		b.Run(a.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				values, err := store.Current(b.Context(), database, wants)
				if err != nil || !values[49].Found {
					b.Fatalf("%+v, %v", values, err)
				}
			}
		})
	}
}
