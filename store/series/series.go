// Package series is the contract of the time-series database that a tenant's
// measured values live in.
//
// A value is found under a Key, a field of a measurement, in a database that
// belongs to one tenant. Below one key there may be several tag sets, each a
// series of its own; readers see them merged:
//
//   - the last value is the one with the latest time, the greater of two that
//     share it;
//   - mean, sum, min and max are taken over the points of all tag sets.
//
// A field has one Kind. Booleans are read as 1 and 0, and so are their
// aggregates: the mean is the share of true, the sum their number. Text is
// stored but is no value; a reader finds nothing under it. Integers are read as
// the nearest float64.
//
// Adapters live below this folder (sqlite, influx); seriestest holds the suite
// that each of them passes. An adapter keeps these promises:
//
//   - Only what was measured is answered. A key that nobody wrote, a tag's name,
//     a field of text and an empty window are missing, which is no error. A
//     database that can't be asked is an error and never an empty answer.
//   - A name is data. Whatever bytes it holds, it names one measurement or one
//     field or none, and no part of it is ever read as a query.
//   - No value has a time after the reader's clock, so that one wrong clock in
//     the field does not hide every later value.
//   - What Write has taken is seen by the next question to the same store.
//   - A batch costs one round trip, not one a key, except where values must
//     first be looked for further back.
//   - Every wait is bounded, by the context and by time-outs of the adapter, and
//     so is every answer's size.
//   - Errors answer to errors.Is with the sentinels of this package and
//     fs.ErrPermission.
//
// Nothing is deleted through this contract: how long values are kept is the
// database's own setting.
package series

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrUnavailable says that the database could not be reached or did not
	// answer in time; the same call may work later.
	ErrUnavailable = errors.New("the time-series database does not answer")
	// ErrNoDatabase says that there is no database of this name.
	ErrNoDatabase = errors.New("there is no such time-series database")
	// ErrName says that a name breaks the rules of ValidName, ValidDatabase or
	// ValidSample.
	ErrName = errors.New("not a usable name")
	// ErrKind says that a field holds values of another kind than the one given.
	ErrKind = errors.New("the field is of another kind")
	// ErrInvalid says that a request, a sample or a line of text can't be understood.
	ErrInvalid = errors.New("not valid")
	// ErrTooLarge says that an answer, a line or a batch exceeds its bound.
	ErrTooLarge = errors.New("too large")
)

// DefaultWindow is what an aggregate covers unless told otherwise.
const DefaultWindow = 24 * time.Hour

// DefaultLimit is the number of points of a series unless told otherwise.
const DefaultLimit = 5000

// Key names a field of a measurement.
type Key struct{ Measurement, Field string }

// String returns the key as it stands in an error text.
func (k Key) String() string { return fmt.Sprintf("%.80q.%.80q", k.Measurement, k.Field) }

// Kind is the type of a field.
type Kind uint8

// The kinds of fields.
const (
	Float Kind = iota + 1
	Integer
	Boolean
	Text
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case Float:
		return "float"
	case Integer:
		return "integer"
	case Boolean:
		return "boolean"
	case Text:
		return "text"
	}
	return "unknown"
}

// KindOf returns the kind of a Go value that a sample may hold. ErrInvalid if
// it is none of float64, int64, bool and string.
func KindOf(value any) (Kind, error) {
	switch value.(type) {
	case float64:
		return Float, nil
	case int64:
		return Integer, nil
	case bool:
		return Boolean, nil
	case string:
		return Text, nil
	}
	return 0, fmt.Errorf("%w: a value of type %T", ErrInvalid, value)
}

// Aggregate is how several points become one value.
type Aggregate uint8

// The aggregates; Last is the zero value.
const (
	Last Aggregate = iota
	Mean
	Max
	Min
	Sum
)

// String returns the aggregate's name.
func (a Aggregate) String() string {
	switch a {
	case Last:
		return "last"
	case Mean:
		return "mean"
	case Max:
		return "max"
	case Min:
		return "min"
	case Sum:
		return "sum"
	}
	return "unknown"
}

// Want asks for one current value.
type Want struct {
	Key
	Aggregate Aggregate
	// Window is what an aggregate covers: the points later than the clock minus
	// Window. Zero stands for DefaultWindow. Last looks at all of time and takes
	// no notice of it.
	Window time.Duration
	// Timed asks when a last value was measured, too, which may make the question
	// slower.
	Timed bool
}

// Normal returns the want with its default filled in, so that equal questions
// are equal values.
func (w Want) Normal() Want {
	switch {
	case w.Aggregate == Last:
		w.Window = 0
		return w
	case w.Window == 0:
		w.Window = DefaultWindow
	}
	w.Timed = false
	return w
}

// Value is a number with its time, or missing.
type Value struct {
	Number float64
	// Time is when a last value was measured, zero unless Want.Timed; for an
	// aggregate it is the end of its window.
	Time time.Time
	// Found is false where there is no value; the rest is then zero.
	Found bool
}

// Range asks for one series of values, one a window.
type Range struct {
	Key
	Start, Stop time.Time // from Start until just before Stop
	// Every is the length of a window. Windows are counted from 1970-01-01 UTC.
	Every time.Duration
	Limit int // at most so many points, the newest; zero stands for DefaultLimit
}

// Points returns the largest number of points that a valid range may have: its
// limit, or the number of its windows if that is smaller.
func (r Range) Points() int {
	limit := cmp.Or(r.Limit, DefaultLimit)
	length := uint64(r.Stop.UnixNano()) - uint64(r.Start.UnixNano()) // may be above math.MaxInt64
	if windows := (length-1)/uint64(r.Every) + 2; length > 0 && windows < uint64(limit) {
		return int(windows)
	}
	return limit
}

// Point is the value of one window.
type Point struct {
	Time   time.Time // the window's start, which may lie before Range.Start
	Number float64   // the mean; of booleans the last
}

// Result is one series.
type Result struct {
	Points    []Point // in order of time; an empty window has none
	Truncated bool    // there are older points, past the limit
}

// Sample is what was measured at one place and time.
type Sample struct {
	Measurement string
	Tags        map[string]string
	Fields      map[string]any // float64, int64, bool or string
	Time        time.Time
}

// Reader answers questions about values. All methods may be called concurrently.
type Reader interface {
	// Current returns a value for each want, in their order. ErrName or
	// ErrInvalid if one of them can't be asked for; nothing is asked then.
	Current(ctx context.Context, database string, wants []Want) ([]Value, error)

	// Series returns a result for each range, in their order. ErrName or
	// ErrInvalid if one of them can't be asked for.
	Series(ctx context.Context, database string, ranges []Range) ([]Result, error)
}

// Store is what every adapter offers. All methods may be called concurrently.
type Store interface {
	Reader

	// Fields returns the kinds of all fields of a database.
	Fields(ctx context.Context, database string) (map[Key]Kind, error)

	// Write stores samples; each must pass ValidSample, or nothing is stored.
	// A point of the same measurement, tags, field and time is replaced. ErrKind
	// if a field is of another kind; what is stored of the other samples is then
	// up to the database, and writing them again changes nothing.
	Write(ctx context.Context, database string, samples []Sample) error

	// Create makes a database; where it stands already it does nothing.
	Create(ctx context.Context, database string) error

	// Ping reports whether the database answers.
	Ping(ctx context.Context) error
}
