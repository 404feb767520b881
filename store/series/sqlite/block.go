package sqlite

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"

	"tsmon/store/series"
)

// A block holds points of one series, strictly in order of time and within one day:
//
//	form      one byte: the decimals of the numbers, or words; | packed if zstd follows
//	unit      one byte: an index into units
//	count     uvarint
//	times     the first as an offset from the base, in units; then how much each
//	          distance differs from the one before, so that a regular series is zeros
//	values    decimals: the differences of the numbers times 10^form, then the number
//	          of exceptions, which are not short decimals, and the exceptions; or words: the
//	          bits of the numbers, each xor the one before, all lowest bytes first
//
// Integers are varints unless stated otherwise. Every number is kept bit by bit.
const (
	words  = 0x0f // form of numbers that are not decimals
	packed = 0x80

	maxScale = 9         // decimals of a number
	maxExact = 1 << 53   // integers below it are exact as float64
	minPack  = 24        // bytes; fewer are not compressed
	maxBody  = 32 << 20  // bytes of a block that is not compressed
	maxBlock = 1_000_000 // points
)

// dayLength is the length of the day that a block covers, in nanoseconds.
const dayLength = 24 * 3600 * 1_000_000_000

var (
	units  = [...]int64{1, 1e3, 1e6, 1e9}
	powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}
)

// errDamaged says that bytes are no block.
var errDamaged = errors.New("a block of the file is damaged")

// Both fail only for options that don't exist.
var (
	compressor, _   = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	decompressor, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBody))
)

// point is a value of a series as the file holds it.
type point struct {
	time int64  // nanoseconds since 1970
	bits uint64 // of a float64, or of an int64 that is an integer, 0 or 1
}

// number returns the value as readers see it.
func (p point) number(kind series.Kind) float64 {
	if kind == series.Float {
		return math.Float64frombits(p.bits)
	}
	return float64(int64(p.bits))
}

// appendBlock appends the block of points, whose times are at or after base.
func appendBlock(dst []byte, kind series.Kind, base int64, points []point) []byte {
	body, form := appendValues(appendTimes(nil, base, points), kind, points)
	if len(body) >= minPack {
		dst = append(dst, form|packed)
		if small := compressor.EncodeAll(body, dst); len(small)-len(dst) < len(body) {
			return small
		}
		dst = dst[:len(dst)-1]
	}
	return append(append(dst, form), body...)
}

// integersOf returns the values times 10^form as integers, and the indexes of the values
// that have no such form. If there are too many of those the form is words.
func integersOf(kind series.Kind, points []point) (form int, integers []int64, odd []int) {
	integers = make([]int64, len(points))
	if kind != series.Float {
		for i, p := range points {
			integers[i] = int64(p.bits)
		}
		return 0, integers, nil
	}
	for _, p := range points {
		for k := form; k <= maxScale; k++ {
			if _, ok := decimal(p.bits, k); ok {
				form = k
				break
			}
		}
	}
	for i, p := range points {
		n, ok := decimal(p.bits, form)
		if !ok {
			if odd = append(odd, i); len(odd) > len(points)/4 {
				return words, nil, nil
			}
			if i > 0 {
				n = integers[i-1]
			}
		}
		integers[i] = n
	}
	return form, integers, odd
}

// decimal returns the integer that gives exactly this number when it is divided by
// 10^scale.
func decimal(bits uint64, scale int) (int64, bool) {
	n := math.RoundToEven(math.Float64frombits(bits) * powers[scale])
	if !(math.Abs(n) < maxExact) {
		return 0, false
	}
	return int64(n), math.Float64bits(float64(int64(n))/powers[scale]) == bits
}

func appendTimes(dst []byte, base int64, points []point) []byte {
	unit := len(units) - 1
	for _, p := range points {
		for (p.time-base)%units[unit] != 0 {
			unit--
		}
	}
	dst = append(dst, byte(unit))
	dst = binary.AppendUvarint(dst, uint64(len(points)))
	last, step := base, int64(0)
	for _, p := range points {
		distance := (p.time - last) / units[unit]
		dst = binary.AppendVarint(dst, distance-step)
		last, step = p.time, distance
	}
	return dst
}

