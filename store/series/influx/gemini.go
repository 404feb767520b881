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

// gemini handles the differences between openGemini and InfluxDB:
//
//   - Parameters can't replace names. Names are quoted and escaped instead.
//   - The cast "i"::float of an integer field returns a wrong number. Integers are read as
//     integers, so their sums and means overflow beyond 64 bits. OpenGemini stores an
//     integer as the nearest float64, and 2^63-512 or more as a negative number.
//   - With the newest windows first, last() returns the first value of each window. Such
//     queries read the oldest first, limited only by the size of the answer. On a busy
//     machine an answer began with windows before the requested start: those are dropped.
//   - A statement fails if one of its measurements is gone, so each has one measurement.
//   - A new series becomes readable a second or two after it is written. So does a series
//     with its first value of a week. Writes wait until the values can be read.
//   - If a request has two values of one series and time, openGemini keeps either. The
//     earlier one is not sent.
//   - Nothing can be deleted. Rollups cover quarters of an hour in every zone, so none have
//     to be deleted when the zone changes.
//   - Times before 1970 are refused.
//   - Names have at most 250 bytes. A database has no dot in its name, a measurement none of
//     , ; / \ and no unprintable character, and a tag or field neither " nor .* in it.
//   - A tag can't have the name of a field of its measurement.
//
// A sample that openGemini can't store is refused with ErrInvalid or ErrName before anything
// is sent. The error is ErrKind for a tag with the name of an earlier sample's field.
type gemini struct {
	is atomic.Bool // the server is openGemini; set by its first answer

	mu   sync.Mutex
	seen map[place]bool
}

// place is a series in one week. A cluster has an index for each week.
type place struct {
	database string
	series   string // measurement and tags, as in line protocol
	week     int64
}

const (
	maxGeminiName = 250 // bytes

	maxSeen      = 1 << 17 // places remembered as readable
	visibleAfter = 20 * time.Second
	lookAgain    = 100 * time.Millisecond
	perLook      = 500 // statements per request
)

// recognise detects openGemini by the header of an answer.
func (g *gemini) recognise(h http.Header) {
	if _, ok := h["X-Geminidb-Version"]; ok {
		g.is.Store(true)
	}
}

// quote returns a name as an identifier.
func quote(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(name) + `"`
}

// newest returns the end of a statement. The statement reads the newest windows first, one
// more than the limit; for last() on openGemini it reads all windows, oldest first.
func (q *query) newest(columns string, limit int) string {
	if q.gemini && strings.HasPrefix(columns, "last(") {
		return "ORDER BY time ASC"
	}
	return fmt.Sprintf("ORDER BY time DESC LIMIT %d", limit+1)
}

// rollupsOf returns the name of the database that holds the rollups of a database.
func (s *server) rollupsOf(database string) string {
	if s.gemini.is.Load() {
		return database + "~" + series.RollupsSuffix[1:]
	}
	return database + series.RollupsSuffix
}

// grain returns the length of the windows of a new rollup.
func (s *server) grain(zone *time.Location) time.Duration {
	if s.gemini.is.Load() {
		return 15 * time.Minute
	}
	return series.Grain(zone)
}

// isColumn reports whether a tag or field with this name can be read back.
func isColumn(name string) bool {
	return len(name) <= maxGeminiName && !strings.Contains(name, `"`) && !strings.Contains(name, ".*")
}

const badColumn = `%w: openGemini can't store the tag or field %.80q of %.80q: it has a " or .*, or more than %d bytes`

// storable returns an error for the first sample that openGemini can't store.
func (g *gemini) storable(samples []series.Sample) error {
	for _, sample := range samples {
		bad := func(c rune) bool { return strings.ContainsRune(`,;/\`, c) || !unicode.IsPrint(c) }
		if m := sample.Measurement; strings.ContainsFunc(m, bad) || m == "." || m == ".." || len(m) > maxGeminiName {
			return fmt.Errorf(`%w: openGemini can't store the measurement %.80q: it has one of , ; / \, an unprintable character, or more than %d bytes`, series.ErrName, m, maxGeminiName)
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
				return fmt.Errorf("%w: openGemini can't store a tag and a field of the same name: %.80q of %.80q", series.ErrName, field, sample.Measurement)
			}
			if n, ok := value.(int64); ok && float64(n) >= math.MaxInt64 {
				return fmt.Errorf("%w: openGemini can't store the integer %d: %.80q of %.80q", series.ErrInvalid, n, field, sample.Measurement)
			}
		}
		if sample.Time.UnixNano() < 0 {
			return fmt.Errorf("%w: openGemini can't store a time before 1970: %.80q at %s", series.ErrInvalid, sample.Measurement, sample.Time.UTC())
		}
	}
	return nil
}

// look queries all series of a measurement that have a value at one time.
type look struct {
	series.Key
	kind series.Kind
	at   int64
}

// unseen returns the places that may not be readable yet, grouped by the query that checks
// them.
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
		for field, value := range sample.Fields { // the first by name, so that samples share a look
			if l.Field == "" || field < l.Field {
				l.Field = field
				l.kind, _ = series.KindOf(value) // the samples were checked before
			}
		}
		if found[l] == nil {
			found[l] = map[place]bool{}
		}
		found[l][p] = true
	}
	return found
}

// latest removes the values that a later sample of the same series and time replaces. It
// returns nil if there are none.
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

// awaitKept is awaitVisible. If expired is set, it doesn't wait for samples older than the
// retention.
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

// awaitVisible waits until all series of written samples can be read. It returns
// ErrUnavailable if that takes longer than visibleAfter.
func (s *server) awaitVisible(ctx context.Context, database string, samples []series.Sample) error {
	missing := s.gemini.unseen(database, samples)
	if len(missing) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, visibleAfter, fmt.Errorf("the written samples can't be read yet: %w", series.ErrUnavailable))
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

// lookFor removes from missing the places that can be read.
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
				if value == "" { // only other series have the tag
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
