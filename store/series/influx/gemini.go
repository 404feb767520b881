package influx

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"tsmon/store/series"
)

// OpenGemini speaks InfluxQL and line protocol with differences, all of which are handled
// in this file:
//
//   - Parameters can't stand for names. Names are quoted and escaped.
//   - "i"::float of an integer field is a wrong number. Integers are read as integers, so
//     sums and means of them beyond 64 bits overflow. It stores integers as the nearest
//     float64, and 2^63-512 or more as a negative one.
//   - With the newest windows first, last() is the first value of each window. Such answers
//     are read oldest first, with no limit but that of their size. On a busy machine one
//     began with windows before the time that was asked from: those are left out.
//   - A measurement that is gone fails a statement, so each statement has one measurement.
//   - A new series can be read a second or two after it was written, and again when it
//     has its first value of a week. Writes wait for that.
//   - Of two values of one series and time in one request it keeps either. The earlier is
//     left out.
//   - Nothing can be deleted. Rollups are of quarters of an hour in every zone, so that none
//     have to be deleted when the zone changes.
//   - It takes no times before 1970, no dots in the names of databases, neither , ; / \ nor
//     unprintable characters in those of measurements, neither " nor .* in those of tags and
//     fields, no name of more than 250 bytes, and no tag with the name of a field of its
//     measurement. Such samples are ErrInvalid or ErrName, and nothing is sent; for a tag
//     with the name of an earlier sample's field the error is ErrKind.
type gemini struct {
	is atomic.Bool // the server is one; known once it has answered

	mu   sync.Mutex
	seen map[place]bool
}

// place is a series in a week: a cluster has an index for each week.
type place struct {
	database string
	series   string // measurement and tags, as in line protocol
	week     int64
}

const (
	maxGeminiName = 250 // bytes

	maxSeen      = 1 << 17 // places that are remembered as readable
	visibleAfter = 20 * time.Second
	lookAgain    = 100 * time.Millisecond
	perLook      = 500 // statements of a request
)

// recognise reads from the header of an answer whether the server is openGemini.
func (g *gemini) recognise(h http.Header) {
	if _, ok := h["X-Geminidb-Version"]; ok {
		g.is.Store(true)
	}
}

// quote returns a name as an identifier.
func quote(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(name) + `"`
}

// newest ends a statement: with the newest windows first, one more than the limit, or
// with all of them, oldest first.
func (q *query) newest(columns string, limit int) string {
	if q.gemini && strings.HasPrefix(columns, "last(") {
		return "ORDER BY time ASC"
	}
	return fmt.Sprintf("ORDER BY time DESC LIMIT %d", limit+1)
}

// rollupsOf returns the name of the database with the rollups of another.
func (s *server) rollupsOf(database string) string {
	if s.gemini.is.Load() {
		return database + "~" + series.RollupsSuffix[1:]
	}
	return database + series.RollupsSuffix
}

// grain returns how long the parts of an hour are that a new rollup has.
func (s *server) grain(zone *time.Location) time.Duration {
	if s.gemini.is.Load() {
		return 15 * time.Minute
	}
	return series.Grain(zone)
}

// isColumn reports whether a tag or field of that name can be read back.
func isColumn(name string) bool {
	return len(name) <= maxGeminiName && !strings.Contains(name, `"`) && !strings.Contains(name, ".*")
}

const badColumn = `%w: openGemini takes no tag or field %.80q, of %.80q, which has a " or .* or more than %d bytes`

