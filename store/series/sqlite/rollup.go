package sqlite

import (
	"math"

	"tsmon/store/series"
)

// A rollup is what the points of a UTC day amount to in each of its parts that has some:
// hours, halves or quarters of hours. It has a mask of these, three bytes for each
// part of an hour, then a column for their counts, sums, minima and maxima, and for
// booleans one for the last values and one for the times of these. A column is a form
// and values as in a block.

const (
	hourLength = 3600 * 1_000_000_000

	// minRollup is the number of points from which on a packed day gets a rollup; a
	// block of fewer is read as fast.
	minRollup = 480

	maxParts = 4 // of an hour
)

// partsOf returns the figures of the parts of a day, whose points are in order of time.
func partsOf(kind series.Kind, perHour int, midnight int64, points []point) (parts []window) {
	length := hourLength / int64(perHour)
	end := int64(math.MinInt64)
	for _, p := range points {
		if p.time >= end {
			start := p.time - (p.time-midnight)%length
			end = start + length
			parts = append(parts, window{start: start})
		}
		parts[len(parts)-1].add(p, p.number(kind))
	}
	return parts
}

// appendRollup appends the rollup of the day that begins at midnight.
func appendRollup(dst []byte, kind series.Kind, perHour int, midnight int64, points []point) []byte {
	parts := partsOf(kind, perHour, midnight, points)
	mask := make([]byte, 3*perHour)
	for _, h := range parts {
		n := (h.start - midnight) / (hourLength / int64(perHour))
		mask[n/8] |= 1 << (n % 8)
	}
	dst = append(dst, mask...)
	column := func(kind series.Kind, bits func(h window) uint64) {
		points := make([]point, len(parts))
		for i, h := range parts {
			points[i].bits = bits(h)
		}
		form, integers, odd := integersOf(kind, points)
		dst = appendValues(append(dst, byte(form)), kind, form, points, integers, odd)
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
	column := room[:len(parts)]
	next := func(kind series.Kind) []point {
		if len(r.rest) == 0 {
			r.failed = true
			return column
		}
		form := int(r.rest[0])
		r.rest = r.rest[1:]
		r.values(column, kind, form)
		return column
	}
	for i, p := range next(series.Integer) {
		parts[i].count = int64(p.bits)
		r.failed = r.failed || parts[i].count <= 0
	}
	for i, p := range next(series.Float) {
		parts[i].sum = math.Float64frombits(p.bits)
	}
	for i, p := range next(series.Float) {
		parts[i].min = math.Float64frombits(p.bits)
	}
	for i, p := range next(series.Float) {
		parts[i].max = math.Float64frombits(p.bits)
	}
	if kind == series.Boolean {
		for i, p := range next(series.Integer) {
			parts[i].last.bits = p.bits
		}
		for i, p := range next(series.Integer) {
			parts[i].last.time = parts[i].start + int64(p.bits)
		}
	}
	if r.failed || len(r.rest) > 0 || len(parts) == 0 {
		return nil, errDamaged
	}
	return dst, nil
}
