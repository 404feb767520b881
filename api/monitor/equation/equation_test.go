package equation_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"tsmon/api/monitor/equation"
)

// operands are the values that the keys of a test have.
type operands map[string]float64

func (o operands) get(key string) (float64, bool) {
	v, ok := o[key]
	return v, ok
}

func (o operands) keys() []string {
	return slices.Sorted(maps.Keys(o))
}

func parse(t testing.TB, text string, keys ...string) *equation.Equation {
	t.Helper()
	e, err := equation.Parse(text, keys)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return e
}

func TestValue(t *testing.T) {
	values := operands{"a": 2, "b": 3, "c": 5, "zero": 0, "n": -7.5}
	for _, c := range []struct {
		text string
		want float64
	}{
		{"1", 1}, {"12.5", 12.5}, {".5", .5}, {"5.", 5}, {"1e3", 1000}, {"1.5E-3", .0015}, {"2e+2", 200}, {"007", 7}, {"1e-999", 0}, {"5.e1", 50},
		{"a", 2}, {"a+b", 5}, {"a + b * c", 17}, {"(a + b) * c", 25}, {"a*b+c", 11}, {"10 - 4 - 3", 3}, {"100 / 10 / 5", 2}, {"2 * 7 % 4", 2}, {"7 % 4 * 2", 6}, {"2 + 7 % 4", 5}, {"12 / 4 * 3", 9},
		{"-7 % 3", -1}, {"7 % -3", 1}, {"5.5 % 2", 1.5}, {"n % 2", -1.5},
		{"2 ^ 10", 1024}, {"2 ** 10", 1024}, {"2 ^ 3 ^ 2", 512}, {"2 ** 3 ^ 2", 512}, {"(2 ^ 3) ^ 2", 64}, {"-2^2", -4}, {"(-2)^2", 4}, {"2^-1", .5}, {"2^-2^2", 1. / 16}, {"2^+3", 8},
		{"2 * 3 ^ 2", 18}, {"-a ^ b * c", -40}, {"0 ^ 0", 1}, {"4 ^ 0.5", 2}, {"(-8) ^ 3", -512}, {"-2 ** 2", -4},
		{"-a", -2}, {"--a", 2}, {"- - -a", -2}, {"+a", 2}, {"-+a", -2}, {"a - -b", 5}, {"a--b", 5}, {"a++b", 5}, {"a*-b", -6}, {"-(a+b)", -5}, {"-a + b", 1}, {"-a * b", -6},
		{"1 < 2", 1}, {"2 < 1", 0}, {"2 <= 2", 1}, {"2 > 2", 0}, {"2 >= 2", 1}, {"a == 2", 1}, {"a === 2", 1}, {"a != 2", 0}, {"a !== 3", 1}, {"0 == -0", 1}, {"0.1 + 0.2 == 0.3", 0},
		{"a + b > c - 1", 1}, {"a + b > c", 0}, {"(a > 1) + (b > 1) * 10", 11}, {"(a > b) * c", 0},
		{"3 > 2 > 1", 0}, {"1 < 2 < 3", 1}, {"3 == 1 < 2", 0}, {"1 == 3 > 2", 1}, {"2 > 1 == 1", 1}, {"5 == 5 == 1", 1}, {"5 != 5 == 0", 1}, {"a < -1", 0}, {"a<-1==0", 1},
		{"a && b", 3}, {"zero && b", 0}, {"a || b", 2}, {"zero || b", 3}, {"zero || zero", 0}, {"!a", 0}, {"!zero", 1}, {"!!a", 1}, {"!-a", 0}, {"-!zero", -1}, {"!zero ^ 2", 1}, {"!a == 0", 1}, {"! a + 1", 1},
		{"a > 1 && b > 1", 1}, {"a > 1 && b < 1", 0}, {"a < 1 || b > 1", 1}, {"1 || 0 && 0", 1}, {"(1 || 0) && 0", 0}, {"0 && 1 || 4", 4}, {"1 && 2 && 3", 3}, {"0 || 0 || 3", 3}, {"1 + (a < b && b < c) * 10", 11}, {"max(a && 0, zero || 7)", 7},
		{"a ? b : c", 3}, {"zero ? b : c", 5}, {"a < b ? a : b", 2}, {"zero || zero ? 1 : 2", 2}, {"zero ? 1 : a ? 20 : 30", 20}, {"zero ? 1 : zero ? 20 : 30", 30}, {"a ? zero ? 1 : 2 : 3", 2}, {"a ? b : c + 10", 3}, {"(a ? b : c) + 10", 13}, {"a?b:c", 3},
		{"max(a ? 1 : 2, zero ? 1 : 2)", 2}, {"-(zero ? 1 : 2)", -2}, {"a ? -b : !c", -3}, {"(n < 0 ? -n : n) ^ 2", 56.25}, {"n ? zero : 1", 0},
		{"zero != 0 ? a / zero : -1", -1}, {"zero == 0 || a / zero > 1", 1}, {"zero && a / zero", 0}, {"a ? 1 : 1 / 0", 1},
		{"9 ^ 1.5", 27}, {"27 ^ (1/3)", 3}, {"floor(9 ^ 1.5)", 27}, {"pow(0.1, 2) == 0.1 * 0.1", 1}, {"10 ** -3 == 0.001", 1}, {"2 ^ -1074", 0x1p-1074}, {"(-3) ^ 33", -5559060566555523},
		{"abs(n)", 7.5}, {"sqrt(16)", 4}, {"min(3)", 3}, {"max(1, 9, 4)", 9}, {"min(c, b, a, 8)", 2}, {"pow(a, b)", 8}, {"floor(n)", -8}, {"ceil(n)", -7}, {"floor(2.9)", 2}, {"ceil(2.1)", 3},
		{"Math.abs(-1)", 1}, {"Math.max(a, Math.min(b, c))", 3}, {"Math.pow(2, 3) ^ 2", 64}, {"2 ^ sqrt(9)", 8}, {"-abs(-3)", -3}, {"sqrt (16)", 4}, {"sqrt\t(\n16\n)", 4}, {"max(a < b, 0)", 1}, {"pow(-2, 2)", 4},
		{"round(2.5)", 3}, {"round(-2.5)", -2}, {"round(-2.51)", -3}, {"round(0.49999999999999994)", 0}, {"round(4503599627370497)", 4503599627370497}, {"round(1e300)", 1e300}, {"round(-0.5)", 0},
		{"\t a\n+\r\n\u00a0b\u2003", 5}, {"((((a))))", 2}, {"a-1", 1}, {"a -1", 1}, {"1-a", -1}, {"zero * 4", 0}, {"1e308 * 0.1", 1e307}, {"-zero", 0}, {"round(-0.1)", 0},
	} {
		got, ok := parse(t, c.text, values.keys()...).Value(values.get)
		if !ok || got != c.want && math.Abs(got-c.want) > 1e-15*math.Abs(c.want) || math.Signbit(got) != (c.want < 0) {
			t.Errorf("%q is %v, %v, want %v", c.text, got, ok, c.want)
		}
	}
}

