package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"tsmon/store/series"
	"tsmon/store/sqlitefile"
)

// dayOf returns the day of a time, counted from 1970-01-01.
func dayOf(time int64) int64 {
	day := time / dayLength
	if time%dayLength < 0 {
		day--
	}
	return day
}

// blockID returns the ID of the block of a series and day. Blocks of a series lie in the
// order of their days.
func blockID(stream, day int64) int64 { return stream<<18 | (day + 1<<17) }

func dayOfBlock(id int64) int64 { return id&(1<<18-1) - 1<<17 }

// Chunks of the days that a period touches; no chunk is longer than a day.
const (
	chunksOf = `
SELECT last - span, write, data FROM chunks
WHERE stream = ? AND last >= ? AND last < ? AND last - span < ?
ORDER BY write`
	blocksOf  = "SELECT id, data FROM blocks WHERE id BETWEEN ? AND ? ORDER BY id DESC"
	rollupsOf = "SELECT id, parts, data FROM rollups WHERE id BETWEEN ? AND ? ORDER BY id DESC"
	isBlock   = "SELECT EXISTS (SELECT 1 FROM blocks WHERE id = ?)"
	streamsOf = `
SELECT s.id, f.kind FROM fields f CROSS JOIN streams s ON s.field = f.id
WHERE f.database = ? AND f.measurement = ? AND f.name = ? AND f.kind <> ?`
)

type scanner struct {
	statements
	database       int64
	buffer, merged []point
	parts          []window
}

type source struct {
	id   int64
	kind series.Kind
}

// sources returns the series that a statement finds.
func (s *scanner) sources(ctx context.Context, text string, args ...any) (all []source, err error) {
	err = s.each(ctx, func(r sqlitefile.Row) error {
		var one source
		err := r.Scan(&one.id, &one.kind)
		all = append(all, one)
		return err
	}, text, args...)
	return all, err
}

// sourcesOf returns the series of a field that holds no text.
func (s *scanner) sourcesOf(ctx context.Context, key series.Key) ([]source, error) {
	return s.sources(ctx, streamsOf, s.database, key.Measurement, key.Field, series.Text)
}

// visitor takes the points of a series, or what they amount to in parts of a day: the
// newest first, but each slice in order of time, until it returns errEnough. A slice is the
// visitor's until it returns.
type visitor struct {
	points func([]point) error
	parts  func([]window) error // nil: every point is needed
	even   int64                // nanoseconds; parts whose length divides it lie in one window each
	every  int64                // nanoseconds; parts of deleted points are of use if their length divides it
}

// errEnough says that a visitor needs no more.
var errEnough = errors.New("enough")

