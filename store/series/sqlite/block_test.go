package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tsmon/store/series"
)

// blocks are a day's series as a network has them, and some that it should not have.
func blocks() map[string]struct {
	kind   series.Kind
	points []point
	bytes  float64 // a point, at most
} {
	random := rand.New(rand.NewChaCha8([32]byte{1}))
	make := func(n int, every int64, value func(i int) float64) (points []point) {
		for i := range n {
			points = append(points, point{int64(i) * every, math.Float64bits(value(i))})
		}
		return points
	}
	bits := func(n int, value func(i int) int64) (points []point) {
		for i := range n {
			points = append(points, point{int64(i) * 60e9, uint64(value(i))})
		}
		return points
	}
	level := 3.2
	return map[string]struct {
		kind   series.Kind
		points []point
		bytes  float64
	}{
		"one":         {series.Float, make(1, 1, func(int) float64 { return 21.5 }), 13},
		"steady":      {series.Float, make(1440, 60e9, func(int) float64 { return 21.5 }), .05},
		"level":       {series.Float, make(1440, 60e9, func(int) float64 { level += .002 * random.NormFloat64(); return math.Round(level*1000) / 1000 }), 1},
		"coarse":      {series.Float, make(111, 778e9, func(i int) float64 { return math.Round(100*math.Sin(float64(i)/20)) / 10 }), 1.5},
		"nanoseconds": {series.Float, make(100, 1234567, func(i int) float64 { return float64(i) }), 1.5},
		"no decimals": {series.Float, make(1440, 60e9, func(i int) float64 { return math.Sqrt(float64(i)) }), 8},
		"exceptions": {series.Float, make(1440, 60e9, func(i int) float64 {
			return []float64{1.5, math.Copysign(0, -1), 1.5, 1.25, 2, 1. / 3, 7, 7, 1e300, -5e-324, 3, 3, 3, 3, 3, 3}[i%16]
		}), 3},
		"integers": {series.Integer, bits(1440, func(i int) int64 { return []int64{math.MaxInt64, math.MinInt64, 0, -1}[i%4] }), 3},
		"booleans": {series.Boolean, bits(1440, func(i int) int64 { return int64(i / 100 % 2) }), .1},
	}
}

func TestBlock(t *testing.T) {
	for name, c := range blocks() {
		for _, base := range []int64{0, -dayLength, 20000 * dayLength} {
			points := slices.Clone(c.points)
			for i := range points {
				points[i].time += base
			}
			block := appendBlock(nil, c.kind, base, points)
			got, err := readBlock(nil, c.kind, base, block)
			if err != nil || !slices.Equal(got, points) {
				t.Errorf("%s: %d points become %d, %v", name, len(points), len(got), err)
			}
			if each := float64(len(block)) / float64(len(points)); each > c.bytes {
				t.Errorf("%s: %.2f bytes a point", name, each)
			}
		}
	}
}

// TestDamagedBlock reads every beginning of blocks, and blocks with hostile counts.
func TestDamagedBlock(t *testing.T) {
	hostile := map[string][]byte{
		"empty": {}, "no body": {0}, "no unit": {0, 9, 1, 0, 0, 0}, "no point": {0, 0, 0}, "form": {12, 0, 1, 0, 0, 0},
		"count":       append(binary.AppendUvarint([]byte{0, 0}, math.MaxUint64), 0, 0, 0),
		"exceptions":  binary.AppendUvarint([]byte{0, 0, 1, 0, 0}, math.MaxUint64),
		"same time":   {0, 0, 2, 0, 0, 0, 0, 0},
		"next day":    append(binary.AppendVarint([]byte{0, 0, 1}, dayLength), 0, 0),
		"overflow":    append(binary.AppendVarint([]byte{0, 3, 1}, math.MaxInt64), 0, 0),
		"backwards":   {0, 0, 1, 1, 0, 0},
		"rest":        {0, 0, 1, 0, 0, 0, 5},
		"no zstd":     {packed, 1, 2, 3},
		"bomb":        appendPacked(bytes.Repeat([]byte{0}, maxBody+1)),
		"exception":   {0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0},
		"too few":     {words, 0, 1, 0, 0, 0},
		"long number": append([]byte{0, 0, 1}, bytes.Repeat([]byte{0xff}, 20)...),
	}
	for name, block := range hostile {
		if _, err := readBlock(nil, series.Float, 0, block); !errors.Is(err, errDamaged) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if _, err := readBlock(nil, series.Integer, 0, []byte{3, 0, 1, 0, 0}); !errors.Is(err, errDamaged) {
		t.Errorf("integers with decimals: %v", err)
	}
	for name, c := range blocks() {
		block := appendBlock(nil, c.kind, 0, c.points)
		for end := range block {
			if got, err := readBlock(nil, c.kind, 0, block[:end]); err == nil && slices.Equal(got, c.points) {
				t.Errorf("%s: %d of %d bytes are the whole", name, end, len(block))
			}
		}
	}
}

func appendPacked(body []byte) []byte { return compressor.EncodeAll(body, []byte{packed}) }

func FuzzReadBlock(f *testing.F) {
	for _, c := range blocks() {
		block := appendBlock(nil, c.kind, 0, c.points)
		f.Add(block)
		if block[0]&packed != 0 {
			body, err := decompressor.DecodeAll(block[1:], nil)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(append([]byte{block[0] &^ packed}, body...))
		}
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		for kind := series.Float; kind <= series.Boolean; kind++ {
			points, err := readBlock(nil, kind, 0, block)
			if err != nil {
				continue
			}
			again, err := readBlock(nil, kind, 0, appendBlock(nil, kind, 0, points))
			if err != nil || !slices.Equal(again, points) {
				t.Errorf("%d points become %d, %v", len(points), len(again), err)
			}
		}
	})
}
