package sqlite

import (
	"math"
	"math/rand/v2"
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

// BenchmarkFiveYears asks for 90 days of 500 variables that have been measured once a
// minute for five years, of which there are rollups only.
func BenchmarkFiveYears(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "series.db"), Options{Now: func() time.Time { return seriestest.Clock }})
	n := seriestest.Network{Variables: 500, Days: 5 * 365}
	if err := s.Create(b.Context(), "bench"); err != nil {
		b.Fatal(err)
	}
	var samples []series.Sample
	for i := range n.Variables {
		samples = append(samples, series.Sample{Measurement: n.Key(i).Measurement, Fields: map[string]any{n.Key(i).Field: 1.5}, Time: seriestest.Clock})
	}
	if err := s.Write(b.Context(), "bench", samples); err != nil {
		b.Fatal(err)
	}
	if _, err := s.file.Writer.Exec("CREATE TEMP TABLE made (n INTEGER PRIMARY KEY, data BLOB)"); err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	const kinds = 97
	for i := range kinds {
		if _, err := s.file.Writer.Exec("INSERT INTO made VALUES (?, ?)", i, encodeRollup(series.Float, 1, 0, minutes(random))); err != nil {
			b.Fatal(err)
		}
	}
	_, err := s.file.Writer.Exec(`WITH RECURSIVE days (day) AS (SELECT ?1 UNION ALL SELECT day + 1 FROM days WHERE day + 1 < ?2)
		INSERT INTO rollups SELECT (s.id << 18) + day, 1, m.data FROM streams s CROSS JOIN days JOIN made m ON m.n = (s.id + day) % ?3`,
		blockID(0, dayOf(seriestest.Clock.AddDate(-5, 0, 0).UnixNano())), blockID(0, dayOf(seriestest.Clock.UnixNano())), kinds)
	if err != nil {
		b.Fatal(err)
	}
	ranges := seriestest.Question{Variables: n.Variables, Days: 90, Every: 24 * time.Hour}.Ranges(n)
	b.Run("500 x 90 days at 1 d", func(b *testing.B) {
		for b.Loop() {
			results, err := s.Series(b.Context(), "bench", ranges)
			if err != nil || len(results[499].Points) < 90 {
				b.Fatalf("%d points, %v", len(results[499].Points), err)
			}
		}
	})
}

// minutes returns a day of values, one a minute.
func minutes(random *rand.Rand) (points []point) {
	level := 20.0
	for i := range int64(24 * 60) {
		level += random.NormFloat64() / 20
		points = append(points, point{i * 60 * 1e9, math.Float64bits(math.Round(level*100) / 100)})
	}
	return points
}
