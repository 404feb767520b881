package sqlite

import (
	"math"

	"tsmon/store/series"
)

// A rollup is what the points of a UTC day amount to in each of its parts that has some:
// hours, halves or quarters of hours. It begins with a mask of these parts, three bytes for
// each part of an hour. Columns follow: their counts, sums, minima and maxima, and for
// booleans their last values and the times of these. A column is a form and values as in a
// block.

const (
	hourLength = 3600 * 1_000_000_000

	// minRollup is the number of points from which on a packed day gets a rollup; a
	// block of fewer is read as fast.
	minRollup = 480

	maxParts = 4 // of an hour
)

// partsOf returns the figures of the parts of a day, whose points are in order of time.
func partsOf(kind series.Kind, perHour int, midnight int64, points []point) []window {
	parts := windows{spans: []series.Span{{Start: midnight, Stop: midnight + dayLength, Every: hourLength / int64(perHour)}}}
	for _, p := range points {
		parts.at(p.time).add(p, kind)
	}
	return parts.list
}

// encodeRollup returns the rollup of the day that begins at midnight.
func encodeRollup(kind series.Kind, perHour int, midnight int64, points []point) []byte {
	parts := partsOf(kind, perHour, midnight, points)
	dst := make([]byte, 3*perHour) // the mask
	for _, h := range parts {
		n := (h.start - midnight) / (hourLength / int64(perHour))
		dst[n/8] |= 1 << (n % 8)
	}
	values := make([]point, len(parts))
	column := func(kind series.Kind, bits func(h window) uint64) {
		for i, h := range parts {
			values[i].bits = bits(h)
		}
		at := len(dst)
		var form byte
		dst, form = appendValues(append(dst, 0), kind, values)
		dst[at] = form
	}
	column(series.Integer, func(h window) uint64 { return uint64(h.count) })
	column(series.Float, func(h window) uint64 { return math.Float64bits(h.total()) })
	column(series.Float, func(h window) uint64 { return math.Float64bits(h.min) })
	column(series.Float, func(h window) uint64 { return math.Float64bits(h.max) })
	if kind == series.Boolean {
		column(series.Integer, func(h window) uint64 { return h.last.bits })
		column(series.Integer, func(h window) uint64 { return uint64(h.last.time - h.start) })
	}
	return dst
}

// readRollup appends the parts of a day to dst, or returns errDamaged.
func readRollup(dst []window, kind series.Kind, perHour int, midnight int64, data []byte) ([]window, error) {
	if perHour < 1 || perHour > maxParts || len(data) < 3*perHour {
		return nil, errDamaged
	}
	mask := data[:3*perHour]
	r := &blockReader{rest: data[len(mask):]}
	first, length := len(dst), hourLength/int64(perHour)
	for n := range int64(24 * perHour) {
		if mask[n/8]>>(n%8)&1 == 1 {
			dst = append(dst, window{start: midnight + n*length})
		}
	}
	parts := dst[first:]
	var room [24 * maxParts]point
	values := room[:len(parts)]
	column := func(kind series.Kind) []point {
		r.values(values, kind, r.byte())
		return values
	}
	for i, p := range column(series.Integer) {
		parts[i].count = int64(p.bits)
		r.failed = r.failed || parts[i].count <= 0
	}
	for i, p := range column(series.Float) {
		parts[i].sum = math.Float64frombits(p.bits)
	}
	for i, p := range column(series.Float) {
		parts[i].min = math.Float64frombits(p.bits)
	}
	for i, p := range column(series.Float) {
		parts[i].max = math.Float64frombits(p.bits)
	}
	if kind == series.Boolean {
		for i, p := range column(series.Integer) {
			parts[i].last.bits = p.bits
		}
		for i, p := range column(series.Integer) {
			parts[i].last.time = parts[i].start + int64(p.bits)
		}
	}
	if r.failed || len(r.rest) > 0 || len(parts) == 0 {
		return nil, errDamaged
	}
	return dst, nil
}
