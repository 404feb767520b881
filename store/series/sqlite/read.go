package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"tsmon/store/series"
	"tsmon/store/sqlitefile"
)

// newestChunks takes keys as a JSON array of [index, measurement, field]. For each series
// it returns the index, its kind and ID, the chunk with the latest last point and chunks
// with later points that begin before now, and when its blocks end. The chunk is null if
// there is none.
const newestChunks = `
SELECT q.value ->> 0, f.kind, s.id, c.last - c.span, c.data,
	(SELECT last FROM blocks WHERE id BETWEEN s.id << 18 AND (s.id << 18) + @day ORDER BY id DESC LIMIT 1)
FROM json_each(@keys) q
CROSS JOIN fields f ON f.database = @database AND f.measurement = q.value ->> 1 AND f.name = q.value ->> 2 AND f.kind <> @text
CROSS JOIN streams s ON s.field = f.id
LEFT JOIN chunks c ON c.stream = s.id AND c.last < @tomorrow AND c.last - c.span <= @now
	AND c.last >= coalesce((SELECT max(last) FROM chunks WHERE stream = s.id AND last <= @now), @now)
ORDER BY s.id, c.write`

func (s *Store) Current(ctx context.Context, database string, wants []series.Want) ([]series.Value, error) {
	if err := series.ValidWants(wants); err != nil {
		return nil, err
	}
	q := newQuestions(wants, s.now())
	err := s.read(ctx, s.timeout, "read current values of "+database, database, func(ctx context.Context, scan *scanner) error {
		if err := q.askLasts(ctx, scan); err != nil {
			return err
		}
		return q.askFigures(ctx, scan)
	})
	if err != nil {
		return nil, err
	}
	values := make([]series.Value, len(wants))
	for i, want := range wants {
		values[i] = q.value(want)
	}
	return values, nil
}

// questions are the distinct queries of a call. Mean and max over the same window are one.
type questions struct {
	now     int64
	lasts   map[series.Key]*lastValue
	figures map[question]*figures
}

type question struct {
	series.Key
	window time.Duration
}

// lastValue is the last point of a series or a key, if it is found.
type lastValue struct {
	source
	point
	found bool
}

// take replaces the value by a later one.
func (l *lastValue) take(other lastValue) {
	if !l.found || other.found && other.after(l.point, other.kind) {
		*l = other
	}
}

func newQuestions(wants []series.Want, now time.Time) *questions {
	q := &questions{now.UnixNano(), map[series.Key]*lastValue{}, map[question]*figures{}}
	for _, want := range wants {
		if want = want.Normal(); want.Aggregate == series.Last {
			q.lasts[want.Key] = &lastValue{}
		} else {
			q.figures[question{want.Key, want.Window}] = &figures{}
		}
	}
	return q
}

func (q *questions) value(want series.Want) series.Value {
	timed := want.Timed
	if want = want.Normal(); want.Aggregate == series.Last {
		last := q.lasts[want.Key]
		if !last.found {
			return series.Value{}
		}
		value := series.Value{Number: last.number(last.kind), Found: true}
		if timed {
			value.Time = time.Unix(0, last.time).UTC()
		}
		return value
	}
	f := q.figures[question{want.Key, want.Window}]
	if f.count == 0 {
		return series.Value{}
	}
	return series.Value{Number: f.aggregate(want.Aggregate), Time: time.Unix(0, q.now).UTC(), Found: true}
}

func (f *figures) aggregate(a series.Aggregate) float64 {
	switch a {
	case series.Min:
		return f.min
	case series.Max:
		return f.max
	case series.Sum:
		return f.total()
	}
	return f.total() / float64(f.count)
}

func (q *questions) askFigures(ctx context.Context, scan *scanner) error {
	for of, f := range q.figures {
		sources, err := scan.sourcesOf(ctx, of.Key)
		if err != nil {
			return err
		}
		for _, one := range sources {
			err := scan.scan(ctx, one, q.now-int64(of.window)+1, q.now+1, visitor{
				points: func(points []point) error {
					for _, p := range points {
						f.add(p, one.kind)
					}
					return nil
				},
				parts: func(parts []window) error {
					for _, h := range parts {
						f.join(h.figures, one.kind)
					}
					return nil
				},
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// askLasts finds the last values. Most are in the newest chunk of their series.
func (q *questions) askLasts(ctx context.Context, scan *scanner) error {
	if len(q.lasts) == 0 {
		return nil
	}
	var keys [][3]any
	var places []*lastValue
	for key, value := range q.lasts {
		keys = append(keys, [3]any{len(places), key.Measurement, key.Field})
		places = append(places, value)
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	var all []*newest
	err = scan.each(ctx, func(r sqlitefile.Row) (err error) {
		all, err = readNewest(all, r, q.now)
		return err
	}, newestChunks, sql.Named("keys", string(text)), sql.Named("database", scan.database), sql.Named("text", series.Text),
		sql.Named("now", q.now), sql.Named("tomorrow", (dayOf(q.now)+1)*dayLength), sql.Named("day", blockID(0, dayOf(q.now))))
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.packed.Valid && (!one.found || one.packed.Int64 > one.time) {
			if err := one.search(ctx, scan, q.now); err != nil {
				return err
			}
		}
		places[one.place].take(one.lastValue)
	}
	return nil
}

// newest is the last point of one series.
type newest struct {
	place  int           // of its key
	packed sql.NullInt64 // time of the last point of its blocks
	lastValue
}

// readNewest reads a row of newestChunks. Rows of a series follow each other.
func readNewest(all []*newest, r sqlitefile.Row, now int64) ([]*newest, error) {
	var one newest
	var base sql.NullInt64
	var data sql.RawBytes
	if err := r.Scan(&one.place, &one.kind, &one.id, &base, &data, &one.packed); err != nil {
		return nil, err
	}
	if len(all) == 0 || all[len(all)-1].id != one.id {
		all = append(all, &one)
	}
	if !base.Valid {
		return all, nil
	}
	points, err := readBlock(nil, one.kind, base.Int64, data)
	if err != nil {
		return nil, fmt.Errorf("series %d: %w", one.id, err)
	}
	all[len(all)-1].latest(points, now)
	return all, nil
}

// latest takes the last point that is not after now. Of two with the same time the one of
// the later call stays.
func (n *newest) latest(points []point, now int64) {
	if i := before(points, now+1) - 1; i >= 0 && (!n.found || points[i].time >= n.time) {
		n.point, n.found = points[i], true
	}
}

func (n *newest) search(ctx context.Context, scan *scanner, now int64) error {
	return scan.scan(ctx, n.source, math.MinInt64, now+1, visitor{points: func(points []point) error {
		n.latest(points, now)
		return errEnough
	}})
}
