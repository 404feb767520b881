package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"tsmon/store/series"
)

// Both statements give the windows of one field from the newest backwards. The
// window of a point begins at or before it, also before 1970, where the
// remainder of a division is negative.
const (
	windowMeans = `
SELECT p.time - ((p.time % @every) + @every) % @every AS start, total(p.value) / count(*)
FROM streams s CROSS JOIN points p ON p.stream = s.id AND p.time >= @start AND p.time < @stop
WHERE s.field = @field
GROUP BY start ORDER BY start DESC LIMIT @limit`

	windowLasts = `
SELECT start, value FROM (
	SELECT start, value, row_number() OVER (PARTITION BY start ORDER BY time DESC, value DESC) AS place FROM (
		SELECT p.time - ((p.time % @every) + @every) % @every AS start, p.time AS time, p.value AS value
		FROM streams s CROSS JOIN points p ON p.stream = s.id AND p.time >= @start AND p.time < @stop
		WHERE s.field = @field
	)
) WHERE place = 1
ORDER BY start DESC LIMIT @limit`
)

// Series implements series.Reader.
func (s *Store) Series(ctx context.Context, database string, ranges []series.Range) ([]series.Result, error) {
	if err := series.ValidRanges(ranges); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	results, err := s.series(ctx, database, ranges)
	if err != nil {
		return nil, explain(ctx, "series of "+database, err)
	}
	return results, nil
}

func (s *Store) series(ctx context.Context, database string, ranges []series.Range) ([]series.Result, error) {
	tx, id, err := s.begin(ctx, database)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	results := make([]series.Result, len(ranges))
	now := s.now()
	for i, r := range ranges {
		if results[i], err = one(ctx, tx, id, r, now); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// one reads one series.
func one(ctx context.Context, tx *sql.Tx, database int64, r series.Range, now time.Time) (series.Result, error) {
	var field int64
	var kind series.Kind
	err := tx.QueryRowContext(ctx, "SELECT id, kind FROM fields WHERE database = ? AND measurement = ? AND name = ?",
		database, r.Measurement, r.Field).Scan(&field, &kind)
	if errors.Is(err, sql.ErrNoRows) || kind == series.Text {
		return series.Result{}, nil
	}
	if err != nil {
		return series.Result{}, err
	}
	statement := windowMeans
	if kind == series.Boolean {
		statement = windowLasts
	}
	stop := min(r.Stop.UnixNano(), now.UnixNano()+1)
	rows, err := tx.QueryContext(ctx, statement, sql.Named("field", field), sql.Named("every", int64(r.Every)),
		sql.Named("start", r.Start.UnixNano()), sql.Named("stop", stop), sql.Named("limit", r.Points()+1))
	if err != nil {
		return series.Result{}, err
	}
	defer rows.Close()
	return result(rows, r.Points())
}

// result collects rows that come from the newest backwards, one more than the
// limit where there are older ones.
func result(rows *sql.Rows, limit int) (res series.Result, err error) {
	for rows.Next() {
		if len(res.Points) == limit {
			res.Truncated = true
			break
		}
		var start int64
		var p series.Point
		if err := rows.Scan(&start, &p.Number); err != nil {
			return series.Result{}, err
		}
		p.Time = time.Unix(0, start).UTC()
		res.Points = append(res.Points, p)
	}
	slices.Reverse(res.Points)
	return res, rows.Err()
}
