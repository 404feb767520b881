package series

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// escapable are the characters that a backslash escapes.
const escapable = `, ="\`

// maxLine is the longest line that is read, in bytes.
const maxLine = 1 << 20

// AppendLine appends a sample, which must pass ValidSample, as one line of
// InfluxDB's line protocol with its time in nanoseconds. Equal samples give equal
// lines.
func AppendLine(dst []byte, s Sample) []byte {
	dst = appendEscaped(dst, s.Measurement, ", ")
	dst = AppendTags(dst, s.Tags)
	sep := byte(' ')
	var room [16]string
	for _, name := range sortedKeys(room[:0], s.Fields) {
		dst = append(dst, sep)
		dst = append(appendEscaped(dst, name, ", ="), '=')
		dst = appendValue(dst, s.Fields[name])
		sep = ','
	}
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, s.Time.UnixNano(), 10)
	return append(dst, '\n')
}

// AppendTags appends tags in line protocol, sorted and each after a comma.
func AppendTags(dst []byte, tags map[string]string) []byte {
	var room [16]string
	for _, name := range sortedKeys(room[:0], tags) {
		dst = append(dst, ',')
		dst = append(appendEscaped(dst, name, ", ="), '=')
		dst = appendEscaped(dst, tags[name], ", =")
	}
	return dst
}

// sortedKeys appends the keys of m to dst, sorted.
func sortedKeys[V any](dst []string, m map[string]V) []string {
	for name := range m {
		dst = append(dst, name)
	}
	if len(dst) > 1 {
		slices.Sort(dst)
	}
	return dst
}

func appendEscaped(dst []byte, s, special string) []byte {
	if !strings.ContainsAny(s, escapable) {
		return append(dst, s...)
	}
	for i := range len(s) {
		if strings.IndexByte(special, s[i]) >= 0 {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return dst
}

func appendValue(dst []byte, value any) []byte {
	switch v := value.(type) {
	case float64:
		return strconv.AppendFloat(dst, v, 'g', -1, 64)
	case int64:
		return append(strconv.AppendInt(dst, v, 10), 'i')
	case bool:
		return strconv.AppendBool(dst, v)
	case string:
		return append(appendEscaped(append(dst, '"'), v, `"\`), '"')
	}
	return dst
}

// Lines reads line protocol: one sample a line, with its time in units since 1970
// or, where a line has no time, now. It skips empty lines and comments. It yields
// at most one error, as the last element. It names the line and wraps
// ErrInvalid, ErrName, ErrTooLarge or the error of r. The samples pass ValidSample.
//
// Samples of the same series share their Tags: don't change them.
//
// As in InfluxDB, a backslash in the text of a field is an escape only before a quote or
// another backslash.
func Lines(r io.Reader, unit time.Duration, now time.Time) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		lines := newSplitter(r)
		p := &lineParser{unit: unit, now: now, heads: map[string]head{}, names: map[string]string{}}
		for line, err := lines.next(); !errors.Is(err, io.EOF); line, err = lines.next() {
			var s Sample
			if err == nil {
				s, err = p.parse(line)
			}
			if err != nil {
				yield(Sample{}, fmt.Errorf("line %d: %w", lines.number, err))
				return
			}
			if !yield(s, nil) {
				return
			}
		}
	}
}

// lineParser parses lines. It remembers heads and names, which lines repeat.
type lineParser struct {
	unit  time.Duration
	now   time.Time
	heads map[string]head   // by their text
	names map[string]string // of fields
}

// head is the part of a line before its fields.
type head struct {
	measurement string
	tags        map[string]string
}

// maxHeads is the number of heads or names that are remembered.
const maxHeads = 10_000

func (p *lineParser) parse(line []byte) (Sample, error) {
	c := &cursor{rest: line}
	h, err := p.head(c)
	if err != nil {
		return Sample{}, err
	}
	if !c.blank() {
		return Sample{}, fmt.Errorf("%w: no field after %.80q", ErrInvalid, h.measurement)
	}
	s := Sample{Measurement: h.measurement, Tags: h.tags, Fields: map[string]any{}, Time: p.now}
	for more := true; more; more = c.take(',') {
		if err := p.field(c, s.Fields); err != nil {
			return Sample{}, err
		}
	}
	if c.blank(); len(c.rest) > 0 {
		t, err := parseTime(strings.TrimRight(string(c.rest), " \t"), p.unit)
		if err != nil {
			return Sample{}, err
		}
		s.Time = t
	}
	return s, ValidSample(s)
}

func (p *lineParser) head(c *cursor) (h head, err error) {
	text := c.rest[:headEnd(c.rest)]
	if h, ok := p.heads[string(text)]; ok {
		c.rest = c.rest[len(text):]
		return h, nil
	}
	h = head{measurement: string(c.name(", ")), tags: map[string]string{}}
	for c.take(',') {
		if err := c.tag(h.tags); err != nil {
			return head{}, err
		}
	}
	if len(p.heads) < maxHeads {
		p.heads[string(text)] = h
	}
	return h, nil
}

