// Package equation computes a variable from others: it reads the equation of a
// varsTs of form B, whose operands are the keys of varsTs, and computes its
// value from theirs.
//
// An equation is written as in JavaScript, lowest precedence first:
//
//	== != === !==       1 where it holds, else 0; === is ==, !== is !=
//	< <= > >=           1 where it holds, else 0
//	+ -
//	* / %               % has the sign of its left side
//	-x +x
//	x^y                 or x**y; from the right: 2^3^2 is 2^9, -2^2 is -4
//	12 1.5 .5 1e-3      a number
//	caudal-1            a key
//	max(x, y) (x)       a function, a group
//
// The functions are abs, sqrt, round, floor and ceil of one argument, pow of
// two, min and max of one or more; each also with Math. before it. round takes
// halves up: round(-2.5) is -2. Unlike in JavaScript ^ is the power and a
// comparison is a number. White space between these parts does not count.
//
// A key is any text: it may hold spaces and operators, begin with a digit or be
// the name of a function. What stands where an operand may begin is found so:
//
//   - The longest key that the text goes on with is taken, before a sign or a
//     parenthesis too: with the keys a and a-1, a-1 is the key and a - 1 a
//     difference.
//   - A key does not end where a letter, mark, digit, underscore or point
//     follows, which would make it the beginning of something else: with the
//     same keys, a-12 and a-1.5 are differences, and p1 is not found in p12.
//   - A number, or the name of a function with its parenthesis, is taken instead
//     if it reaches further: max(1, 2) is a call beside a key max. Where both
//     are as long it is the key: with a key 2, x^2 is x to the power of that
//     variable; 2.0 is the number.
//   - White space around a key does not count. Of keys that differ only there
//     the shortest is taken, and of these the first in byte order. Keys of
//     nothing else, or that are not UTF-8, are passed over.
//
// No operand is looked for after an operand, so a -1 is always a difference.
//
// An equation has a value where each of its operands has one, also those that
// are multiplied by 0, and no step on the way is a division by 0, not a number
// or infinite.
package equation

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// ErrSyntax says that a text is not an equation over the keys, or larger than
// an equation may be: 4,096 bytes, 1,000 keys, and signs, powers, calls and
// groups 64 deep.
var ErrSyntax = errors.New("the equation can't be read")

const (
	maxText  = 4096 // bytes
	maxKeys  = 1000
	maxDepth = 64
)

// Equation is an equation that was read. It never changes, so that any number
// of goroutines may use it.
type Equation struct {
	keys  []string
	steps []step
}

// step is one step of the computation, in postfix order: what takes two values
// off the stack, or one, and puts its result there, or what puts one there.
type step struct {
	binary  func(x, y float64) float64
	unary   func(x float64) float64
	operand int     // 1 + its place in keys
	number  float64 // where all else is zero
}

// Parse reads an equation over the keys of varsTs. An error wraps ErrSyntax and
// names the place, in characters from 1, what was found there and what was
// expected; one about the whole text, its size or that it is not UTF-8, does not.
func Parse(text string, keys []string) (*Equation, error) {
	switch {
	case len(text) > maxText:
		return nil, fmt.Errorf("%w: it has %d bytes, more than %d", ErrSyntax, len(text), maxText)
	case len(keys) > maxKeys:
		return nil, fmt.Errorf("%w: it has %d keys, more than %d", ErrSyntax, len(keys), maxKeys)
	case !utf8.ValidString(text):
		return nil, fmt.Errorf("%w: it is not UTF-8", ErrSyntax)
	}
	p := &parser{text: text, known: knownOf(keys), result: &Equation{}}
	if err := p.expression(); err != nil {
		return nil, err
	}
	if p.at < len(p.text) {
		return nil, p.unexpected("an operator")
	}
	return p.result, nil
}

// Keys returns the keys that the equation uses, in order of first appearance,
// each once.
func (e *Equation) Keys() []string {
	return slices.Clone(e.keys)
}

// Value computes the equation. It asks operand at most once for each of Keys,
// and not again once one is missing. ok is false, and the value 0, where an
// operand is missing or a step has no finite result. The value is never -0.
func (e *Equation) Value(operand func(key string) (value float64, ok bool)) (value float64, ok bool) {
	var valuesRoom, stackRoom [16]float64
	values, stack := valuesRoom[:0], stackRoom[:0]
	for _, key := range e.keys {
		v, ok := operand(key)
		if !ok {
			return 0, false
		}
		values = append(values, v)
	}
	for _, s := range e.steps {
		stack = s.run(stack, values)
		if last := stack[len(stack)-1]; math.IsNaN(last) || math.IsInf(last, 0) {
			return 0, false
		}
	}
	return stack[0] + 0, true // 0 where it is -0
}

func (s step) run(stack, values []float64) []float64 {
	last := len(stack) - 1
	switch {
	case s.binary != nil:
		stack[last-1] = s.binary(stack[last-1], stack[last])
		return stack[:last]
	case s.unary != nil:
		stack[last] = s.unary(stack[last])
		return stack
	case s.operand > 0:
		return append(stack, values[s.operand-1])
	}
	return append(stack, s.number)
}
