package equation_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tsmon/api/monitor/equation"
)

func TestParseRefuses(t *testing.T) {
	repeat := strings.Repeat
	for _, c := range []struct{ text, says string }{
		{"", "character 1: expected an operand, found the end"},
		{" \t\n", "character 4: expected an operand, found the end"},
		{"a +", "character 4: expected an operand, found the end"},
		{"a + * b", `character 5: expected an operand, found "*"`},
		{"* a", `character 1: expected an operand, found "*"`},
		{"a b", `character 3: expected an operator, found "b"`},
		{"1 2", `character 3: expected an operator, found "2"`},
		{"2a", `character 2: expected an operator, found "a"`},
		{"1.2.3", `character 4: expected an operator, found ".3"`},
		{"0x10", `character 2: expected an operator, found "x10"`},
		{"1_000", `character 2: expected an operator, found "_000"`},
		{"1e+", `character 2: expected an operator, found "e"`},
		{".", `character 1: "." is neither`},
		{"a(b)", `character 2: expected an operator, found "("`},
		{"(a)(b)", `character 4: expected an operator, found "("`},
		{"ñ + caudal", `character 5: "caudal" is neither a key nor the call of a function`},
		{"a - caudal norte * 2", `character 5: "caudal norte" is neither`},
		{"a - p12", `character 5: "p12" is neither`},
		{"a.x", `character 1: "a.x" is neither`},
		{"max", `character 1: "max" is neither`},
		{"sin(a)", `character 1: "sin" is neither`},
		{"Max(a)", `character 1: "Max" is neither`},
		{"Math.PI", `character 1: "Math.PI" is neither`},
		{"Math. abs(a)", `character 1: "Math. abs" is neither`},
		{"math.abs(a)", `character 1: "math.abs" is neither`},
		{"NaN", `"NaN" is neither`}, {"Infinity", `"Infinity" is neither`},
		{"(a", `character 3: expected an operator or ")", found the end`},
		{"a)", `character 2: expected an operator, found ")"`},
		{"()", `character 2: expected an operand, found ")"`},
		{"(a b)", `character 4: expected an operator or ")", found "b"`},
		{"max(a", `character 6: expected an operator, "," or ")", found the end`},
		{"max(a b)", `character 7: expected an operator, "," or ")", found "b"`},
		{"max(a,)", `character 7: expected an operand, found ")"`},
		{"max(,a)", `character 5: expected an operand, found ","`},
		{"max()", `character 5: expected an operand, found ")"`},
		{"1 + abs(a, 1)", "character 5: the number of arguments of abs is 2, not 1"},
		{"pow(a)", "character 1: the number of arguments of pow is 1, not 2"},
		{"Math.pow(a, 1, 2)", "character 1: the number of arguments of pow is 3, not 2"},
		{"round(1,5)", "the number of arguments of round is 2, not 1"},
		{"1,5 + a", "character 2: a decimal has a point, not a comma"},
		{"(1,5)", "character 3: a decimal has a point, not a comma"},
		{"a, b", `character 2: expected an operator, found ","`},
		{"a = 1", "character 3: a comparison is written ==, not ="},
		{"a =", "character 3: a comparison is written ==, not ="},
		{"a <> 1", `character 4: expected an operand, found ">"`},
		{"a ! b", `character 3: expected an operator, found "!"`},
		{"!", "character 2: expected an operand, found the end"},
		{"!= a", "character 2: a comparison is written ==, not ="},
		{"a !b", `character 3: expected an operator, found "!"`},
		{"a & b", "character 3: and is written &&, or is written ||"},
		{"a | b", "character 3: and is written &&, or is written ||"},
		{"a && && b", "character 6: and is written &&"},
		{"a &&& b", "character 5: and is written &&"},
		{"a ||", "character 5: expected an operand, found the end"},
		{"a ?", "character 4: expected an operand, found the end"},
		{"a ? b", `character 6: expected an operator or ":", found the end`},
		{"a ? b : ", "character 9: expected an operand, found the end"},
		{"a ? : b", `character 5: expected an operand, found ":"`},
		{"a : b", `character 3: expected an operator, found ":"`},
		{"(a ? b) : 1", `character 7: expected an operator or ":", found ")"`},
		{"a ?? b", `character 4: expected an operand, found "?"`},
		{"a; b", `character 2: expected an operator, found "; b"`},
		{"a − 1", `found "− 1"`},
		{"`a`", "character 1: expected an operand"},
		{"a\x00", `character 2: expected an operator, found "\x00"`},
		{"ñ + \xff", "it is not UTF-8"}, {"ñ\xc3", "it is not UTF-8"},
		{"ñu", `character 1: "ñu" is neither`},
		{"\ufffd", "character 1: expected an operand"},
		{"1e999", `character 1: the number "1e999" is too large`},
		{repeat("9", 400), "is too large"},
		{"k" + repeat("ñ", 300), `character 1: "k` + repeat("ñ", 19) + `…" is neither`},
		{repeat("(", 64) + "a" + repeat(")", 63), "character 129: expected an operator"},
		{repeat("(", 65) + "a" + repeat(")", 65), "character 66: nested more than 64 deep"},
		{repeat("-", 65) + "1", "character 66: nested more than 64 deep"},
		{repeat("2^", 65) + "2", "character 131: nested more than 64 deep"},
		{repeat("abs(", 65) + "a" + repeat(")", 65), "nested more than 64 deep"},
		{repeat("max(1,-2^(", 17) + "a" + repeat("))", 17), "nested more than 64 deep"},
		{repeat("(", 4096), "nested more than 64 deep"}, {repeat("-", 4096), "nested more than 64 deep"}, {repeat("abs(", 1024), "nested more than 64 deep"},
		{repeat("1?", 65) + "1" + repeat(":1", 65), "nested more than 64 deep"}, {repeat("1?1:", 65) + "1", "nested more than 64 deep"}, {repeat("!", 65) + "1", "nested more than 64 deep"},
		{repeat(")", 4096), `character 1: expected an operand, found ")"`},
		{repeat(" ", 4096), "character 4097: expected an operand"},
		{repeat("a+", 2048), "character 4097: expected an operand"},
		{repeat(" ", 4096) + "1", "it has 4097 bytes, more than 4096"},
		{repeat("a", 1<<20), "more than 4096"},
	} {
		e, err := equation.Parse(c.text, []string{"a", "b", "ñ", "p1", "", " ", "\xc3"})
		if e != nil || !errors.Is(err, equation.ErrSyntax) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.80q: got %v, want %s", c.text, err, c.says)
		}
		if err != nil && len(err.Error()) > 200 {
			t.Errorf("%.80q: an error of %d bytes", c.text, len(err.Error()))
		}
	}
}