// headEnd returns the index of the first space that is not escaped.
func headEnd(line []byte) int {
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == ' ':
			return i
		case line[i] == '\\' && isNext(line, i, nameEscapes):
			i++
		}
	}
	return len(line)
}

// nameEscapes are the characters that a backslash escapes in names and the values of tags.
const nameEscapes = ", ="

// isNext reports whether the byte after i is one of special.
func isNext(text []byte, i int, special string) bool {
	return i+1 < len(text) && strings.IndexByte(special, text[i+1]) >= 0
}

// cursor is the rest of a line that is being parsed.
type cursor struct{ rest []byte }

func (c *cursor) take(b byte) bool {
	if len(c.rest) == 0 || c.rest[0] != b {
		return false
	}
	c.rest = c.rest[1:]
	return true
}

func (c *cursor) blank() bool {
	before := len(c.rest)
	c.rest = bytes.TrimLeft(c.rest, " ")
	return len(c.rest) < before
}

// name reads up to the first unescaped character of stop.
func (c *cursor) name(stop string) []byte {
	name := c.rest
	if end := bytes.IndexAny(name, stop); end >= 0 {
		name = name[:end]
	}
	if bytes.IndexByte(name, '\\') < 0 {
		c.rest = c.rest[len(name):]
		return name
	}
	name = nil
	i := 0
	for ; i < len(c.rest) && strings.IndexByte(stop, c.rest[i]) < 0; i++ {
		if c.rest[i] == '\\' && isNext(c.rest, i, nameEscapes) {
			i++
		}
		name = append(name, c.rest[i])
	}
	c.rest = c.rest[i:]
	return name
}

func (c *cursor) tag(tags map[string]string) error {
	name := string(c.name(", ="))
	if !c.take('=') {
		return fmt.Errorf("%w: tag %.80q has no value", ErrInvalid, name)
	}
	if _, twice := tags[name]; twice || len(tags) >= maxTags {
		return fmt.Errorf("%w: duplicate tag %.80q, or more than %d tags", ErrInvalid, name, maxTags)
	}
	tags[name] = string(c.name(", ="))
	if c.take('=') {
		return fmt.Errorf("%w: the value of tag %.80q has an unescaped =", ErrInvalid, name)
	}
	return nil
}

func (p *lineParser) field(c *cursor, fields map[string]any) error {
	text := c.name(", =")
	name, ok := p.names[string(text)]
	if !ok {
		name = string(text)
		if len(p.names) < maxHeads {
			p.names[name] = name
		}
	}
	if !c.take('=') {
		return fmt.Errorf("%w: field %.80q has no value", ErrInvalid, name)
	}
	if len(fields) >= maxCols {
		return fmt.Errorf("%w: more than %d fields", ErrInvalid, maxCols)
	}
	value, err := c.value()
	if err != nil {
		return fmt.Errorf("field %.80q: %w", name, err)
	}
	fields[name] = value
	return nil
}

func (c *cursor) value() (any, error) {
	if c.take('"') {
		return c.text()
	}
	end := bytes.IndexAny(c.rest, ", ")
	if end < 0 {
		end = len(c.rest)
	}
	word := string(c.rest[:end])
	c.rest = c.rest[end:]
	return parseWord(word)
}

// text reads up to the closing quote.
func (c *cursor) text() (string, error) {
	var text []byte
	for i := 0; i < len(c.rest); i++ {
		if c.rest[i] == '"' {
			c.rest = c.rest[i+1:]
			return string(text), nil
		}
		if c.rest[i] == '\\' && isNext(c.rest, i, `"\`) {
			i++
		}
		text = append(text, c.rest[i])
	}
	return "", fmt.Errorf("%w: a text without a closing quote", ErrInvalid)
}

// parseWord reads a number or a boolean.
func parseWord(word string) (any, error) {
	switch word {
	case "t", "T", "true", "True", "TRUE":
		return true, nil
	case "f", "F", "false", "False", "FALSE":
		return false, nil
	}
	digits, integer := strings.CutSuffix(word, "i")
	if !integer && !strings.HasPrefix(word, "-") {
		digits, integer = strings.CutSuffix(word, "u")
	}
	if integer {
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %.80q is not an integer", ErrInvalid, word)
		}
		return n, nil
	}
	number, err := strconv.ParseFloat(word, 64)
	if err != nil || strings.Trim(word, "+-.0123456789eE") != "" {
		return nil, fmt.Errorf("%w: %.80q is neither a number nor a boolean", ErrInvalid, word)
	}
	return number, nil
}

// parseTime reads a number of units since 1970.
func parseTime(word string, unit time.Duration) (time.Time, error) {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil || unit <= 0 || n > math.MaxInt64/int64(unit) || n < math.MinInt64/int64(unit) {
		return time.Time{}, fmt.Errorf("%w: %.80q is not a time in units of %s", ErrInvalid, word, unit)
	}
	return time.Unix(0, n*int64(unit)).UTC(), nil
}
