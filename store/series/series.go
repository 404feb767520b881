// Package series defines the time-series store that holds tenants' measurements.
//
// A database belongs to one tenant. A Key, a field of a measurement, names values in it. A
// key may have several tag sets, each a series of its own, which readers see merged: the
// last value is the one with the latest time, or the greater of two with the same time;
// mean, sum, min and max cover all tag sets.
//
// A field has one Kind. Booleans read as 1 and 0, so that their mean is the share
// of true and their sum the number of true. Integers read as the nearest float64.
// Text is stored but never returned as a value.
//
// The adapters sqlite and influx pass the suite in seriestest. They guarantee:
//
//   - Only measured values are returned. A key that was never written, a tag's
//     name, a text field or an empty window is missing, which is not an error. A
//     database that can't be read is an error, never an empty answer.
//   - No part of a name is ever interpreted as a query.
//   - No value is later than the reader's clock, so that one wrong clock in the
//     field does not hide all later values.
//   - A store reads what it has written.
//   - A batch takes one round trip, except for last values that lie far back.
//   - Waits are bounded by the context and the adapter's timeouts. The size of
//     answers is bounded too.
//   - Errors match the sentinels of this package or fs.ErrPermission.
//
// A database keeps its values for ever, or deletes those that are older than its
// retention. It keeps rollups of them RollupFactor times as long: count, sum, minimum and
// maximum of each hour, or of each half or quarter of an hour where the days of its zone
// begin there. Series uses them for windows that begin and end at such times, as if the
// values were still there: sums differ by 1e-12 at most.
package series

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

var (
	// ErrUnavailable says that the database could not be reached or did not
	// answer in time; the same call may work later.
	ErrUnavailable = errors.New("the time-series database does not answer")
	// ErrSlow says that the database was reached but did not answer in time. It matches
	// ErrUnavailable too.
	ErrSlow error = slow{}
	// ErrNoDatabase says that no database has this name.
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
	// ErrExpired says that values are older than the database keeps any.
	ErrExpired = errors.New("older than the database keeps values")
)

const (
	// DefaultWindow is what an aggregate covers by default.
	DefaultWindow = 24 * time.Hour
	// DefaultLimit is the number of points that a series has at most by default.
	DefaultLimit = 5000
)

type slow struct{}

func (slow) Error() string { return "the time-series database did not answer in time" }

func (slow) Is(target error) bool { return target == ErrUnavailable }

// Key names a field of a measurement.
type Key struct{ Measurement, Field string }

// String returns the key, shortened, for error messages.
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

func (k Kind) String() string {
	return [...]string{"unknown", "float", "integer", "boolean", "text"}[k]
}

// KindOf returns the kind of a float64, int64, bool or string, or ErrInvalid for any other
// type.
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

func (a Aggregate) String() string { return [...]string{"last", "mean", "max", "min", "sum"}[a] }

// Want asks for one current value.
type Want struct {
	Key
	Aggregate Aggregate
	// Window is how far back an aggregate reaches from the clock, exclusive; zero
	// means DefaultWindow. Last ignores it.
	Window time.Duration
	Timed  bool // return the time of a last value, which may be slower
}

// Normal returns the want in the one form that all wants of the same meaning have.
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

// Range asks for a series of values, one for each window of time.
type Range struct {
	Key
	Start, Stop time.Time // from Start until just before Stop
	// Every is the length of a window. Windows start at multiples of it since 1970 in
	// UTC. Those of whole days start at a midnight in Zone and are counted from
	// 1970-01-01 there, those of whole weeks at a Monday's; where the clocks change, one
	// of them is shorter or longer. Spans returns them.
	Every time.Duration
	Zone  *time.Location // nil means UTC
	Limit int            // of points, the newest of which are returned; zero means DefaultLimit
}

// Points returns how many points a valid range can have at most: its limit, or the number
// of its windows if that is smaller.
func (r Range) Points() int {
	limit := cmp.Or(r.Limit, DefaultLimit)
	length := uint64(r.Stop.UnixNano()) - uint64(r.Start.UnixNano()) // may be above math.MaxInt64
	windows := (length-1)/uint64(r.Every) + 2
	if r.Every%day == 0 {
		windows += 2 // days that are shorter, and one that a zone may skip
	}
	if length > 0 && windows < uint64(limit) {
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

// NewestFirst returns the result for points that are newest first. An adapter reads one
// more than limit, to learn whether there are more.
func NewestFirst(points []Point, limit int) Result {
	kept := points[:min(len(points), limit)]
	slices.Reverse(kept)
	return Result{Points: kept, Truncated: len(points) > limit}
}

// Sample is what was measured at one place and time.
type Sample struct {
	Measurement string
	Tags        map[string]string
	Fields      map[string]any // float64, int64, bool or string
	Time        time.Time
}

// Reader reads values. All methods may be called concurrently.
type Reader interface {
	// Current returns a value for each want, in their order. ErrName or ErrInvalid
	// if one of them is not valid.
	Current(ctx context.Context, database string, wants []Want) ([]Value, error)

	// Series returns a result for each range, in their order. ErrName or ErrInvalid
	// if one of them is not valid.
	Series(ctx context.Context, database string, ranges []Range) ([]Result, error)
}

// Store is what every adapter offers. All methods may be called concurrently.
type Store interface {
	Reader

	// Fields returns the kinds of all fields of a database.
	Fields(ctx context.Context, database string) (map[Key]Kind, error)

	// Write stores samples, or none of them if one fails ValidSample. It replaces points
	// with the same measurement, tags, field and time. The error is ErrKind if a field has
	// another kind: the other samples may then be stored, and can be written again. It is
	// ErrExpired if some are older than the database keeps values: all others are stored.
	Write(ctx context.Context, database string, samples []Sample) error

	// Create creates a database if it does not exist.
	Create(ctx context.Context, database string) error

	// Keep sets how long a database keeps values, and begins to delete older ones.
	// ErrInvalid unless ValidKeeping passes.
	Keep(ctx context.Context, database string, k Keeping) error

	// CountBefore returns how many values a database holds from before a time.
	CountBefore(ctx context.Context, database string, t time.Time) (int64, error)

	// Ping reports whether the server answers.
	Ping(ctx context.Context) error

	// TryWrite writes something that no reader sees. It fails if the disk is full or
	// read-only.
	TryWrite(ctx context.Context, database string) error
}
