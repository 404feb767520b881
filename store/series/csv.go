package series

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"
)

// CSV reads comma-separated values with a header: the columns time, measurement,
// field and value in any order; all others are tags, which may be empty. A time is
// RFC 3339 or a number of units since 1970. A value is written as in line protocol:
// a number, 12i for an integer, true or false, or a text in quotes of its own.
//
// Like Lines, it yields at most one error, which names the line.
func CSV(r io.Reader, unit time.Duration) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		bounded := &boundedReader{Reader: r, left: maxLine}
		rows := csv.NewReader(bounded)
		rows.ReuseRecord = true
		columns, err := readHeader(rows)
		for err == nil {
			bounded.left = maxLine
			var row []string
			if row, err = rows.Read(); err != nil {
				break
			}
			var s Sample
			if s, err = columns.sample(row, unit); err != nil {
				line, _ := rows.FieldPos(0)
				err = fmt.Errorf("line %d: %w", line, err)
			} else if !yield(s, nil) {
				return
			}
		}
		if parse, ok := errors.AsType[*csv.ParseError](err); ok {
			err = fmt.Errorf("line %d: %w: %w", parse.Line, ErrInvalid, parse.Err)
		}
		if !errors.Is(err, io.EOF) {
			yield(Sample{}, err)
		}
	}
}

// header holds the indexes of the columns.
type header struct {
	time, measurement, field, value int
	tags                            []string // by column; empty for the four above
}

func readHeader(rows *csv.Reader) (header, error) {
	row, err := rows.Read()
	if err == io.EOF {
		return header{}, fmt.Errorf("line 1: %w: there is no header", ErrInvalid)
	}
	if err != nil {
		return header{}, err
	}
	h := header{tags: slices.Clone(row)}
	h.tags[0] = strings.TrimPrefix(h.tags[0], "\ufeff")
	for name, at := range map[string]*int{"time": &h.time, "measurement": &h.measurement, "field": &h.field, "value": &h.value} {
		if *at = slices.Index(h.tags, name); *at < 0 {
			return header{}, fmt.Errorf("line 1: %w: the header lacks the column %s", ErrInvalid, name)
		}
	}
	for _, at := range []int{h.time, h.measurement, h.field, h.value} {
		h.tags[at] = ""
	}
	return h, nil
}

func (h header) sample(row []string, unit time.Duration) (Sample, error) {
	t, err := time.Parse(time.RFC3339Nano, row[h.time])
	if err != nil {
		t, err = parseTime(row[h.time], unit)
	}
	if err != nil {
		return Sample{}, err
	}
	c := &cursor{rest: []byte(row[h.value])}
	value, err := c.value()
	if err != nil {
		return Sample{}, err
	}
	if len(c.rest) > 0 {
		return Sample{}, fmt.Errorf("%w: %.80q after the value", ErrInvalid, c.rest)
	}
	s := Sample{Measurement: row[h.measurement], Tags: map[string]string{}, Time: t.UTC()}
	s.Fields = map[string]any{row[h.field]: value}
	for i, name := range h.tags {
		if name != "" && row[i] != "" {
			s.Tags[name] = row[i]
		}
	}
	return s, ValidSample(s)
}

// boundedReader fails when more is read than is left.
type boundedReader struct {
	io.Reader
	left int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: a line has more than %d bytes", ErrTooLarge, maxLine)
	}
	n, err := b.Reader.Read(p)
	b.left -= n
	return n, err
}
