package series_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"tsmon/store/series"
)

// BenchmarkLines reads lines of one field and writes them again, as a server does
// that stands before InfluxDB.
func BenchmarkLines(b *testing.B) {
	var text []byte
	const lines = 5000
	for i := range lines {
		text = fmt.Appendf(text, "bomba_%d,site=estacion caudal=%.2f %d\n", i%500, float64(i)/7, 1772722800000000000+i)
	}
	b.ReportAllocs()
	for b.Loop() {
		var out []byte
		n := 0
		for s, err := range series.Lines(bytes.NewReader(text), time.Nanosecond, time.Time{}) {
			if err != nil {
				b.Fatal(err)
			}
			out = series.AppendLine(out, s)
			n++
		}
		if n != lines || len(out) < len(text)/2 {
			b.Fatalf("%d lines, %d bytes", n, len(out))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/lines, "ns/line")
}
