package series

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Encoder checks samples and writes them as line protocol in one pass. It remembers names,
// which samples repeat. The zero value is ready to use, but not concurrently.
type Encoder struct {
	columns map[Key]*column
}

// column is a field as lines repeat it.
type column struct {
	field string
	kind  Kind
	head  []byte // the measurement, escaped
	name  []byte // the field, escaped
}

type cell struct {
	*column
	value any
}

// Append appends a sample as AppendLine does. If that fails it returns dst unchanged: with
// the error of ValidSample, or with ErrKind if a field has another kind than in an earlier
// sample.
func (e *Encoder) Append(dst []byte, s Sample) ([]byte, error) {
	var room [16]cell
	cells := room[:0]
	for field, value := range s.Fields {
		c, err := e.column(s, field, value)
		if err != nil {
			return dst, err
		}
		cells = append(cells, cell{c, value})
	}
	if len(cells) == 0 || len(s.Fields) > maxCols || len(s.Tags) > maxTags || !storable(s.Time) || validTags(s.Tags) != nil {
		return dst, ValidSample(s)
	}
	if len(cells) > 1 {
		slices.SortFunc(cells, func(a, b cell) int { return cmp.Compare(a.field, b.field) })
	}
	line := AppendTags(append(dst, cells[0].head...), s.Tags)
	sep := byte(' ')
	for _, c := range cells {
		line = append(append(line, sep), c.name...)
		line = appendValue(append(line, '='), c.value)
		sep = ','
	}
	line = strconv.AppendInt(append(line, ' '), s.Time.UnixNano(), 10)
	return append(line, '\n'), nil
}

// column returns the column of a field of s, if the value may be stored there.
func (e *Encoder) column(s Sample, field string, value any) (*column, error) {
	key := Key{s.Measurement, field}
	c := e.columns[key]
	if number, ok := value.(float64); ok && c != nil && c.kind == Float && math.Abs(number) <= maxNumber {
		return c, nil // nearly always
	}
	if err := ValidSample(s); err != nil {
		return nil, err
	}
	kind, err := KindOf(value)
	if err != nil {
		return nil, err
	}
	if c == nil {
		c = &column{
			field: field, kind: kind,
			head: appendEscaped(nil, s.Measurement, ", "), name: appendEscaped(nil, field, ", ="),
		}
		if e.columns == nil {
			e.columns = map[Key]*column{}
		}
		e.columns[key] = c
	}
	if c.kind != kind {
		return nil, OtherKind(key, c.kind, kind)
	}
	return c, nil
}

// Kinds returns the kinds of the fields of all samples so far.
func (e *Encoder) Kinds() map[Key]Kind {
	kinds := make(map[Key]Kind, len(e.columns))
	for key, c := range e.columns {
		kinds[key] = c.kind
	}
	return kinds
}

// OtherKind returns an ErrKind: a field that holds one kind was to be written with another.
func OtherKind(k Key, holds, kind Kind) error {
	return fmt.Errorf("%s holds %s, not %s: %w", k, holds, kind, ErrKind)
}