func TestValueIsFinite(t *testing.T) {
	values := operands{"a": 2, "zero": 0, "huge": math.MaxFloat64, "infinite": math.Inf(1), "nan": math.NaN()}
	for _, text := range []string{
		"1 / 0", "a / zero", "a / -zero", "0 / 0", "a % zero", "a % 0", "1 / (a - 2)", "0 ^ -1", "0 * (1 / 0)", "1 / (1 / 0)", "1 / 0 > 1", "a == 0 / 0", "min(1, 1 / 0)", "max(0 / 0, 1)", "(0 / 0) ^ 0", "pow(1, 1 / 0)",
		"sqrt(-1)", "(-8) ^ (1 / 3)", "huge * a", "huge + huge", "-huge - huge", "huge * a < 1", "huge ^ 2 * 0", "1e308 * 10", "pow(10, 400)", "infinite", "-infinite", "nan", "nan * 0", "1 / infinite", "nan == nan", "infinite > 1",
		"a ? 1 / 0 : 1", "zero ? 1 : 1 / 0", "1 / 0 ? 1 : 2", "1 / 0 || 1", "zero || 1 / 0", "a && 1 / 0", "!(0 / 0)",
	} {
		if got, ok := parse(t, text, values.keys()...).Value(values.get); ok || got != 0 {
			t.Errorf("%q is %v, %v, want none", text, got, ok)
		}
	}
}

