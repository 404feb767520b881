package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"unicode/utf8"
)

// clientDepth is how deep the updater's JSON parser, serde_json, lets an answer
// nest.
const clientDepth = 127

// largestNumber is a little below what that parser can hold. It multiplies
// mantissa and power of ten, which overflows for some numbers that are just
// within a double.
const largestNumber = 1e308

// checkJSON says why the updater's parser would not take a text for JSON. It
// refuses more than encoding/json does: lone halves of a surrogate pair, numbers
// beyond a double, deep nesting, and invalid UTF-8, wherever they stand.
func checkJSON(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("it is not UTF-8")
	}
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		return err
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '{' || c == '[':
			if depth++; depth > clientDepth {
				return errors.New("it nests deeper than the updater reads")
			}
		case c == '}' || c == ']':
			depth--
		case c == '"':
			end, ok := endOfString(text, i)
			if !ok {
				return errors.New("a text in it holds half a surrogate pair")
			}
			i = end
		case c == '-' || '0' <= c && c <= '9':
			end := endOfNumber(text, i)
			if f, err := strconv.ParseFloat(string(text[i:end]), 64); err != nil || math.Abs(f) > largestNumber {
				return errors.New("a number in it is out of range")
			}
			i = end - 1
		}
	}
	return nil
}

// endOfString returns the offset of the closing quote of the string that begins
// at start, and whether its escapes make whole characters. The text is known to
// be valid by the grammar.
func endOfString(text []byte, start int) (end int, ok bool) {
	ok = true
	i := start + 1
	for text[i] != '"' {
		if text[i] != '\\' {
			i++
			continue
		}
		switch unit := escapedUnit(text[i:]); {
		case unit < 0: // another escape
			i += 2
		case 0xD800 <= unit && unit <= 0xDBFF:
			low := escapedUnit(text[i+6:])
			ok = ok && 0xDC00 <= low && low <= 0xDFFF
			i += 6
			if 0xDC00 <= low && low <= 0xDFFF {
				i += 6
			}
		default:
			ok = ok && (unit < 0xDC00 || unit > 0xDFFF)
			i += 6
		}
	}
	return i, ok
}

// escapedUnit returns the UTF-16 unit of the \u escape that text begins with, or
// -1 if it begins with anything else.
func escapedUnit(text []byte) int {
	if len(text) < 6 || !bytes.HasPrefix(text, []byte(`\u`)) {
		return -1
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return int(unit)
}

func endOfNumber(text []byte, start int) int {
	if n := bytes.IndexFunc(text[start:], func(r rune) bool {
		return (r < '0' || r > '9') && r != '+' && r != '-' && r != '.' && r != 'e' && r != 'E'
	}); n >= 0 {
		return start + n
	}
	return len(text)
}
