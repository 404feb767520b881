package influx

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/store/series"
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

// BenchmarkQuarter fills a server with five million values and asks what charts ask,
// through the adapter and by hand.
func BenchmarkQuarter(b *testing.B) {
	server := servertest.StartInfluxDB(b)
	s := open(b, Options{URL: server.URL, Now: func() time.Time { return seriestest.Clock }})
	seriestest.BenchmarkIngest(b, s, "bench", seriestest.Quarter)
	server.Settle("bench")
	seriestest.BenchmarkQuestions(b, s, "bench", seriestest.Quarter)
	benchmarkQuestionsByHand(b, s, seriestest.Quarter)
}

// BenchmarkWrite writes the same batches through the adapter and, from text that is
// ready, by hand, in turns, and logs the ratio.
func BenchmarkWrite(b *testing.B) {
	server := servertest.StartInfluxDB(b)
	s := open(b, Options{URL: server.URL, Now: func() time.Time { return seriestest.Clock }})
	n := seriestest.Network{Variables: 500, Days: 10, Every: 10 * time.Minute}
	for _, name := range []string{"adapter", "hand"} {
		if err := s.Create(b.Context(), name); err != nil {
			b.Fatal(err)
		}
	}
	var spent [][2]time.Duration
	err := n.Batches(20_000, func(batch []series.Sample) error {
		var lines []byte
		for _, sample := range batch {
			lines = series.AppendLine(lines, sample)
		}
		begin := time.Now()
		if err := s.Write(b.Context(), "adapter", batch); err != nil {
			return err
		}
		spent = append(spent, [2]time.Duration{time.Since(begin)})
		begin = time.Now()
		answer, err := http.Post(s.client.ServerURL()+"/write?db=hand", "text/plain", bytes.NewReader(lines))
		if err != nil {
			return err
		}
		answer.Body.Close()
		spent[len(spent)-1][1] = time.Since(begin)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	var ratios []float64
	for _, pair := range spent {
		ratios = append(ratios, float64(pair[1])/float64(pair[0]))
	}
	slices.Sort(ratios)
	b.Logf("the adapter writes %.2f times as fast as a hand (median of %d pairs)", ratios[len(ratios)/2], len(ratios))
}

// benchmarkQuestionsByHand puts the questions in one request with a statement for each
// window length, and reads the answer without decoding it.
func benchmarkQuestionsByHand(b *testing.B, s *Store, n seriestest.Network) {
	for _, q := range seriestest.Questions {
		ranges := q.Ranges(n)
		var text strings.Builder
		for _, r := range ranges {
			fmt.Fprintf(&text, "SELECT mean(%s) FROM %s WHERE time >= %d AND time < %d GROUP BY time(%s,%s);", r.Field, r.Measurement,
				r.Start.UnixNano(), r.Stop.UnixNano(), r.Every, map[bool]string{true: "5h", false: "0s"}[r.Every == 24*time.Hour])
		}
		form := url.Values{"q": {text.String()}, "db": {"bench"}, "epoch": {"ns"}}
		b.Run(q.Name+"/by hand", func(b *testing.B) {
			for b.Loop() {
				answer, err := http.PostForm(s.client.ServerURL()+"/query", form)
				if err != nil {
					b.Fatal(err)
				}
				size, err := io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if err != nil || size < 1000*int64(q.Variables) {
					b.Fatalf("%d bytes, %v", size, err)
				}
			}
		})
	}
}
