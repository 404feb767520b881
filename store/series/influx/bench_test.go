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
		rows, err := s.server.ask(b.Context(), "bench", q)
		if err != nil || len(rows[0]) != 17 {
			b.Fatalf("%d rows, %v", len(rows), err)
		}
	}
}

// BenchmarkQuarter fills a server with five million values and asks what charts ask,
// through the adapter and by hand.
func BenchmarkQuarter(b *testing.B) {
	b.Run("1.8", func(b *testing.B) {
		server := servertest.StartInfluxDB(b)
		benchmarkQuarter(b, server, Options{URL: server.URL})
	})
	b.Run("2.7", func(b *testing.B) {
		server := servertest.StartInfluxDB2(b)
		benchmarkQuarter(b, server, Options{URL: server.URL, Org: server.Org, Token: server.Token})
	})
}

// settler is a server that is waited for until its values are in files.
type settler interface {
	Settle(database string)
	Used() int64
}

func benchmarkQuarter(b *testing.B, server settler, opts Options) {
	opts.Now = func() time.Time { return seriestest.Clock }
	s := open(b, opts)
	before := server.Used()
	seriestest.BenchmarkIngest(b, s, "bench", seriestest.Quarter)
	server.Settle("bench")
	b.Logf("%.2f bytes a value", float64(server.Used()-before)/float64(seriestest.Quarter.Values()))
	seriestest.BenchmarkQuestions(b, s, "bench", seriestest.Quarter)
	benchmarkQuestionsByHand(b, s, seriestest.Quarter)
}

// post sends a request as a program without the adapter does, and returns the size of
// the answer, which it does not decode.
func post(b *testing.B, s *Store, path, kind string, body io.Reader) int64 {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, s.server.client.HTTPService().ServerURL()+path, body)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Authorization", s.server.client.HTTPService().Authorization())
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	size, err := io.Copy(io.Discard, answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		b.Fatalf("status %d, %v", answer.StatusCode, err)
	}
	return size
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
	var ratios []float64
	err := n.Batches(20_000, func(batch []series.Sample) error {
		var lines []byte
		for _, sample := range batch {
			lines = series.AppendLine(lines, sample)
		}
		var spent [2]time.Duration
		for i := range spent {
			which := (i + len(ratios)) % 2 // each is first in every other pair
			begin := time.Now()
			if which == 0 {
				if err := s.Write(b.Context(), "adapter", batch); err != nil {
					return err
				}
			} else {
				post(b, s, "write?db=hand", "text/plain", bytes.NewReader(lines))
			}
			spent[which] = time.Since(begin)
		}
		ratios = append(ratios, float64(spent[1])/float64(spent[0]))
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	slices.Sort(ratios)
	b.Logf("the adapter writes %.2f times as fast as a hand (median of %d pairs)", ratios[len(ratios)/2], len(ratios))
}

// benchmarkQuestionsByHand puts each question in one request with a statement for each
// variable.
func benchmarkQuestionsByHand(b *testing.B, s *Store, n seriestest.Network) {
	for _, q := range seriestest.Questions {
		var text strings.Builder
		for _, r := range q.Ranges(n) {
			fmt.Fprintf(&text, "SELECT mean(%s) FROM %s WHERE time >= %d AND time < %d GROUP BY time(%s,%s);", r.Field, r.Measurement,
				r.Start.UnixNano(), r.Stop.UnixNano(), r.Every, map[bool]string{true: "5h", false: "0s"}[r.Every == 24*time.Hour])
		}
		form := url.Values{"q": {text.String()}, "db": {"bench"}, "epoch": {"ns"}}.Encode()
		b.Run(q.Name+"/by hand", func(b *testing.B) {
			for b.Loop() {
				if size := post(b, s, "query", "application/x-www-form-urlencoded", strings.NewReader(form)); size < 1000*int64(q.Variables) {
					b.Fatalf("%d bytes", size)
				}
			}
		})
	}
}
