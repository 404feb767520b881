package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"tsmon/api/monitor/times"
	"tsmon/api/web"
	"tsmon/store/series"
)

const (
	// maxPoints bounds the points of all series of one request.
	maxPoints = 400_000
	// maxHeld bounds the points that all requests hold at a time, about 32 bytes each.
	maxHeld = 3_000_000
	// partReads is about how many points are read at a time: a light question may have to
	// wait for that many. partPoints is about how many are answered, and held in memory.
	partReads, partPoints = 1_000_000, 50_000
	// density is the assumed time between two values, to estimate what a question costs.
	density = time.Minute
)

// seriesAnswer is the answer to a series query. It is read part by part, and written as
// it is read once it is certain what its headers are and that it is not too large.
type seriesAnswer struct {
	values   *values
	database string
	clock    times.Clock
	keys     map[string]bool // those that have been added
	empty    []string        // keys of series that can't be asked for
	problems problems
	long     []part     // to read, of series that may have to be truncated
	whole    []part     // to read, of others
	held     []part     // read and not yet written
	next     *turn      // to read the next part, unless none was read
	release  func()     // gives back the room and the turn that this answer holds
	cut      headerList // keys of series that were truncated
}

// part is a group of series that are read together.
type part struct {
	keys    []string
	ranges  []series.Range
	reads   int64 // points that the store may have to read
	points  int   // that the series may have
	results []series.Result
}

func newSeriesAnswer(v *values, database string, texts times.Clock) *seriesAnswer {
	return &seriesAnswer{values: v, database: database, clock: texts, keys: map[string]bool{}}
}

// add adds a series, unless its key has been added: then it is the same.
func (a *seriesAnswer) add(key string, r series.Range) {
	if a.keys[key] {
		return
	}
	a.keys[key] = true
	if err := series.ValidRanges([]series.Range{r}); err != nil {
		a.problems.add(key, err.Error())
		a.empty = append(a.empty, key)
		return
	}
	into := &a.whole
	if r.Points() >= series.DefaultLimit {
		into = &a.long
	}
	points, reads := r.Points(), weight(r, a.values.Now())
	if last := len(*into) - 1; last < 0 || (*into)[last].reads+reads > partReads || (*into)[last].points+points > partPoints {
		*into = append(*into, part{})
	}
	p := &(*into)[len(*into)-1]
	p.keys, p.ranges = append(p.keys, key), append(p.ranges, r)
	p.reads += reads
	p.points += points
}

// weight estimates how many points a store reads for a range.
func weight(r series.Range, now time.Time) int64 {
	stop := r.Stop
	if now.Before(stop) {
		stop = now
	}
	return max(int64(stop.Sub(r.Start)/density), int64(r.Points()))
}

// begin reads until the answer can be written as it comes: at least one part, all that
// may be truncated, and everything if there might be too many points.
func (a *seriesAnswer) begin(ctx context.Context) error {
	might := 0
	for _, p := range slices.Concat(a.long, a.whole) {
		might += p.points
	}
	room := int64(min(might, 2*partPoints)) // a part that is written, and the next one
	if might > maxPoints || len(a.long) > 0 {
		room = int64(min(might, maxPoints))
	}
	wait, cancel := context.WithTimeout(ctx, a.values.Deadline/2) // what begins later would not end in its time
	defer cancel()
	if err := a.values.room.Acquire(wait, room); err != nil {
		return busyOr(err)
	}
	a.release = sync.OnceFunc(func() {
		if a.next != nil {
			a.values.turns.forget(a.next)
		}
		a.values.room.Release(room)
	})
	begun := false
	defer func() {
		if !begun {
			a.release()
		}
	}()
	there := 0
	for a.left() > 0 && (len(a.held) == 0 || len(a.long) > 0 || there+might > maxPoints) {
		p, err := a.read(ctx, wait)
		if err != nil {
			return err
		}
		wait = ctx
		might -= p.points
		there += a.hold(p)
		if there > maxPoints {
			return web.Invalid("the series have more than %d points together: ask for fewer series or a longer samplingPeriod", maxPoints)
		}
	}
	begun = true
	return nil
}

// hold keeps a part that was read, and returns how many points it has.
func (a *seriesAnswer) hold(p part) (points int) {
	for i, result := range p.results {
		points += len(result.Points)
		if result.Truncated {
			a.cut.add(url.QueryEscape(p.keys[i]))
		}
	}
	a.held = append(a.held, p)
	return points
}

// left returns about how many points are still to read.
func (a *seriesAnswer) left() (points int64) {
	for _, p := range slices.Concat(a.long, a.whole) {
		points += p.reads
	}
	return points
}

