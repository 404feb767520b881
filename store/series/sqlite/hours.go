package sqlite

import (
	"math"
	"math/bits"

	"tsmon/store/series"
)

// The hours of a day are what its points amount to in each UTC hour that has some: a
// mask of these hours in three bytes, then a column for their counts, sums, minima and
// maxima, and for booleans one for the last values and one for the times of these.
// A column is a form and values as in a block.

const (
	hourLength = 3600 * 1_000_000_000

	// minHours is the number of points from which on a packed day gets its hours; a
	// block of fewer is read as fast.
	minHours = 480
)

// hoursOf returns the figures of the hours of a day, whose points are in order of time.
func hoursOf(kind series.Kind, points []point) (hours []window) {
	end := int64(math.MinInt64)
	for _, p := range points {
		if p.time >= end {
			start := p.time - p.time%hourLength
			if p.time < 0 && p.time%hourLength != 0 {
				start -= hourLength
			}
			end = start + hourLength
			hours = append(hours, window{start: start})
		}
		hours[len(hours)-1].add(p, p.number(kind))
	}
	return hours
}

// appendHours appends the hours of the day that begins at midnight.
func appendHours(dst []byte, kind series.Kind, midnight int64, hours []window) []byte {
	mask := 0
	for _, h := range hours {
		mask |= 1 << ((h.start - midnight) / hourLength)
	}
	dst = append(dst, byte(mask), byte(mask>>8), byte(mask>>16))
	column := func(kind series.Kind, bits func(h window) uint64) {
		points := make([]point, len(hours))
		for i, h := range hours {
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

// readHours appends the hours of a day to dst, or returns errDamaged.
func readHours(dst []window, kind series.Kind, midnight int64, data []byte) ([]window, error) {
	if len(data) < 3 {
		return nil, errDamaged
	}
	mask := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16
	r := &blockReader{rest: data[3:]}
	var room [24]point
	column := room[:bits.OnesCount32(mask)]
	next := func(kind series.Kind) {
		if len(r.rest) == 0 {
			r.failed = true
			return
		}
		form := int(r.rest[0])
		r.rest = r.rest[1:]
		r.values(column, kind, form)
	}
	first := len(dst)
	for hour := range int64(24) {
		if mask>>hour&1 == 1 {
			dst = append(dst, window{start: midnight + hour*hourLength})
		}
	}
	hours := dst[first:]
	next(series.Integer)
	for i, p := range column {
		hours[i].count = int64(p.bits)
		r.failed = r.failed || hours[i].count <= 0
	}
	next(series.Float)
	for i, p := range column {
		hours[i].sum = math.Float64frombits(p.bits)
	}
	next(series.Float)
	for i, p := range column {
		hours[i].min = math.Float64frombits(p.bits)
	}
	next(series.Float)
	for i, p := range column {
		hours[i].max = math.Float64frombits(p.bits)
	}
	if kind == series.Boolean {
		next(series.Integer)
		for i, p := range column {
			hours[i].last.bits = p.bits
		}
		next(series.Integer)
		for i, p := range column {
			hours[i].last.time = hours[i].start + int64(p.bits)
		}
	}
	if r.failed || len(r.rest) > 0 || len(hours) == 0 {
		return nil, errDamaged
	}
	return dst, nil
}
