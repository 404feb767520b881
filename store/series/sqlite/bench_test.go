package sqlite

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"tsmon/store/series"
	"tsmon/store/series/seriestest"
)

func benchmarked(b *testing.B) *Store {
	s := open(b, filepath.Join(b.TempDir(), "series.db"), Options{Now: func() time.Time { return seriestest.Clock }})
	seriestest.Fill(b, s, "bench")
	return s
}

func BenchmarkCurrent(b *testing.B) { seriestest.BenchmarkView(b, benchmarked(b), "bench") }

// BenchmarkSeries reads a day of ten-second values in windows of a minute.
func BenchmarkSeries(b *testing.B) {
	s := benchmarked(b)
	r := series.Range{Key: series.Key{Measurement: "m3", Field: "f1"}, Start: seriestest.Clock.Add(-24 * time.Hour), Stop: seriestest.Clock, Every: time.Minute}
	for b.Loop() {
		if _, err := s.Series(b.Context(), "bench", []series.Range{r}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWrite writes batches of a thousand samples of one field.
func BenchmarkWrite(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "series.db"), Options{})
	if err := s.Create(b.Context(), "bench"); err != nil {
		b.Fatal(err)
	}
	samples := make([]series.Sample, 1000)
	when := seriestest.Clock
	for b.Loop() {
		for i := range samples {
			when = when.Add(time.Second)
			samples[i] = series.Sample{Measurement: "m", Fields: map[string]any{"f": float64(i)}, Time: when}
		}
		if err := s.Write(b.Context(), "bench", samples); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkQuarter fills a store with five million values and asks what charts ask.
func BenchmarkQuarter(b *testing.B) {
	name := filepath.Join(b.TempDir(), "series.db")
	s := open(b, name, Options{Now: func() time.Time { return seriestest.Clock }})
	seriestest.BenchmarkIngest(b, s, "bench", seriestest.Quarter)
	if err := s.pack(b.Context(), seriestest.Clock); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%.2f bytes a value", float64(info.Size())/float64(seriestest.Quarter.Values()))
	seriestest.BenchmarkQuestions(b, s, "bench", seriestest.Quarter)
}