// appendValues appends the values of points, and returns their form.
func appendValues(dst []byte, kind series.Kind, points []point) (_ []byte, form byte) {
	scale, integers, odd := integersOf(kind, points)
	if scale == words {
		return appendWords(dst, points), words
	}
	last := int64(0)
	for _, n := range integers {
		dst = binary.AppendVarint(dst, n-last) // which may wrap around, and back
		last = n
	}
	if kind == series.Float {
		dst = binary.AppendUvarint(dst, uint64(len(odd)))
		for _, i := range odd {
			dst = binary.AppendUvarint(dst, uint64(i))
			dst = binary.LittleEndian.AppendUint64(dst, points[i].bits)
		}
	}
	return dst, byte(scale)
}

func appendWords(dst []byte, points []point) []byte {
	for shift := 0; shift < 64; shift += 8 {
		last := uint64(0)
		for _, p := range points {
			dst = append(dst, byte((p.bits^last)>>shift))
			last = p.bits
		}
	}
	return dst
}

// readBlock appends the points of a block to dst, or returns errDamaged. It never takes more
// memory than some times the size of the block, and maxBody.
func readBlock(dst []point, kind series.Kind, base int64, block []byte) ([]point, error) {
	if len(block) == 0 {
		return nil, errDamaged
	}
	form, body := block[0], block[1:]
	if form&packed != 0 {
		form &^= packed
		var err error
		if body, err = decompressor.DecodeAll(body, nil); err != nil {
			return nil, errDamaged
		}
	}
	r := &blockReader{rest: body}
	first := len(dst)
	dst = r.times(dst, base)
	r.values(dst[first:], kind, form)
	if r.failed || len(r.rest) > 0 {
		return nil, errDamaged
	}
	return dst, nil
}

// blockReader reads a block after decompression. It fails if the block is damaged.
type blockReader struct {
	rest   []byte
	failed bool
}

func (r *blockReader) byte() byte {
	if len(r.rest) == 0 {
		r.failed = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *blockReader) varint() int64 {
	n := r.uvarint()
	return int64(n>>1) ^ -int64(n&1)
}

func (r *blockReader) uvarint() uint64 {
	if len(r.rest) > 0 && r.rest[0] < 0x80 { // one byte, as most are
		n := r.rest[0]
		r.rest = r.rest[1:]
		return uint64(n)
	}
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// times appends points without their values. A point takes two bytes at least, which bounds
// their number.
func (r *blockReader) times(dst []point, base int64) []point {
	unit := int(r.byte())
	count := r.uvarint()
	if r.failed || unit >= len(units) || count == 0 || count > uint64(len(r.rest))/2 {
		r.failed = true
		return dst
	}
	length := units[unit]
	dst = slices.Grow(dst, int(count))
	offset, step := int64(0), int64(0)
	for i := range count {
		step += r.varint()
		if step < 0 || step == 0 && i > 0 || step > dayLength/length || offset+step*length >= dayLength {
			r.failed = true
			return dst
		}
		offset += step * length
		dst = append(dst, point{time: base + offset})
	}
	return dst
}

func (r *blockReader) values(points []point, kind series.Kind, form byte) {
	switch {
	case r.failed:
	case form == words && kind == series.Float:
		r.words(points)
	case form <= maxScale && kind == series.Float:
		r.decimals(points, powers[form])
	case form == 0:
		r.integers(points)
	default:
		r.failed = true
	}
}

func (r *blockReader) words(points []point) {
	n := len(points)
	if len(r.rest) < 8*n {
		r.failed = true
		return
	}
	last := uint64(0)
	for i := range points {
		for b := range 8 {
			last ^= uint64(r.rest[b*n+i]) << (8 * b)
		}
		points[i].bits = last
	}
	r.rest = r.rest[8*n:]
}

func (r *blockReader) integers(points []point) {
	last := int64(0)
	for i := range points {
		last += r.varint()
		points[i].bits = uint64(last)
	}
}

func (r *blockReader) decimals(points []point, power float64) {
	last := int64(0)
	for i := range points {
		last += r.varint()
		points[i].bits = math.Float64bits(float64(last) / power)
	}
	for range r.uvarint() {
		i := r.uvarint()
		if i >= uint64(len(points)) || len(r.rest) < 8 {
			r.failed = true
			return
		}
		points[i].bits = binary.LittleEndian.Uint64(r.rest)
		r.rest = r.rest[8:]
	}
}