// storable reports the first sample that openGemini can't store.
func (g *gemini) storable(samples []series.Sample) error {
	for _, sample := range samples {
		bad := func(c rune) bool { return strings.ContainsRune(`,;/\`, c) || !unicode.IsPrint(c) }
		if m := sample.Measurement; strings.ContainsFunc(m, bad) || m == "." || m == ".." || len(m) > maxGeminiName {
			return fmt.Errorf(`%w: openGemini takes no measurement %.80q, which has one of , ; / \, or what can't be printed, or more than %d bytes`, series.ErrName, m, maxGeminiName)
		}
		for tag := range sample.Tags {
			if !isColumn(tag) {
				return fmt.Errorf(badColumn, series.ErrName, tag, sample.Measurement, maxGeminiName)
			}
		}
		for field, value := range sample.Fields {
			if !isColumn(field) {
				return fmt.Errorf(badColumn, series.ErrName, field, sample.Measurement, maxGeminiName)
			}
			if _, ok := sample.Tags[field]; ok {
				return fmt.Errorf("%w: openGemini takes no tag named as a field: %.80q of %.80q", series.ErrName, field, sample.Measurement)
			}
			if n, ok := value.(int64); ok && float64(n) >= math.MaxInt64 {
				return fmt.Errorf("%w: openGemini takes no integer of %d, in %.80q of %.80q", series.ErrInvalid, n, field, sample.Measurement)
			}
		}
		if sample.Time.UnixNano() < 0 {
			return fmt.Errorf("%w: openGemini takes no value from before 1970, as of %.80q at %s", series.ErrInvalid, sample.Measurement, sample.Time.UTC())
		}
	}
	return nil
}

// look is a question for all series of a measurement that have a value at a time.
type look struct {
	series.Key
	kind series.Kind
	at   int64
}

// unseen returns the places that may not be readable yet, by the question that finds out.
func (g *gemini) unseen(database string, samples []series.Sample) map[look]map[place]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := map[look]map[place]bool{}
	begun := map[place]bool{}
	for _, sample := range samples {
		p := placeOf(database, sample)
		if g.seen[p] || begun[p] {
			continue
		}
		begun[p] = true
		l := look{Key: series.Key{Measurement: sample.Measurement}, at: sample.Time.UnixNano()}
		for field, value := range sample.Fields { // the first in order, so that statements are shared
			if l.Field == "" || field < l.Field {
				l.Field = field
				l.kind, _ = series.KindOf(value) // which was checked
			}
		}
		if found[l] == nil {
			found[l] = map[place]bool{}
		}
		found[l][p] = true
	}
	return found
}

// latest returns samples without the values that a later one of the same series and time
// replaces, or nil if there are no such values.
func latest(samples []series.Sample) []series.Sample {
	type cell struct {
		series, field string
		nanosecond    int64
	}
	seen := map[cell]bool{}
	kept := make([]series.Sample, 0, len(samples))
	replaced := false
	for _, s := range slices.Backward(samples) {
		of := string(series.AppendTags([]byte(s.Measurement), s.Tags))
		fields := make(map[string]any, len(s.Fields))
		for name, value := range s.Fields {
			c := cell{of, name, s.Time.UnixNano()}
			if seen[c] {
				replaced = true
				continue
			}
			seen[c], fields[name] = true, value
		}
		if s.Fields = fields; len(fields) > 0 {
			kept = append(kept, s)
		}
	}
	if !replaced {
		return nil
	}
	slices.Reverse(kept)
	return kept
}

func placeOf(database string, s series.Sample) place {
	return place{database, string(series.AppendTags([]byte(s.Measurement), s.Tags)), s.Time.Truncate(7 * day).Unix()}
}

// saw records that places can be read.
func (g *gemini) saw(places map[place]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen == nil || len(g.seen) >= maxSeen {
		g.seen = map[place]bool{}
	}
	maps.Copy(g.seen, places)
}

// awaitKept is awaitVisible, without samples that have expired if there are any.
func (s *server) awaitKept(ctx context.Context, database string, samples []series.Sample, expired bool) error {
	if expired {
		retention, _, err := s.retention(ctx, database)
		if err != nil {
			return err
		}
		border := time.Now().Add(lookAgain - retention)
		samples = slices.DeleteFunc(slices.Clone(samples), func(sample series.Sample) bool { return sample.Time.Before(border) })
	}
	return s.awaitVisible(ctx, database, samples)
}

// awaitVisible waits until all series of samples that were written can be read;
// ErrUnavailable if they can't after visibleAfter.
func (s *server) awaitVisible(ctx context.Context, database string, samples []series.Sample) error {
	missing := s.gemini.unseen(database, samples)
	if len(missing) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, visibleAfter, fmt.Errorf("what was written can't be read yet: %w", series.ErrUnavailable))
	defer cancel()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		if err := s.lookFor(ctx, database, missing); err != nil || len(missing) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// lookFor removes the places that can be read from missing.
func (s *server) lookFor(ctx context.Context, database string, missing map[look]map[place]bool) error {
	q := s.query()
	var looks []look
	for l := range missing {
		q.add(fmt.Sprintf("SELECT last(%s) FROM %s WHERE time = %d GROUP BY *", typed(&q, l.Field, l.kind), q.bind(l.Measurement), l.at))
		if looks = append(looks, l); len(looks) == perLook {
			break
		}
	}
	rows, err := s.ask(ctx, database, q)
	if err != nil {
		return err
	}
	for i, l := range looks {
		there := map[place]bool{}
		for _, r := range rows[i] {
			for tag, value := range r.Tags {
				if value == "" { // that other series have
					delete(r.Tags, tag)
				}
			}
			p := placeOf(database, series.Sample{Measurement: l.Measurement, Tags: r.Tags, Time: time.Unix(0, l.at)})
			there[p] = true
			delete(missing[l], p)
		}
		s.gemini.saw(there)
		if len(missing[l]) == 0 {
			delete(missing, l)
		}
	}
	return nil
}
