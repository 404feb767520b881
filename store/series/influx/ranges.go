package influx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tsmon/store/series"
)

// Series implements series.Reader. All ranges go in one request, and what is deleted of
// them in a second one, to the database of rollups.
func (s *Store) Series(ctx context.Context, database string, ranges []series.Range) (_ []series.Result, err error) {
	if err := series.ValidDatabase(database); err != nil {
		return nil, err
	}
	if err := series.ValidRanges(ranges); err != nil {
		return nil, err
	}
	defer s.server.explain(ctx, "series of "+database, &err)
	return s.results(ctx, database, ranges)
}

// results answers valid ranges.
func (s *Store) results(ctx context.Context, database string, ranges []series.Range) ([]series.Result, error) {
	keys := make([]series.Key, len(ranges))
	for i, r := range ranges {
		keys[i] = r.Key
	}
	m, kinds, err := s.kindsOf(ctx, database, keys)
	if err != nil {
		return nil, err
	}
	var made rollups
	if slices.ContainsFunc(ranges, func(r series.Range) bool { return s.now().Sub(r.Start) > series.MinRetention }) {
		if made, err = s.rollups(ctx, database, m); err != nil {
			return nil, err
		}
		made.remember(kinds, keys)
	}
	questions := make([]question, len(ranges))
	q, rolled := s.server.query(), s.server.query()
	for i, r := range ranges {
		if kind := kinds[r.Key]; kind != 0 && kind != series.Text {
			questions[i] = askRange(&q, &rolled, r, kind, made, s.now())
		}
	}
	rows, err := s.server.askSome(ctx, database, q)
	if err != nil {
		return nil, err
	}
	old, err := s.server.askSome(ctx, s.server.rollupsOf(database), rolled)
	if s.bereft(ctx, m, made, err) {
		return s.results(ctx, database, ranges)
	}
	if err != nil {
		return nil, err
	}
	results := make([]series.Result, len(ranges))
	for i, one := range questions {
		w := windows{boolean: kinds[ranges[i].Key] == series.Boolean, every: int64(ranges[i].Every), from: one.from}
		for _, answer := range rows[:one.raw] {
			err = errors.Join(err, w.add(answer))
		}
		rows, w.from = rows[one.raw:], ranges[i].Start.UnixNano()
		for _, answer := range old[:one.rolled] {
			err = errors.Join(err, w.add(answer))
		}
		old = old[one.rolled:]
		results[i] = w.result(ranges[i].Points())
	}
	if errors.Is(err, errIncomplete) {
		return nil, err
	}
	return results, nil
}

// askSome is ask, except that it does nothing for an empty list, which the server would
// refuse.
func (s *server) askSome(ctx context.Context, database string, q query) ([][]row, error) {
	if q.statements == 0 {
		return nil, nil
	}
	return s.ask(ctx, database, q)
}

// question is how many statements a range has in each of the two requests, and from when
// on the first asks.
type question struct {
	raw, rolled int
	from        int64 // nanoseconds
}

// askRange adds the statements for a range: for what is before the border to rolled.
func askRange(q, rolled *query, r series.Range, kind series.Kind, made rollups, now time.Time) (n question) {
	border := made.border(now)
	start, stop := r.Start.UnixNano(), min(r.Stop.UnixNano(), now.UnixNano()+1)
	n.from = start
	spans := r.Spans()
	columns := "mean(%s)"
	if kind == series.Boolean {
		columns = "last(%s)"
	}
	if border.IsZero() || start >= border.UnixNano() || series.Even(spans)%made.grain != 0 {
		n.raw = windowed(q, r, spans, fmt.Sprintf(columns, typed(q, r.Field, kind)), start, stop)
		return n
	}
	middle := min(border.UnixNano(), stop)
	n.from = middle
	raw := columns // its own text, since the border may lie within a window
	if kind != series.Boolean {
		raw = "sum(%[1]s), count(%[1]s)"
	}
	n.raw = windowed(q, r, spans, fmt.Sprintf(raw, typed(q, r.Field, kind)), middle, stop)
	old := "last(" + rolled.bind(r.Field+".last") + ")"
	if kind != series.Boolean {
		old = "sum(" + rolled.bind(r.Field+".sum") + "), sum(" + rolled.bind(r.Field+".count") + ")"
	}
	n.rolled = windowed(rolled, r, spans, old, start, middle)
	return n
}

// windowed adds the statements for a part of a range, one for each span, as
// query.newest has them. It returns their number. The server's own tz() is not
// used: it moves windows that have an offset, as weeks do, where the clocks change.
func windowed(q *query, r series.Range, spans []series.Span, columns string, start, stop int64) (n int) {
	for _, span := range slices.Backward(spans) {
		start, stop := max(start, span.Start), min(span.Stop, stop)
		if start >= stop {
			continue
		}
		offset := (span.Start%span.Every + span.Every) % span.Every
		q.add(fmt.Sprintf("SELECT %s FROM %s WHERE time >= %d AND time < %d GROUP BY time(%dns, %dns) fill(none) %s",
			columns, q.bind(r.Measurement), start, stop, span.Every, offset, q.newest(columns, r.Points())))
		n++
	}
	return n
}

// windows are the windows of a range, newest first.
type windows struct {
	boolean bool
	every   int64 // how long a window is at most
	from    int64 // windows that end before are left out
	points  []series.Point
	weights []float64 // of the numbers of points: how many values they are the mean of
}

// add adds the answer to one statement. A window that is there already has its older
// values in it.
func (w *windows) add(rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	if rows[0].oldestFirst() {
		slices.Reverse(rows[0].Values)
	}
	for _, cells := range rows[0].Values {
		if len(cells) != 2 && len(cells) != 3 {
			return errIncomplete
		}
		when, ok := nanoseconds(cells[0])
		n, found := number(cells[1])
		if !ok || !found || when < w.from && w.from-when >= w.every {
			continue
		}
		count := 0.0
		if len(cells) == 3 {
			if count, found = number(cells[2]); !found || count <= 0 {
				continue
			}
			n /= count
		}
		w.put(series.Point{Time: time.Unix(0, when).UTC(), Number: n}, count)
	}
	return nil
}

func (w *windows) put(p series.Point, weight float64) {
	last := len(w.points) - 1
	if last < 0 || !w.points[last].Time.Equal(p.Time) {
		w.points, w.weights = append(w.points, p), append(w.weights, weight)
		return
	}
	if !w.boolean { // of which the newer last value counts
		both := w.weights[last] + weight
		w.points[last].Number = w.points[last].Number*(w.weights[last]/both) + p.Number*(weight/both)
		w.weights[last] = both
	}
}

func (w *windows) result(limit int) series.Result { return series.NewestFirst(w.points, limit) }