func TestParseAtItsBounds(t *testing.T) {
	repeat := strings.Repeat
	for _, c := range []struct {
		text string
		want float64
	}{
		{repeat("(", 64) + "a" + repeat(")", 64), 1},
		{repeat("-", 64) + "a", 1},
		{repeat("-", 63) + "a", -1},
		{repeat("1^", 64) + "a", 1},
		{repeat("abs(", 64) + "a" + repeat(")", 64), 1},
		{repeat("0?1:", 64) + "a", 1}, {repeat("1?", 64) + "a" + repeat(":0", 64), 1}, {repeat("!", 64) + "a", 1}, {repeat("0||", 1365) + "a", 1}, {repeat("1&&", 1365) + "a", 1},
		{repeat("max(1,-2^(", 16) + "a" + repeat("))", 16), 1},
		{repeat("(1)+-", 800) + "a", -799},
		{repeat("a+", 2047) + "a", 2048},
		{"max(" + repeat("a,", 2045) + "a)", 1},
		{repeat(" ", 4095) + "a", 1},
		{repeat("0", 4094) + "+a", 1},
		{"0==0<0+0*" + repeat("(0==0<0+0*", 63) + "a" + repeat(")", 63), 1},
	} {
		if got, ok := parse(t, c.text, "a").Value(operands{"a": 1}.get); !ok || got != c.want {
			t.Errorf("%.80q is %v, %v, want %v", c.text, got, ok, c.want)
		}
	}
}