// scan shows a visitor the points of a series from start until just before stop. Of a
// day whose points are deleted it shows the parts that lie wholly in that period, even if
// a window ends within a part, as after a change of the zone: none can be made anew.
func (s *scanner) scan(ctx context.Context, of source, start, stop int64, v visitor) error {
	if start >= stop {
		return nil
	}
	loose, err := s.loose(ctx, of, start, stop)
	if err == nil && v.parts != nil {
		loose, stop, err = s.scanRollups(ctx, of, start, stop, loose, v)
	}
	if err == nil {
		err = s.scanBlocks(ctx, of, start, stop, loose, v)
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// serves reports whether to show parts of a day's rollup instead of points: they amount to
// the same, or the points are deleted.
func (s *scanner) serves(ctx context.Context, id int64, perHour int, start, stop int64, v visitor) (bool, error) {
	if perHour < 1 || perHour > maxParts {
		return false, errDamaged
	}
	length := hourLength / int64(perHour)
	switch {
	case v.even%length == 0 && start%length == 0 && stop%length == 0:
		return true, nil
	case v.every%length != 0:
		return false, nil
	}
	var block bool
	err := s.each(ctx, func(r sqlitefile.Row) error { return r.Scan(&block) }, isBlock, id)
	return !block, err
}

// scanRollups shows the days of a period that have a rollup and no loose points, and
// what lies between. It returns what is left of the period: its loose points and its end.
func (s *scanner) scanRollups(ctx context.Context, of source, start, stop int64, loose []point, v visitor) ([]point, int64, error) {
	err := s.each(ctx, func(r sqlitefile.Row) error {
		var id int64
		var perHour int
		var data sql.RawBytes
		if err := r.Scan(&id, &perHour, &data); err != nil {
			return err
		}
		midnight := dayOfBlock(id) * dayLength
		begin, end := max(midnight, start), min(midnight+dayLength, stop)
		if before(loose, begin) < before(loose, end) {
			return nil
		}
		serves, err := s.serves(ctx, id, perHour, begin, end, v)
		if err == nil && serves {
			s.parts, err = readRollup(s.parts[:0], of.kind, perHour, midnight, data)
		}
		if err != nil {
			return fmt.Errorf("series %d, rollup of day %d: %w", of.id, dayOfBlock(id), err)
		}
		if !serves {
			return nil
		}
		later := before(loose, end)
		if err := s.scanBlocks(ctx, of, end, stop, loose[later:], v); err != nil {
			return err
		}
		loose, stop = loose[:later], begin
		if some := within(s.parts, begin, end, hourLength/int64(perHour)); len(some) > 0 {
			return v.parts(some)
		}
		return nil
	}, rollupsOf, blockID(of.id, dayOf(start)), blockID(of.id, dayOf(stop-1)))
	return loose, stop, err
}

// within returns the parts that lie wholly between start and stop.
func within(parts []window, start, stop, length int64) []window {
	for len(parts) > 0 && parts[0].start < start {
		parts = parts[1:]
	}
	for len(parts) > 0 && parts[len(parts)-1].start+length > stop {
		parts = parts[:len(parts)-1]
	}
	return parts
}

// scanBlocks shows the points of a period, of which some are loose.
func (s *scanner) scanBlocks(ctx context.Context, of source, start, stop int64, loose []point, v visitor) error {
	if start >= stop {
		return nil
	}
	err := s.each(ctx, func(r sqlitefile.Row) error {
		var id int64
		var data sql.RawBytes
		err := r.Scan(&id, &data)
		if err != nil {
			return err
		}
		midnight := dayOfBlock(id) * dayLength
		if s.buffer, err = readBlock(s.buffer[:0], of.kind, midnight, data); err != nil {
			return fmt.Errorf("series %d, day %d: %w", of.id, dayOfBlock(id), err)
		}
		if later := before(loose, midnight+dayLength); later < len(loose) {
			newer := loose[later:]
			loose = loose[:later]
			if err := v.points(newer); err != nil {
				return err
			}
		}
		same := before(loose, midnight)
		s.merged = merge(s.merged[:0], clip(s.buffer, start, stop), loose[same:])
		loose = loose[:same]
		if len(s.merged) == 0 {
			return nil
		}
		return v.points(s.merged)
	}, blocksOf, blockID(of.id, dayOf(start)), blockID(of.id, dayOf(stop-1)))
	if err == nil && len(loose) > 0 {
		err = v.points(loose)
	}
	return err
}

// loose returns the points of a period that are not packed, in order of time.
func (s *scanner) loose(ctx context.Context, of source, start, stop int64) (points []point, err error) {
	err = s.each(ctx, func(r sqlitefile.Row) error {
		var base, write int64
		var data sql.RawBytes
		err := r.Scan(&base, &write, &data)
		if err == nil {
			if points, err = readBlock(points, of.kind, base, data); err != nil {
				err = fmt.Errorf("series %d, write %d: %w", of.id, write, err)
			}
		}
		return err
	}, chunksOf, of.id, start, (dayOf(stop-1)+1)*dayLength, stop)
	return clip(inOrder(points), start, stop), err
}

// inOrder sorts points by time, in place. Of those with the same time it keeps the last.
func inOrder(points []point) []point {
	byTime := func(a, b point) int { return cmp.Compare(a.time, b.time) }
	if !slices.IsSortedFunc(points, byTime) {
		slices.SortStableFunc(points, byTime)
	}
	kept := points[:0]
	for i, p := range points {
		if i+1 == len(points) || points[i+1].time != p.time {
			kept = append(kept, p)
		}
	}
	return kept
}

// before returns how many points have a time before t.
func before(points []point, t int64) int {
	n, _ := slices.BinarySearchFunc(points, t, func(p point, t int64) int { return cmp.Compare(p.time, t) })
	return n
}

func clip(points []point, start, stop int64) []point {
	return points[before(points, start):before(points, stop)]
}

// merge appends the points of both to dst, in order of time; the newer one of two
// with the same time.
func merge(dst, older, newer []point) []point {
	for _, p := range newer {
		n := before(older, p.time)
		dst = append(append(dst, older[:n]...), p)
		older = older[n:]
		if len(older) > 0 && older[0].time == p.time {
			older = older[1:]
		}
	}
	return append(dst, older...)
}

// figures are the aggregates of the points of a window.
type figures struct {
	count    int64
	sum      float64
	rest     float64 // what sum has lost by rounding
	min, max float64
	last     point // the greater of two with the same time
}

func (f *figures) add(p point, kind series.Kind) {
	number := p.number(kind)
	if f.count == 0 {
		f.min, f.max = number, number
	}
	f.count++
	f.plus(number)
	f.min, f.max = min(f.min, number), max(f.max, number)
	f.last = p
}

// plus adds to the sum, by the method of Kahan and Neumaier.
func (f *figures) plus(number float64) {
	sum := f.sum + number
	if math.Abs(f.sum) >= math.Abs(number) {
		f.rest += (f.sum - sum) + number
	} else {
		f.rest += (number - sum) + f.sum
	}
	f.sum = sum
}

func (f *figures) total() float64 {
	if total := f.sum + f.rest; !math.IsNaN(total) {
		return total
	}
	return f.sum // it is infinite
}

// join adds the figures of other points of the same field.
func (f *figures) join(other figures, kind series.Kind) {
	if f.count == 0 {
		*f = other
		return
	}
	if other.count == 0 {
		return
	}
	f.count += other.count
	f.plus(other.sum)
	f.rest += other.rest
	f.min, f.max = min(f.min, other.min), max(f.max, other.max)
	if other.last.after(f.last, kind) {
		f.last = other.last
	}
}

// after reports whether a point counts as the last before another.
func (p point) after(other point, kind series.Kind) bool {
	return p.time > other.time || p.time == other.time && p.number(kind) > other.number(kind)
}
