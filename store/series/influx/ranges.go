package influx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tsmon/store/series"
)

// Series sends all ranges in one request, and those of deleted values in another to the
// database of rollups.
func (s *Store) Series(ctx context.Context, database string, ranges []series.Range) (results []series.Result, err error) {
	if err := series.ValidRanges(ranges); err != nil {
		return nil, err
	}
	err = s.call(ctx, "read series of", database, func() (err error) {
		results, err = s.results(ctx, database, ranges)
		return err
	})
	return results, err
}

// results answers valid ranges.
func (s *Store) results(ctx context.Context, database string, ranges []series.Range) ([]series.Result, error) {
	keys := make([]series.Key, len(ranges))
	for i, r := range ranges {
		keys[i] = r.Key
	}
	far := slices.ContainsFunc(ranges, func(r series.Range) bool { return s.now().Sub(r.Start) > series.MinRetention })
	m, kinds, made, err := s.known(ctx, database, keys, far)
	if err != nil {
		return nil, err
	}
	all := make([]windows, len(ranges))
	q, rolled := s.server.query(), s.server.query()
	for i, r := range ranges {
		if kind := kinds[r.Key]; kind != 0 && kind != series.Text {
			all[i] = askRange(&q, &rolled, r, kind, made, s.now())
		}
	}
	raw, err := s.server.ask(ctx, database, q)
	if err != nil {
		return nil, err
	}
	old, err := s.server.ask(ctx, s.server.rollupsOf(database), rolled)
	if s.bereft(ctx, m, made, err) {
		return s.results(ctx, database, ranges)
	}
	if err != nil {
		return nil, err
	}
	results := make([]series.Result, len(ranges))
	for i, r := range ranges {
		w := &all[i]
		err := errors.Join(w.add(raw[:w.raw], w.from), w.add(old[:w.rolled], r.Start.UnixNano()))
		if err != nil {
			return nil, err
		}
		raw, old = raw[w.raw:], old[w.rolled:]
		results[i] = series.NewestFirst(w.points, r.Points())
	}
	return results, nil
}

// askRange adds the statements for a range to q, and those for what is before the border to
// rolled.
func askRange(q, rolled *query, r series.Range, kind series.Kind, made rollups, now time.Time) windows {
	start, stop := r.Start.UnixNano(), min(r.Stop.UnixNano(), now.UnixNano()+1)
	w := windows{boolean: kind == series.Boolean, every: int64(r.Every), from: start}
	spans := r.Spans()
	field := typed(q, r.Field, kind)
	border := made.border(now)
	if border.IsZero() || start >= border.UnixNano() || series.Even(spans)%made.grain != 0 {
		columns := "mean(" + field + ")"
		if w.boolean {
			columns = "last(" + field + ")"
		}
		w.raw = windowed(q, r, spans, columns, start, stop)
		return w
	}
	var columns, old string
	if w.boolean {
		columns, old = "last("+field+")", "last("+rolled.bind(r.Field+".last")+")"
	} else { // not the mean: the border may lie within a window
		columns = "sum(" + field + "), count(" + field + ")"
		old = "sum(" + rolled.bind(r.Field+".sum") + "), sum(" + rolled.bind(r.Field+".count") + ")"
	}
	w.from = min(border.UnixNano(), stop)
	w.raw = windowed(q, r, spans, columns, w.from, stop)
	w.rolled = windowed(rolled, r, spans, old, start, w.from)
	return w
}

// windowed adds the statements for a part of a range, one for each span, newest first. It
// returns their number. It doesn't use the server's tz(), which moves windows that have an
// offset, as weeks do, where the clocks change.
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
	raw, rolled int   // statements in each of the two requests
	from        int64 // nanoseconds: from when on the first asks

	boolean bool
	every   int64 // how long a window is at most
	points  []series.Point
	weights []float64 // of the numbers of points: how many values they are the mean of
}

// add adds the answers to statements that asked from a time on. Values for a window that is
// there already are older than those in it.
func (w *windows) add(answers [][]row, from int64) error {
	for _, rows := range answers {
		if len(rows) == 0 {
			continue
		}
		if rows[0].oldestFirst() {
			slices.Reverse(rows[0].Values)
		}
		for _, cells := range rows[0].Values {
			if err := w.addWindow(cells, from); err != nil {
				return err
			}
		}
	}
	return nil
}

// addWindow adds a row: a time with a number, or with a sum and a count. It leaves out a
// window that ends before from.
func (w *windows) addWindow(cells []any, from int64) error {
	if len(cells) != 2 && len(cells) != 3 {
		return errIncomplete
	}
	when, ok := nanoseconds(cells[0])
	n, found := number(cells[1])
	if !ok || !found || when < from && from-when >= w.every {
		return nil
	}
	weight := 0.0
	if len(cells) == 3 {
		if weight, found = number(cells[2]); !found || weight <= 0 {
			return nil
		}
		n /= weight
	}
	at, last := time.Unix(0, when).UTC(), len(w.points)-1
	switch {
	case last < 0 || !w.points[last].Time.Equal(at):
		w.points, w.weights = append(w.points, series.Point{Time: at, Number: n}), append(w.weights, weight)
	case !w.boolean: // of which the newer last value counts
		both := w.weights[last] + weight
		w.points[last].Number = w.points[last].Number*(w.weights[last]/both) + n*(weight/both)
		w.weights[last] = both
	}
	return nil
}
