// Package equation computes a variable from others: it parses the equation of a varsTs
// of form B, whose operands are the keys of varsTs, and evaluates it.
//
// The syntax is JavaScript's, lowest precedence first:
//
//	c ? x : y           y if c is 0, else x; right-associative
//	x || y              x, or y if x is 0
//	x && y              0 if x is 0, else y
//	== != === !==       1 if true, else 0; === is ==, !== is !=
//	< <= > >=           1 if true, else 0
//	+ -
//	* / %               % has the sign of its left side
//	-x +x !x            !x is 1 if x is 0, else 0
//	x^y                 or x**y; right-associative: 2^3^2 is 2^9, -2^2 is -4; a power
//	                    that is a float64 is exact: 9^1.5 is 27
//	12 1.5 .5 1e-3      a number
//	caudal-1            a key
//	max(x, y) (x)       a call, a group
//
// The functions are abs, sqrt, round, floor and ceil of one argument, pow of two, min
// and max of one or more, each with or without the prefix Math. round rounds halves up:
// round(-2.5) is -2. Unlike in JavaScript, ^ is the power and a comparison is a number.
// White space between these tokens is ignored. parse.go has the functions' table.
//
// A key is any text: it may contain spaces and operators, start with a digit or equal
// the name of a function. Where an operand may start:
//
//   - The longest matching key wins, even over a sign or a parenthesis: with the keys a
//     and a-1, a-1 is the key and a - 1 a difference.
//   - A key does not match if a letter, mark, digit, underscore or point follows: with
//     the same keys, a-12 and a-1.5 are differences, and p1 does not match in p12.
//   - A longer number, or function name with its parenthesis, wins over a key: max(1, 2)
//     is a call despite a key max. If both are equally long the key wins: with a key 2,
//     x^2 is x to the power of that variable; 2.0 is the number.
//   - White space around a key is ignored. Of keys that differ only there the shortest
//     wins, then the first in byte order. Keys of white space alone, or that are not
//     UTF-8, never match.
//
// After an operand no operand may start, so a -1 is always a difference.
//
// An equation has a value if all its operands have one, even those multiplied by 0, and
// no intermediate result is infinite or not a number. Operations that ?, || and && skip
// are not computed: b != 0 ? a / b : 0 has a value if b is 0.
package equation

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// ErrSyntax means that a text is not an equation over the keys, or exceeds 4,096 bytes,
// 1,000 keys, or a nesting of signs, powers, calls and groups 64 deep.
var ErrSyntax = errors.New("the equation can't be read")

const (
	maxText  = 4096 // bytes
	maxKeys  = 1000
	maxDepth = 64
)

// Equation is a parsed equation. It is immutable and safe for concurrent use.
type Equation struct {
	keys  []string
	steps []step
}

// step is one step of the evaluation in postfix order: an operation on the top of the
// stack, a jump to a later step, or a value to push.
type step struct {
	binary  func(x, y float64) float64
	unary   func(x float64) float64
	operand int     // 1 + its index in keys
	jump    jump    // to the step to
	to      int     // its index, or that past the last
	number  float64 // if all else is zero
}

// jump says when a step jumps, and whether it then keeps the top of the stack. A step that
// does not jump pops it.
type jump uint8

const (
	always jump = iota + 1
	popIfZero
	keepIfZero
	keepUnlessZero
)

// Parse parses an equation over the keys of varsTs. Its errors wrap ErrSyntax and,
// except for bounds and invalid UTF-8, name the position in characters from 1, what was
// found there and what was expected.
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

// Keys returns the keys that the equation uses, each once, in order of appearance.
func (e *Equation) Keys() []string {
	return slices.Clone(e.keys)
}

// Value evaluates the equation. It calls operand at most once for each of Keys, up to
// the first that is missing. ok is false, and the value 0, if an operand is missing or
// a step has no finite result. The value is never -0.
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
	for i := 0; i < len(e.steps); {
		if e.steps[i].jump != 0 {
			i, stack = e.steps[i].leap(i, stack)
			continue
		}
		stack = e.steps[i].run(stack, values)
		if last := stack[len(stack)-1]; math.IsNaN(last) || math.IsInf(last, 0) {
			return 0, false
		}
		i++
	}
	return stack[0] + 0, true // turns -0 into 0
}

// leap returns the index of the step after the one at i, which is a jump.
func (s step) leap(i int, stack []float64) (next int, rest []float64) {
	last := len(stack) - 1
	switch zero := stack[last] == 0; {
	case s.jump == always, s.jump == keepIfZero && zero, s.jump == keepUnlessZero && !zero:
		return s.to, stack
	case s.jump == popIfZero && zero:
		return s.to, stack[:last]
	}
	return i + 1, stack[:last]
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
