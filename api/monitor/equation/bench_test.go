package equation_test

import (
	"testing"

	"tsmon/api/monitor/equation"
)

const usual = "(caudal-1 + caudal-2) * 3.6 / max(presión media, 0.1) - 2 ^ 0.5"

var usualValues = operands{"caudal-1": 12.5, "caudal-2": 3.25, "presión media": 4}

func BenchmarkParse(b *testing.B) {
	hostile, many := manyKeys()
	for _, c := range []struct {
		name, text string
		keys       []string
	}{
		{"usual", usual, usualValues.keys()},
		{"hostile", hostile, many},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := equation.Parse(c.text, c.keys); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkValue(b *testing.B) {
	e := parse(b, usual, usualValues.keys()...)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := e.Value(usualValues.get); !ok {
			b.Fatal("no value")
		}
	}
}
