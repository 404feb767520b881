package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"tsmon/store/series"
	"tsmon/store/sqlitefile"
)

// Both statements take the questions as a JSON array of [index, measurement, field,
// start of the window] and return the index, the number, sum, minimum and maximum of
// the values, and a time.
const (
	// One row for each tag set, the one that counts as the last.
	lastValues = `
SELECT q.value ->> 0, 1, p.value, p.value, p.value, p.time
FROM json_each(@questions) q
CROSS JOIN fields f ON f.database = @database AND f.measurement = q.value ->> 1 AND f.name = q.value ->> 2 AND f.kind <> @text
CROSS JOIN streams s ON s.field = f.id
CROSS JOIN points p ON p.stream = s.id
	AND p.time = (SELECT max(time) FROM points WHERE stream = s.id AND time <= @now)
ORDER BY p.time, p.value`

	// One row for each question that has a value.
	aggregates = `
SELECT q.value ->> 0, count(*), total(p.value), min(p.value), max(p.value), @now
FROM json_each(@questions) q
CROSS JOIN fields f ON f.database = @database AND f.measurement = q.value ->> 1 AND f.name = q.value ->> 2 AND f.kind <> @text
CROSS JOIN streams s ON s.field = f.id
CROSS JOIN points p ON p.stream = s.id AND p.time > q.value ->> 3 AND p.time <= @now
GROUP BY q.key`
)

// question is a want without its aggregate, so that mean and max over one window
// are one question.
type question struct {
	series.Key
	since int64 // nanoseconds since 1970; 0 for a last value
}

// answer is one row of a statement.
type answer struct {
	count         int64
	sum, min, max float64
	time          int64
}

// value returns the value of a want.
func (a answer) value(want series.Want) series.Value {
	number := a.sum // of one value if the last is wanted
	switch want.Aggregate {
	case series.Mean:
		number /= float64(a.count)
	case series.Min:
		number = a.min
	case series.Max:
		number = a.max
	}
	value := series.Value{Number: number, Found: true}
	if want.Aggregate != series.Last || want.Timed {
		value.Time = time.Unix(0, a.time).UTC()
	}
	return value
}

// Current implements series.Reader.
func (s *Store) Current(ctx context.Context, database string, wants []series.Want) (_ []series.Value, err error) {
	if err := series.ValidWants(wants); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	defer explain(ctx, "current values of "+database, &err)
	now := s.now()
	last, rest := map[question][]int{}, map[question][]int{}
	for i, want := range wants {
		want = want.Normal()
		questions, of := last, question{Key: want.Key}
		if want.Aggregate != series.Last {
			questions, of.since = rest, now.Add(-want.Window).UnixNano()
		}
		questions[of] = append(questions[of], i)
	}
	tx, id, err := s.begin(ctx, database)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	values := make([]series.Value, len(wants))
	fill := func(i int, a answer) { values[i] = a.value(wants[i]) }
	if err = ask(ctx, tx, lastValues, id, now, last, fill); err == nil {
		err = ask(ctx, tx, aggregates, id, now, rest, fill)
	}
	return values, err
}

// begin begins a read transaction, so that an answer reflects one state.
func (s *Store) begin(ctx context.Context, database string) (*sql.Tx, int64, error) {
	tx, err := s.file.Readers.BeginTx(ctx, nil)
	if err != nil {
		return nil, 0, err
	}
	id, err := find(ctx, tx, database)
	if err != nil {
		tx.Rollback()
		return nil, 0, err
	}
	return tx, id, nil
}

// ask runs a statement for questions and calls fill with the index of each want that
// an answer is for.
func ask(ctx context.Context, tx *sql.Tx, statement string, database int64, now time.Time,
	questions map[question][]int, fill func(int, answer)) error {
	if len(questions) == 0 {
		return nil
	}
	array := make([][4]any, 0, len(questions))
	places := make([][]int, 0, len(questions))
	for of, at := range questions {
		array = append(array, [4]any{len(places), of.Measurement, of.Field, of.since})
		places = append(places, at)
	}
	text, err := json.Marshal(array)
	if err != nil {
		return err
	}
	return sqlitefile.Query(ctx, tx, func(r sqlitefile.Row) error {
		var place int
		var a answer
		if err := r.Scan(&place, &a.count, &a.sum, &a.min, &a.max, &a.time); err != nil {
			return err
		}
		for _, i := range places[place] {
			fill(i, a)
		}
		return nil
	}, statement, sql.Named("questions", string(text)), sql.Named("database", database),
		sql.Named("now", now.UnixNano()), sql.Named("text", series.Text))
}