// Every operand that is used is needed, and no other is asked for.
func TestMissingOperand(t *testing.T) {
	for _, text := range []string{"gone", "a + gone", "gone * 0", "0 * gone", "gone == gone", "gone > 1", "(1 > 0) + 0 * gone", "max(a, gone)", "gone ^ 0", "a / 0 + gone", "a || gone", "0 && gone", "a ? a : gone", "!gone"} {
		e := parse(t, text, "a", "gone", "unused")
		if got, ok := e.Value(operands{"a": 1, "unused": 2}.get); ok || got != 0 {
			t.Errorf("%q is %v, %v, want none", text, got, ok)
		}
	}
	asked := map[string]int{}
	got, ok := parse(t, "a * a + b - a", "a", "b", "unused").Value(func(key string) (float64, bool) {
		asked[key]++
		return 3, key != "unused"
	})
	if !ok || got != 9 || len(asked) != 2 || asked["a"] != 1 || asked["b"] != 1 {
		t.Errorf("got %v, %v after asking for %v", got, ok, asked)
	}
}

func TestKeysInOrderOfAppearance(t *testing.T) {
	e := parse(t, "c + a * (b - c) / a", "a", "b", "c", "d")
	if want := []string{"c", "a", "b"}; !slices.Equal(e.Keys(), want) {
		t.Errorf("got %q, want %q", e.Keys(), want)
	}
	e.Keys()[0] = "x"
	if e.Keys()[0] != "c" {
		t.Error("a caller can change the equation")
	}
	if keys := parse(t, "1 + 1", "a").Keys(); len(keys) != 0 {
		t.Errorf("a constant has the keys %q", keys)
	}
}

