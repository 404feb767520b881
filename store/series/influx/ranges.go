package influx

import (
	"context"
	"fmt"
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
	var asked []int // indexes of the ranges that the statements are for
	for i, r := range ranges {
		if kind := kinds[r.Key]; kind != 0 && kind != series.Text {
			q.add(windowed(&q, r, kind, s.now()))
			asked = append(asked, i)
		}
	}
	results := make([]series.Result, len(ranges))
	if len(asked) == 0 {
		return results, nil
	}
	rows, err := s.ask(ctx, database, q)
	if err != nil {
		return nil, err
	}
	for n, i := range asked {
		if results[i], err = result(rows[n], ranges[i].Points()); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// windowed returns the statement for a range: newest window first, one more than
// the limit.
func windowed(q *query, r series.Range, kind series.Kind, now time.Time) string {
	function := "mean"
	if kind == series.Boolean {
		function = "last"
	}
	stop := min(r.Stop.UnixNano(), now.UnixNano()+1)
	return fmt.Sprintf("SELECT %s(%s) FROM %s WHERE time >= %d AND time < %d GROUP BY time(%dns) fill(none) ORDER BY time DESC LIMIT %d",
		function, typed(q, r.Field, kind), q.bind(r.Measurement), r.Start.UnixNano(), stop, int64(r.Every), r.Points()+1)
}

// result reads the rows of one range.
func result(rows []row, limit int) (series.Result, error) {
	if len(rows) == 0 {
		return series.Result{}, nil
	}
	var points []series.Point
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
	return series.NewestFirst(points, limit), nil
}