func TestNumberOfKeysIsBounded(t *testing.T) {
	keys := slices.Repeat([]string{"a"}, 1000)
	parse(t, "a", keys...)
	if _, err := equation.Parse("a", append(keys, "b")); !errors.Is(err, equation.ErrSyntax) || !strings.Contains(err.Error(), "1001 keys") {
		t.Errorf("got %v", err)
	}
}

// manyKeys are 1,000 keys and a text that has each of them nearly whole in most
// places where an operand begins, but only the shortest to its end.
func manyKeys() (text string, keys []string) {
	keys = []string{"a"}
	for i := range 999 {
		keys = append(keys, strings.Repeat("a+", 1000)+strings.Repeat("b", i+1))
	}
	return strings.Repeat("a+", 2047) + "a", keys
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"a + b * -2 ^ (c - 1.5e3) % .5", "max(a, b, 2) >= Math.round(c) == 1", "caudal-1 - caudal", "2*x^2", "1 < 2 !== 3", "p12", "a b", "((", "--", "1,5", "ñ\u00a0+\xff", "2e+5", "a && !b || c ? a : b ? 1 : -c"} {
		f.Add(text, "a|b|c|caudal-1|caudal|2|x|max|p1| a b |ñ|2e|\xc3")
	}
	f.Fuzz(func(t *testing.T, text, joined string) {
		keys := strings.Split(joined, "|")
		e, err := equation.Parse(text, keys)
		if (e == nil) != errors.Is(err, equation.ErrSyntax) || (e == nil) == (err == nil) {
			t.Fatalf("got %v, %v", e, err)
		}
		if err != nil {
			if !utf8.ValidString(err.Error()) || len(err.Error()) > 400 {
				t.Errorf("an error of %d bytes: %q", len(err.Error()), err)
			}
			return
		}
		seen := map[string]bool{}
		for _, key := range e.Keys() {
			if !slices.Contains(keys, key) || seen[key] || strings.TrimSpace(key) == "" {
				t.Errorf("the key %q is none, or stands twice", key)
			}
			seen[key] = true
		}
		value := valueOf(t, e)
		padded := " \t\u00a0" + text + "\n "
		if len(padded) > 4096 {
			return
		}
		again, err := equation.Parse(padded, keys)
		if err != nil || !slices.Equal(again.Keys(), e.Keys()) || valueOf(t, again) != value {
			t.Errorf("with spaces around it is %v, %v, want %v", again, err, value)
		}
		slices.Reverse(keys)
		again, err = equation.Parse(text, keys)
		if err != nil || !slices.Equal(again.Keys(), e.Keys()) || valueOf(t, again) != value {
			t.Errorf("with the keys in another order it is %v, %v, want %v", again, err, value)
		}
	})
}

// valueOf returns what an equation makes of operands that depend on their keys.
// It fails unless that is a finite number, none where one is missing.
func valueOf(t *testing.T, e *equation.Equation) string {
	t.Helper()
	value, ok := e.Value(func(key string) (float64, bool) { return float64(len(key)) - 1.5, true })
	if math.IsNaN(value) || math.IsInf(value, 0) || !ok && value != 0 || value == 0 && math.Signbit(value) {
		t.Errorf("the value is %v, %v", value, ok)
	}
	for _, missing := range e.Keys() {
		if v, ok := e.Value(func(key string) (float64, bool) { return 1, key != missing }); ok || v != 0 {
			t.Errorf("without %q the value is %v, %v", missing, v, ok)
		}
	}
	return fmt.Sprint(value, ok)
}
