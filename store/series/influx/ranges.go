package influx

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tsmon/store/series"
)

// Series implements series.Reader. All ranges go in one request.
func (s *Store) Series(ctx context.Context, database string, ranges []series.Range) (_ []series.Result, err error) {
	if err := series.ValidDatabase(database); err != nil {
		return nil, err
	}
	if err := series.ValidRanges(ranges); err != nil {
		return nil, err
	}
	defer s.explain(ctx, "series of "+database, &err)
	keys := make([]series.Key, len(ranges))
	for i, r := range ranges {
		keys[i] = r.Key
	}
	_, kinds, err := s.kindsOf(ctx, database, keys)
	if err != nil {
		return nil, err
	}
	q := query{}
	results := make([]series.Result, len(ranges))
	asked := make([]int, len(ranges)) // statements for each range
	for i, r := range ranges {
		if kind := kinds[r.Key]; kind != 0 && kind != series.Text {
			asked[i] = windowed(&q, r, kind, s.now())
		}
	}
	if q.statements == 0 {
		return results, nil
	}
	rows, err := s.ask(ctx, database, q)
	if err != nil {
		return nil, err
	}
	for i, n := range asked {
		if results[i], err = result(rows[:n], ranges[i].Points()); err != nil {
			return nil, err
		}
		rows = rows[n:]
	}
	return results, nil
}

// windowed adds the statements for a range, one for each span: newest window first,
// one more than the limit. It returns their number. The server's own tz() is not used:
// it moves windows that have an offset, as weeks do, where the clocks change.
func windowed(q *query, r series.Range, kind series.Kind, now time.Time) (n int) {
	function := "mean"
	if kind == series.Boolean {
		function = "last"
	}
	for _, span := range slices.Backward(r.Spans()) {
		start, stop := max(r.Start.UnixNano(), span.Start), min(span.Stop, now.UnixNano()+1)
		if start >= stop {
			continue
		}
		offset := (span.Start%span.Every + span.Every) % span.Every
		q.add(fmt.Sprintf("SELECT %s(%s) FROM %s WHERE time >= %d AND time < %d GROUP BY time(%dns, %dns) fill(none) ORDER BY time DESC LIMIT %d",
			function, typed(q, r.Field, kind), q.bind(r.Measurement), start, stop, span.Every, offset, r.Points()+1))
		n++
	}
	return n
}

// result reads the answers to the statements of one range.
func result(answers [][]row, limit int) (series.Result, error) {
	var points []series.Point
	for _, rows := range answers {
		if len(rows) == 0 {
			continue
		}
		for _, cells := range rows[0].Values {
			if len(cells) != 2 {
				return series.Result{}, errIncomplete
			}
			when, ok := nanoseconds(cells[0])
			n, found := number(cells[1])
			if ok && found {
				points = append(points, series.Point{Time: time.Unix(0, when).UTC(), Number: n})
			}
		}
	}
	return series.NewestFirst(points, limit), nil
}
