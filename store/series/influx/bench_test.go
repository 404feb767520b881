package influx

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tsmon/store/series/seriestest"
	"tsmon/store/servertest"
)

// BenchmarkCurrent compares a cold view with the best request written by hand
// for the same values, and with one request a value.
func BenchmarkCurrent(b *testing.B) {
	server := servertest.StartInfluxDB(b)
	s := open(b, Options{URL: server.URL, Now: func() time.Time { return seriestest.Clock }})
	seriestest.Fill(b, s, "bench")
	server.Settle("bench")
	seriestest.BenchmarkView(b, s, "bench")
	b.Run("last/by hand", func(b *testing.B) { benchmarkHand(b, s) })
	b.Run("last/one by one", func(b *testing.B) {
		wants := seriestest.View()
		for b.Loop() {
			for i := range wants {
				if _, err := s.Current(b.Context(), "bench", wants[i:i+1]); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// benchmarkHand reads last values in one statement, which does not tell their
// times.
func benchmarkHand(b *testing.B, s *Store) {
	measurements := make(map[string]bool)
	var from []string
	for _, want := range seriestest.View() {
		if !measurements[want.Measurement] {
			measurements[want.Measurement] = true
			from = append(from, want.Measurement)
		}
	}
	text := fmt.Sprintf("SELECT last(f0), last(f1), last(f2) FROM %s WHERE time > %d", strings.Join(from, ", "),
		seriestest.Clock.Add(-time.Hour).UnixNano())
	b.ReportAllocs()
	for b.Loop() {
		q := query{}
		q.add(text)
		rows, err := s.ask(b.Context(), "bench", q)
		if err != nil || len(rows[0]) != 17 {
			b.Fatalf("%d rows, %v", len(rows), err)
		}
	}
}
