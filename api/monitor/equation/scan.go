package equation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// known is a key and the text that it matches.
type known struct {
	text string
	key  string
}

// knownOf returns the keys by the first byte of their texts, in order of preference.
func knownOf(keys []string) map[byte][]known {
	lists := map[byte][]known{}
	for _, key := range keys {
		text := strings.TrimSpace(key)
		if text != "" && utf8.ValidString(text) {
			lists[text[0]] = append(lists[text[0]], known{text, key})
		}
	}
	for _, list := range lists {
		slices.SortFunc(list, func(a, b known) int {
			return cmp.Or(len(b.text)-len(a.text), len(a.key)-len(b.key), cmp.Compare(a.key, b.key))
		})
	}
	return lists
}

// key returns the key that matches here and the length of its text, 0 if there is none.
func (p *parser) key() (key string, length int) {
	rest := p.rest()
	if rest == "" {
		return "", 0
	}
	for _, k := range p.known[rest[0]] {
		if strings.HasPrefix(rest, k.text) && !goesOn(rest[len(k.text):]) {
			return k.key, len(k.text)
		}
	}
	return "", 0
}

// goesOn reports whether rest continues a word or number.
func goesOn(rest string) bool {
	r, _ := utf8.DecodeRuneInString(rest)
	return r == '.' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
}

// numberLength returns the length of the number that rest starts with, or 0.
func numberLength(rest string) int {
	n := digits(rest)
	if strings.HasPrefix(rest[n:], ".") {
		if fraction := digits(rest[n+1:]); n > 0 || fraction > 0 {
			n += 1 + fraction
		}
	}
	if n == 0 || n == len(rest) || rest[n] != 'e' && rest[n] != 'E' {
		return n
	}
	exponent := n + 1
	if exponent < len(rest) && (rest[exponent] == '+' || rest[exponent] == '-') {
		exponent++
	}
	if length := digits(rest[exponent:]); length > 0 {
		return exponent + length
	}
	return n
}

func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}

// callName returns the function name that rest starts with and the length including its
// parenthesis, or 0.
func callName(rest string) (name string, opening int) {
	before, _, found := strings.Cut(rest, "(")
	name = strings.TrimPrefix(strings.TrimRightFunc(before, unicode.IsSpace), "Math.")
	if _, ok := functions[name]; !ok || !found {
		return "", 0
	}
	return name, len(before) + 1
}

func (p *parser) rest() string { return p.text[p.at:] }

func (p *parser) space() {
	p.at = len(p.text) - len(strings.TrimLeftFunc(p.rest(), unicode.IsSpace))
}

// take skips a sign if it is next.
func (p *parser) take(sign string) bool {
	p.space()
	if !strings.HasPrefix(p.rest(), sign) {
		return false
	}
	p.at += len(sign)
	return true
}

// operator skips an operator if it is next and has that precedence.
func (p *parser) operator(precedence int) (operator, bool) {
	p.space()
	for _, op := range operators {
		if strings.HasPrefix(p.rest(), op.sign) {
			if op.precedence != precedence {
				break
			}
			p.at += len(op.sign)
			return op, true
		}
	}
	return operator{}, false
}

func (p *parser) noOperand() error {
	if goesOn(p.rest()) {
		return p.errorAt(p.at, "%s is neither a key nor the call of a function", p.found())
	}
	return p.unexpected("an operand")
}

func (p *parser) unexpected(expected string) error {
	rest := p.rest()
	switch {
	case strings.HasPrefix(rest, "="):
		return p.errorAt(p.at, "a comparison is written ==, not =")
	case strings.HasPrefix(rest, "&"), strings.HasPrefix(rest, "|"):
		return p.errorAt(p.at, "and is written &&, or is written ||")
	case strings.HasPrefix(rest, ",") && digits(rest[1:]) > 0:
		return p.errorAt(p.at, "a decimal has a point, not a comma")
	}
	return p.errorAt(p.at, "expected %s, found %s", expected, p.found())
}

// found quotes the next text, up to a sign.
func (p *parser) found() string {
	rest := p.rest()
	if rest == "" {
		return "the end"
	}
	if n := strings.IndexAny(rest, "+-*/%^()<>=!,&|?:"); n >= 0 {
		rest = strings.TrimSpace(rest[:max(n, 1)])
	}
	return quote(rest)
}

// quote quotes at most about 40 bytes.
func quote(s string) string {
	if len(s) > 40 {
		s = strings.ToValidUTF8(s[:40], "") + "…"
	}
	return strconv.Quote(s)
}

func (p *parser) errorAt(at int, format string, args ...any) error {
	place := utf8.RuneCountInString(p.text[:at]) + 1
	return fmt.Errorf("%w: character %d: %s", ErrSyntax, place, fmt.Sprintf(format, args...))
}