// read reads the next part. It may wait for its turn until wait ends.
func (a *seriesAnswer) read(ctx, wait context.Context) (part, error) {
	if a.next == nil {
		a.next = a.turn()
	}
	now := a.next
	if err := a.values.turns.take(wait, now); err != nil {
		return part{}, busyOr(err)
	}
	from := a.from()
	p := (*from)[0]
	*from = (*from)[1:]
	a.next = a.turn()
	defer a.values.turns.give(now, a.next)
	var err error
	p.results, err = a.values.store.Series(ctx, a.database, p.ranges)
	return p, err
}

// from returns the list that the next part is taken from.
func (a *seriesAnswer) from() *[]part {
	if len(a.long) > 0 {
		return &a.long
	}
	return &a.whole
}

// turn returns a turn for the next part, nil if there is none.
func (a *seriesAnswer) turn() *turn {
	if parts := *a.from(); len(parts) > 0 {
		return newTurn(a.database, parts[0].reads, a.left())
	}
	return nil
}

// busyOr returns errBusy if waiting for other requests took too long, else err.
func busyOr(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errBusy
	}
	return err
}

// SetHeader implements web.Header.
func (a *seriesAnswer) SetHeader(h http.Header) {
	a.cut.set(h, truncatedHeader)
	a.problems.SetHeader(h)
}

// Stream implements web.Stream. While a part is written the next one is read, so that a
// question that has begun goes on before those that have not, and ends in its time.
func (a *seriesAnswer) Stream(ctx context.Context, w io.Writer) error {
	defer a.release()
	ctx, cancel := context.WithCancel(ctx)
	parts, failed := a.readAhead(ctx)
	defer func() {
		cancel()
		for range parts { // until the reader has ended
		}
	}()
	out := seriesWriter{out: w, clock: a.clock, next: `{"data":{`}
	for _, key := range a.empty {
		out.series(key, nil, 0)
	}
	held := a.held
	a.held = nil
	for len(held) > 0 && out.err == nil {
		out.part(held[0])
		held = held[1:]
	}
	if out.err != nil {
		return out.err // before a part is taken, in whose place another would be read
	}
	for p := range parts {
		if out.part(p); out.err != nil {
			return out.err
		}
	}
	if *failed != nil {
		return *failed
	}
	if out.next != "," {
		out.write([]byte(out.next))
	}
	out.write([]byte("}}\n"))
	return out.err
}

// readAhead reads the parts that are left, one more than was received. The error is set
// once parts is closed.
func (a *seriesAnswer) readAhead(ctx context.Context) (parts <-chan part, failed *error) {
	into := make(chan part)
	failed = new(error)
	go func() {
		defer close(into)
		*failed = web.Safely(ctx, func(ctx context.Context) error {
			for a.left() > 0 {
				p, err := a.read(ctx, ctx)
				if err != nil {
					return err
				}
				select {
				case into <- p:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	}()
	return into, failed
}

// seriesWriter writes series as the members of an object.
type seriesWriter struct {
	out   io.Writer
	clock times.Clock
	next  string // before the next member
	line  []byte
	err   error // the first one
}

func (s *seriesWriter) write(text []byte) {
	if s.err == nil {
		_, s.err = s.out.Write(text)
	}
}

func (s *seriesWriter) part(p part) {
	for i, result := range p.results {
		s.series(p.keys[i], result.Points, p.ranges[i].Every)
	}
}

// series writes one series. A point has its time as text, its value, and its time in
// milliseconds since 1970.
func (s *seriesWriter) series(key string, points []series.Point, every time.Duration) {
	name, _ := json.Marshal(key) // a string can be marshalled
	s.line = append(append(append(s.line[:0], s.next...), name...), ":["...)
	s.next = ","
	for i, p := range points {
		if i > 0 {
			s.line = append(s.line, ',')
		}
		s.line = append(s.line, `{"time":`...)
		s.line = s.appendTime(s.line, p.Time, every%time.Minute != 0)
		s.line = append(s.line, `,"value":`...)
		s.line = appendNumber(s.line, p.Number)
		s.line = append(s.line, `,"ts":`...)
		s.line = append(strconv.AppendInt(s.line, p.Time.UnixMilli(), 10), '}')
		s.write(s.line)
		s.line = s.line[:0]
	}
	s.write(append(s.line, ']'))
}

// appendTime appends the time text as a JSON string. A layout may hold what JSON escapes.
func (s *seriesWriter) appendTime(dst []byte, t time.Time, seconds bool) []byte {
	start := len(dst)
	dst = append(s.clock.AppendText(append(dst, '"'), t, seconds), '"')
	for _, c := range dst[start+1 : len(dst)-1] {
		if c < ' ' || c == '"' || c == '\\' {
			text, _ := json.Marshal(string(dst[start+1 : len(dst)-1])) // a string can be marshalled
			return append(dst[:start], text...)
		}
	}
	return dst
}

// appendNumber appends a number as encoding/json does, but 0 for -0.
func appendNumber(dst []byte, n float64) []byte {
	format := byte('f')
	if size := math.Abs(n); size != 0 && (size < 1e-6 || size >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, n+0, format, -1, 64)
}
