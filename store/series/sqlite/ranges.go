package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"tsmon/store/series"
	"tsmon/store/sqlitefile"
)

// Both statements return the windows of one field, newest first. Before 1970, where
// the remainder of a division is negative, a window begins before its points too.
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
func (s *Store) Series(ctx context.Context, database string, ranges []series.Range) (_ []series.Result, err error) {
	if err := series.ValidRanges(ranges); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	defer explain(ctx, "series of "+database, &err)
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
	var points []series.Point
	err = sqlitefile.Query(ctx, tx, func(row sqlitefile.Row) error {
		var start int64
		var p series.Point
		err := row.Scan(&start, &p.Number)
		p.Time = time.Unix(0, start).UTC()
		points = append(points, p)
		return err
	}, statement, sql.Named("field", field), sql.Named("every", int64(r.Every)),
		sql.Named("start", r.Start.UnixNano()), sql.Named("stop", stop), sql.Named("limit", r.Points()+1))
	return series.NewestFirst(points, r.Points()), err
}