func TestKeysAreArbitraryText(t *testing.T) {
	for _, c := range []struct {
		text   string
		values operands
		want   float64
	}{
		{"caudal-1 + caudal-2", operands{"caudal-1": 10, "caudal-2": 4}, 14},
		{"presión media*ñ", operands{"presión media": 10, "ñ": 4}, 40},
		{"2do tanque / 2", operands{"2do tanque": 10}, 5},
		{"a b + b a", operands{"a b": 10, "b a": 1}, 11},
		{"Nivel (m) - 1", operands{"Nivel (m)": 10}, 9},
		{"(x + 1) * 2", operands{"(x + 1)": 10}, 20},
		{"-x + -x", operands{"-x": 10, "x": 1}, 20},
		{"- x + -x", operands{"-x": 10, "x": 1}, 9},
		{"a.b.c - 1", operands{"a.b.c": 10}, 9},
		{"caudal|1 + 😀", operands{"caudal|1": 10, "😀": 1}, 11},
		{"a,b + max(a,b, a)", operands{"a,b": 10, "a": 20}, 30},
		{"${x} * 2", operands{"${x}": 10}, 20},
		{"1e", operands{"1e": 10}, 10},
		{"x == 1 == 1", operands{"x == 1": 10}, 0},
		// the longest
		{"a-1", operands{"a": 5, "a-1": 10}, 10},
		{"a - 1", operands{"a": 5, "a-1": 10}, 4},
		{"a-1-1", operands{"a": 5, "a-1": 10}, 9},
		{"a-1-1", operands{"a": 5, "a-1": 10, "a-1-1": 7}, 7},
		{"p1 + p12 + p123", operands{"p1": 1, "p12": 10, "p123": 100}, 111},
		{"a b + a", operands{"a": 1, "a b": 10}, 11},
		{"a b c", operands{"a": 1, "a b": 10, "a b c": 100, "a b d": 1000, "a bc": 1000}, 100},
		{"a b + c", operands{"a b": 10, "c": 1, "a b + d": 100, "a": 1000}, 11},
		// the signs of conditions
		{"!a + !b", operands{"!a": 10, "b": 0}, 11},
		{"a?1:2", operands{"a?1:2": 10, "a": 1}, 10},
		{"a?b:c ? 1 : 2", operands{"a?b:c": 0, "a": 1, "b": 5, "c": 6}, 2},
		{"a && b && c", operands{"a && b": 10, "c": 3}, 3},
		// not the beginning of a word or number
		{"a-12", operands{"a": 5, "a-1": 10}, -7},
		{"a-1.5", operands{"a": 5, "a-1": 10}, 3.5},
		{"a-1e1", operands{"a": 5, "a-1": 10}, -5},
		{"a-b_c", operands{"a": 5, "a-b": 10, "b_c": 1}, 4},
		{"a-ñu", operands{"a": 5, "a-ñ": 10, "ñu": 1}, 4},
		{"a-n\u0303", operands{"a": 5, "a-n": 10, "n\u0303": 1}, 4},
		{"a-m²", operands{"a": 5, "a-m": 10, "m²": 1}, 4},
		{"a-5", operands{"a": 5, "a-": 10}, 0},
		{"a- 5", operands{"a": 5, "a-": 10, "a- 5": 3}, 3},
		{"a-1)*2", operands{"a-1)": 4}, 8},
		{"(a-1)*2", operands{"a-1": 4}, 8},
		// digits only
		{"1 + 2", operands{"1": 10, "2": 20}, 30},
		{"x^2", operands{"x": 3, "2": 4}, 81},
		{"x^2.0", operands{"x": 3, "2": 4}, 9},
		{"2.5 + 2e1 + 2E+1 + 22 + 2", operands{"2": 100}, 164.5},
		{"1-2 + 1 - 2", operands{"1": 10, "2": 20, "1-2": 5}, -5},
		{"1.5 + 1.50", operands{"1.5": 10}, 11.5},
		{"2e+5", operands{"2e": 1}, 200000},
		{"2e + 5", operands{"2e": 1}, 6},
		{"2. + 2.5", operands{"2.": 10}, 12.5},
		{"-5 + -5.0", operands{"-5": 10}, 5},
		// the name of a function
		{"max + 1", operands{"max": 10}, 11},
		{"max(max, 20)", operands{"max": 10}, 20},
		{"max (1, 2)", operands{"max": 10}, 2},
		{"Math.max(1, Math)", operands{"Math": 10}, 10},
		{"min(a) + min(b)", operands{"min(a)": 10, "b": 2}, 12},
		{"maximum + max", operands{"max": 10, "maximum": 1}, 11},
		{"max( + 1", operands{"max(": 10}, 11},
		{"sqrt( 4", operands{"sqrt( 4": 10}, 10},
		// white space around keys
		{"a+b", operands{" a ": 10, "b\t": 1}, 11},
		{"a + a b", operands{"a ": 10, "a b": 1}, 11},
		{"a", operands{" a": 1, "a": 10, "a ": 2}, 10},
		{"a + 1", operands{" a": 1, "a": 10, "a ": 2}, 11},
		{"a", operands{"a ": 1, " a": 10}, 10},
		{"a-ñ", operands{"a": 5, "a-\xc3": 10, "ñ": 1}, 4},
		{"ñ", operands{"ñ": 10, "\xc3": 1, "": 2, " ": 3}, 10},
		{strings.Repeat("k", 4096), operands{strings.Repeat("k", 4096): 10, strings.Repeat("k", 5000): 1}, 10},
	} {
		keys := c.values.keys()
		for range 2 { // in both orders
			e := parse(t, c.text, keys...)
			if got, ok := e.Value(c.values.get); !ok || got != c.want {
				t.Errorf("%q over %q is %v, %v of %q, want %v", c.text, keys, got, ok, e.Keys(), c.want)
			}
			slices.Reverse(keys)
		}
	}
}
