package sqlite

import (
	"errors"
	"slices"
	"testing"

	"tsmon/store/series"
)

// plain returns the figures as readHours leaves them.
func plain(hours []window, kind series.Kind) []window {
	for i := range hours {
		h := &hours[i]
		h.sum, h.rest = h.total(), 0
		if kind != series.Boolean {
			h.last = point{}
		}
	}
	return hours
}

func TestHours(t *testing.T) {
	for name, c := range blocks() {
		for _, midnight := range []int64{0, -dayLength, 20000 * dayLength} {
			points := slices.Clone(c.points)
			for i := range points {
				points[i].time += midnight
			}
			hours := plain(hoursOf(c.kind, points), c.kind)
			data := appendHours(nil, c.kind, midnight, hours)
			got, err := readHours(nil, c.kind, midnight, data)
			if err != nil || !slices.Equal(got, hours) {
				t.Errorf("%s: %+v becomes %+v, %v", name, hours, got, err)
			}
			for end := range data {
				if _, err := readHours(nil, c.kind, midnight, data[:end]); !errors.Is(err, errDamaged) {
					t.Errorf("%s: %d of %d bytes: %v", name, end, len(data), err)
				}
			}
		}
	}
}

func FuzzReadHours(f *testing.F) {
	for _, c := range blocks() {
		f.Add(appendHours(nil, c.kind, 0, hoursOf(c.kind, c.points)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for kind := series.Float; kind <= series.Boolean; kind++ {
			hours, err := readHours(nil, kind, 0, data)
			if err != nil || len(hours) > 24 {
				continue
			}
			for _, h := range hours {
				if h.count <= 0 || h.start < 0 || h.start >= dayLength {
					t.Errorf("%+v", h)
				}
			}
		}
	})
}
