package sqlite

import (
	"errors"
	"slices"
	"testing"

	"tsmon/store/series"
)

// plain returns the figures as readRollup leaves them.
func plain(parts []window, kind series.Kind) []window {
	for i := range parts {
		h := &parts[i]
		h.sum, h.rest = h.total(), 0
		if kind != series.Boolean {
			h.last = point{}
		}
	}
	return parts
}

func TestRollup(t *testing.T) {
	for name, c := range blocks() {
		for i, midnight := range []int64{0, -dayLength, 20000 * dayLength} {
			points, perHour := slices.Clone(c.points), 1<<i
			for i := range points {
				points[i].time += midnight
			}
			parts := plain(partsOf(c.kind, perHour, midnight, points), c.kind)
			data := encodeRollup(c.kind, perHour, midnight, points)
			got, err := readRollup(nil, c.kind, perHour, midnight, data)
			if err != nil || !slices.Equal(got, parts) {
				t.Errorf("%s: %+v becomes %+v, %v", name, parts, got, err)
			}
			for end := range data {
				if _, err := readRollup(nil, c.kind, perHour, midnight, data[:end]); !errors.Is(err, errDamaged) {
					t.Errorf("%s: %d of %d bytes: %v", name, end, len(data), err)
				}
			}
		}
	}
}

func FuzzReadRollup(f *testing.F) {
	for _, c := range blocks() {
		f.Add(1, encodeRollup(c.kind, 1, 0, c.points))
		f.Add(4, encodeRollup(c.kind, 4, 0, c.points))
	}
	f.Fuzz(func(t *testing.T, perHour int, data []byte) {
		for kind := series.Float; kind <= series.Boolean; kind++ {
			parts, err := readRollup(nil, kind, perHour, 0, data)
			if err != nil {
				continue
			}
			for _, h := range parts {
				if h.count <= 0 || h.start < 0 || h.start >= dayLength {
					t.Errorf("%+v", h)
				}
			}
		}
	})
}
