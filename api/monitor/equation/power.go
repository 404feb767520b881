package equation

import "math"

// raise returns x to the power of y. The result is exact if it is a float64, which that of
// math.Pow often is not. Otherwise it is rounded to the nearest float64, except that about
// one in ten thousand results is the other neighbour.
func raise(x, y float64) float64 {
	rough := math.Pow(x, y)
	if size := math.Abs(rough); x == 0 || size == 1 || size < 0x1p-1022 || size > math.MaxFloat64 || size != size {
		return rough // a special case, or too small to have all of its digits
	}
	l := logarithm(math.Abs(x)).times(double{high: y})
	return math.Copysign(l.exponential(), rough)
}

// double is the sum of two numbers, of which low is at most half of a unit in the last
// place of high. It has about 106 bits.
type double struct{ high, low float64 }

// sumOf returns the exact sum of two numbers, of which a is the larger or 0.
func sumOf(a, b float64) double {
	s := a + b
	return double{s, b - (s - a)}
}

func (a double) plus(b double) double {
	s := a.high + b.high
	v := s - a.high
	rest := (a.high - (s - v)) + (b.high - v)
	return sumOf(s, rest+(a.low+b.low))
}

func (a double) times(b double) double {
	p := a.high * b.high
	return sumOf(p, math.FMA(a.high, b.high, -p)+(a.high*b.low+a.low*b.high))
}

func (a double) over(b double) double {
	q := a.high / b.high
	rest := a.plus(b.times(double{high: -q}))
	return sumOf(q, (rest.high+rest.low)/b.high)
}

// ln2 is the natural logarithm of 2.
var ln2 = double{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}

// logarithm returns the natural logarithm of a positive number: with x = m * 2^e, that
// of 2^e and the series of 2 * artanh((m-1)/(m+1)), where m is near 1.
func logarithm(x float64) double {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	s := double{high: m - 1}.over(sumOf(1, m)) // m-1 is exact
	square := s.times(s)
	series := double{}
	for n := 43; n >= 1; n -= 2 { // (3-√8)^45 is below 2^-114
		series = series.times(square).plus(double{high: 1}.over(double{high: float64(n)}))
	}
	return ln2.times(double{high: float64(e)}).plus(series.times(s).times(double{high: 2}))
}

// exponential returns e to the power of a, for a result that is a normal float64: with
// a = k*ln2 + r, 2^k times the Taylor series of r/512, squared nine times.
func (a double) exponential() float64 {
	k := math.Round(a.high / ln2.high)
	r := a.plus(ln2.times(double{high: -k}))
	const squarings = 9
	r = double{math.Ldexp(r.high, -squarings), math.Ldexp(r.low, -squarings)}
	result := double{high: 1}
	for n := 10; n >= 1; n-- {
		result = result.times(r).over(double{high: float64(n)}).plus(double{high: 1})
	}
	for range squarings {
		result = result.times(result)
	}
	// A tie has to look like one, though the last bits are not right: low is rounded to a
	// 16,384th of a unit in the last place, and so the sum to the even neighbour.
	grain := result.high * 0x1p-14
	return math.Ldexp(result.high+((result.low+grain)-grain), int(k))
}
