package series_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/store/series"
)

// TestEncoder encodes samples that repeat names: each gives the line of AppendLine, or
// the error of ValidSample, and an error leaves the text as it was.
func TestEncoder(t *testing.T) {
	at := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	fields := func(pairs ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i].(string)] = pairs[i+1]
		}
		return m
	}
	many := map[string]any{}
	for i := range 1024 {
		many[fmt.Sprint("f", i)] = 1.0
	}
	samples := []series.Sample{
		{Measurement: "a", Fields: fields("f", 1.5), Time: at},
		{Measurement: "a", Fields: fields("f", math.NaN()), Time: at},
		{Measurement: "a", Fields: fields("f", math.Inf(-1)), Time: at},
		{Measurement: "a", Fields: fields("f", 2e300), Time: at},
		{Measurement: "a", Fields: fields("f", -1e300), Time: at},
		{Measurement: "a", Fields: fields("g", int64(5), "f", 2.0, "b", true, "t", `x "y" \z`), Tags: map[string]string{"site": "north, a", "b": "1"}, Time: at},
		{Measurement: "a", Fields: fields("f", 2.0), Tags: map[string]string{"time": "x"}, Time: at},
		{Measurement: "a", Fields: fields("f", 2.0), Tags: map[string]string{"k": "x\n"}, Time: at},
		{Measurement: "a", Fields: fields("t", "ñ"), Time: at},
		{Measurement: "a", Fields: fields("t", "a\x00"), Time: at},
		{Measurement: "a", Fields: fields("t", strings.Repeat("x", 1<<16+1)), Time: at},
		{Measurement: "a", Fields: fields("f", 1.0), Time: at.AddDate(1000, 0, 0)},
		{Measurement: "a", Fields: fields("f", 1.0)},
		{Measurement: "a", Time: at},
		{Measurement: "a", Fields: fields("f", 1), Time: at},
		{Measurement: "a", Fields: fields("time", 1.0), Time: at},
		{Measurement: "#a", Fields: fields("f", 1.0), Time: at},
		{Measurement: "a b,c", Fields: fields("f=g, h", 1.0), Time: at},
		{Measurement: "a b,c", Fields: fields("f=g, h", 3.0), Time: at},
		{Measurement: "", Fields: fields("f", 1.0), Time: at},
		{Measurement: "m", Fields: many, Time: at},
	}
	var e series.Encoder
	text := []byte("before\n")
	for range 2 { // names are new in the first turn, and known in the second
		for i, s := range samples {
			before := slices.Clone(text)
			var err error
			text, err = e.Append(text, s)
			want := series.ValidSample(s)
			if fmt.Sprint(err) != fmt.Sprint(want) {
				t.Errorf("sample %d: %v, want %v", i, err, want)
			}
			if want == nil {
				before = series.AppendLine(before, s)
			}
			if string(text) != string(before) {
				t.Fatalf("sample %d: text ends in %.200q, want %.200q", i, text[min(len(text), len(before)-20):], before[len(before)-20:])
			}
		}
	}
	before := string(text)
	for _, value := range []any{int64(1), true, "1.5"} {
		var err error
		if text, err = e.Append(text, series.Sample{Measurement: "a", Fields: fields("f", value), Time: at}); !errors.Is(err, series.ErrKind) || string(text) != before {
			t.Errorf("%T for a number: %v", value, err)
		}
	}
	kinds := e.Kinds()
	for field, want := range map[string]series.Kind{"f": series.Float, "g": series.Integer, "b": series.Boolean, "t": series.Text} {
		if got := kinds[series.Key{Measurement: "a", Field: field}]; got != want {
			t.Errorf("%s is %s, want %s", field, got, want)
		}
	}
	if want := 4 + 1 + 1024; len(kinds) != want {
		t.Errorf("%d kinds, want %d", len(kinds), want)
	}
}

// BenchmarkEncoder checks and encodes a batch that repeats 500 fields.
func BenchmarkEncoder(b *testing.B) {
	for _, tags := range []map[string]string{nil, {"site": "north"}} {
		samples := make([]series.Sample, 20_000)
		for i := range samples {
			samples[i] = series.Sample{
				Measurement: fmt.Sprint("site", i%500/5), Fields: map[string]any{fmt.Sprint("f", i%5): math.Round(float64(i)*7) / 100},
				Tags: tags, Time: time.Unix(int64(i), 0),
			}
		}
		b.Run(fmt.Sprint(len(tags), " tags"), func(b *testing.B) {
			var text []byte
			b.ReportAllocs()
			for b.Loop() {
				var e series.Encoder
				text = text[:0]
				for _, s := range samples {
					var err error
					if text, err = e.Append(text, s); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(samples)), "ns/sample")
		})
	}
}
