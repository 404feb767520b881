package equation

import (
	"math"
	"slices"
	"strconv"
)

// The precedences of binary operators.
const (
	either = iota
	both
	equality
	relation
	sum
	product
	power
)

type operator struct {
	sign       string
	precedence int
	apply      func(x, y float64) float64 // nil: the operator is both or either
}

// operators lists an operator before any that is its prefix.
var operators = []operator{
	{"||", either, nil},
	{"&&", both, nil},
	{"===", equality, equal},
	{"!==", equality, unequal},
	{"==", equality, equal},
	{"!=", equality, unequal},
	{"<=", relation, truth(func(x, y float64) bool { return x <= y })},
	{">=", relation, truth(func(x, y float64) bool { return x >= y })},
	{"<", relation, truth(func(x, y float64) bool { return x < y })},
	{">", relation, truth(func(x, y float64) bool { return x > y })},
	{"+", sum, func(x, y float64) float64 { return x + y }},
	{"-", sum, func(x, y float64) float64 { return x - y }},
	{"**", power, raise},
	{"*", product, func(x, y float64) float64 { return x * y }},
	{"/", product, func(x, y float64) float64 { return x / y }},
	{"%", product, math.Mod},
	{"^", power, raise},
}

// function has one argument, or folds a binary operation over its arguments.
type function struct {
	unary  func(x float64) float64
	binary func(x, y float64) float64
	count  int // number of arguments; 0 for one or more
}

var functions = map[string]function{
	"abs":   {unary: math.Abs, count: 1},
	"sqrt":  {unary: math.Sqrt, count: 1},
	"round": {unary: round, count: 1},
	"floor": {unary: math.Floor, count: 1},
	"ceil":  {unary: math.Ceil, count: 1},
	"pow":   {binary: raise, count: 2},
	"min":   {binary: math.Min},
	"max":   {binary: math.Max},
}

var (
	equal   = truth(func(x, y float64) bool { return x == y })
	unequal = truth(func(x, y float64) bool { return x != y })
)

func truth(holds func(x, y float64) bool) func(x, y float64) float64 {
	return func(x, y float64) float64 {
		if holds(x, y) {
			return 1
		}
		return 0
	}
}

// round rounds halves up. Adding 0.5 first would round twice.
func round(x float64) float64 {
	whole := math.Floor(x)
	if x-whole >= 0.5 {
		whole++
	}
	return whole
}

// parser parses by recursive descent. Each method that returns an error parses one
// production and appends its steps.
type parser struct {
	text   string
	at     int // bytes
	depth  int
	known  map[byte][]known
	result *Equation
}

// emit appends a step, and returns its index.
func (p *parser) emit(s step) int {
	p.result.steps = append(p.result.steps, s)
	return len(p.result.steps) - 1
}

// land makes a jump end at the next step.
func (p *parser) land(jump int) {
	p.result.steps[jump].to = len(p.result.steps)
}

// expression parses a choice, or what may be its condition.
func (p *parser) expression() error {
	if err := p.operation(either); err != nil || !p.take("?") {
		return err
	}
	unless := p.emit(step{jump: popIfZero})
	if err := p.nested(p.expression); err != nil {
		return err
	}
	if !p.take(":") {
		return p.unexpected(`an operator or ":"`)
	}
	over := p.emit(step{jump: always})
	p.land(unless)
	if err := p.nested(p.expression); err != nil {
		return err
	}
	p.land(over)
	return nil
}

// operation parses left-associative operators of a precedence and their operands.
func (p *parser) operation(precedence int) error {
	if precedence == power {
		return p.signed()
	}
	if err := p.operation(precedence + 1); err != nil {
		return err
	}
	for {
		op, ok := p.operator(precedence)
		if !ok {
			return nil
		}
		over := -1
		switch precedence {
		case both:
			over = p.emit(step{jump: keepIfZero})
		case either:
			over = p.emit(step{jump: keepUnlessZero})
		}
		if err := p.operation(precedence + 1); err != nil {
			return err
		}
		if over >= 0 {
			p.land(over)
		} else {
			p.emit(step{binary: op.apply})
		}
	}
}

// nested parses a production one level deeper.
func (p *parser) nested(part func() error) error {
	if p.depth == maxDepth {
		return p.errorAt(p.at, "nested more than %d deep", maxDepth)
	}
	p.depth++
	err := part()
	p.depth--
	return err
}

// signs may precede an operand; + does nothing.
var signs = map[byte]func(x float64) float64{
	'-': func(x float64) float64 { return -x },
	'!': func(x float64) float64 { return equal(x, 0) },
	'+': nil,
}

// signed parses a power after any number of signs.
func (p *parser) signed() error {
	p.space()
	if p.rest() == "" {
		return p.power()
	}
	apply, isSign := signs[p.rest()[0]]
	if _, length := p.key(); length > 0 || !isSign {
		return p.power()
	}
	p.at++
	if err := p.nested(p.signed); err != nil {
		return err
	}
	if apply != nil {
		p.emit(step{unary: apply})
	}
	return nil
}

func (p *parser) power() error {
	if err := p.operand(); err != nil {
		return err
	}
	op, ok := p.operator(power)
	if !ok {
		return nil
	}
	if err := p.nested(p.signed); err != nil {
		return err
	}
	p.emit(step{binary: op.apply})
	return nil
}

// operand parses a key, number, call or group.
func (p *parser) operand() error {
	key, length := p.key()
	digits := numberLength(p.rest())
	name, opening := callName(p.rest())
	switch {
	case length > 0 && length >= digits && length >= opening:
		p.at += length
		p.use(key)
		return nil
	case digits > 0:
		return p.number(digits)
	case opening > 0:
		return p.call(name, opening)
	case p.take("("):
		return p.group()
	}
	return p.noOperand()
}

func (p *parser) use(key string) {
	i := slices.Index(p.result.keys, key)
	if i < 0 {
		i = len(p.result.keys)
		p.result.keys = append(p.result.keys, key)
	}
	p.emit(step{operand: i + 1})
}

func (p *parser) number(length int) error {
	digits := p.rest()[:length]
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return p.errorAt(p.at, "the number %s is too large", quote(digits))
	}
	p.at += length
	p.emit(step{number: n})
	return nil
}

// group parses the rest of a group, after its parenthesis.
func (p *parser) group() error {
	if err := p.nested(p.expression); err != nil {
		return err
	}
	if !p.take(")") {
		return p.unexpected(`an operator or ")"`)
	}
	return nil
}

// call parses a call; opening is the length of its name and parenthesis.
func (p *parser) call(name string, opening int) error {
	f, start := functions[name], p.at
	p.at += opening
	count := 0
	for more := true; more; more = p.take(",") {
		if err := p.nested(p.expression); err != nil {
			return err
		}
		if count++; count > 1 && f.binary != nil {
			p.emit(step{binary: f.binary})
		}
	}
	if !p.take(")") {
		return p.unexpected(`an operator, "," or ")"`)
	}
	if f.count > 0 && f.count != count {
		return p.errorAt(start, "the number of arguments of %s is %d, not %d", name, count, f.count)
	}
	if f.unary != nil {
		p.emit(step{unary: f.unary})
	}
	return nil
}
