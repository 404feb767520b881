package influx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tsmon/store/series"
)

// What the values of a database amount to lies in a second one, named as
// server.rollupsOf says, under the same measurements. A field has the fields .count, .sum, .min and .max
// there, a boolean one .count, .last and .sum, which is how many are true, each with a value
// for each part of an hour. The
// measurement of progress tells up to when that is done, and for which parts.
const (
	progress = "tsmon"
	day      = 24 * time.Hour

	// rollAgain is for how long a day is rolled up again, with what came late; each is
	// once more before its values are deleted.
	rollAgain = 3 * day

	perProgress = 30 // days, after which a call that was ended goes on
)

// rollUp rolls up all days of a database that have ended and are not done.
func (s *Store) rollUp(ctx context.Context, database string, k series.Keeping) error {
	other := s.server.rollupsOf(database)
	if err := s.server.make(ctx, other); err != nil {
		return err
	}
	has, policy, err := s.server.retention(ctx, other)
	if want := series.RollupFactor * k.Retention; err == nil && has != want {
		err = s.server.setRetention(ctx, other, policy, want)
	}
	if err != nil {
		return err
	}
	r := roller{Store: s, database: database, grain: s.server.grain(k.Zone)}
	if r.kinds, err = s.server.fieldKeys(ctx, database); err != nil {
		return err
	}
	done, err := r.progress(ctx)
	if err != nil {
		return err
	}
	today := s.now().UTC().Truncate(day)
	kept := s.now().Add(day - k.Retention).UTC().Truncate(day) // from here on all values are there
	if done.IsZero() {
		if done, err = r.first(ctx); err != nil {
			return err
		}
	} else {
		done = done.Add(-rollAgain)
		for d := kept; d.Before(kept.Add(rollAgain)) && d.Before(done); d = d.Add(day) {
			if err := r.roll(ctx, d); err != nil {
				return err
			}
		}
	}
	if oldest := s.now().Add(-series.RollupFactor * k.Retention).UTC().Truncate(day); done.Before(oldest) {
		done = oldest
	}
	for d, n := done, 1; d.Before(today); d, n = d.Add(day), n+1 {
		if err := r.roll(ctx, d); err != nil {
			return err
		}
		if n%perProgress == 0 && !r.anew {
			if err := r.finish(ctx, d); err != nil {
				return err
			}
		}
	}
	return r.finish(ctx, today)
}

// roller rolls up days of one database.
type roller struct {
	*Store
	database string
	grain    time.Duration
	anew     bool // there are longer parts, which have to go
	kinds    map[series.Key]series.Kind
}

// progress returns the day up to which all is rolled up, the zero time if nothing is in
// parts as short as these. Where parts are shorter they stay so: a longer one beside them
// would count values twice.
func (r *roller) progress(ctx context.Context) (time.Time, error) {
	made, err := r.server.progress(ctx, r.database)
	if err != nil || made.until.IsZero() {
		return time.Time{}, err
	}
	if made.grain > r.grain {
		r.anew = true
		return time.Time{}, nil
	}
	r.grain = made.grain
	return made.until, nil
}

// finish stores that all is rolled up until a day.
func (r roller) finish(ctx context.Context, until time.Time) error {
	return r.store(ctx, []series.Sample{{
		Measurement: progress, Time: r.now(), Fields: map[string]any{"until": float64(until.Unix()), "grain": r.grain.Seconds()},
	}})
}

// fields returns the fields that hold no text, sorted, by measurement.
func (r roller) fields() map[string][]string {
	all := map[string][]string{}
	for key, kind := range r.kinds {
		if kind != series.Text {
			all[key.Measurement] = append(all[key.Measurement], key.Field)
		}
	}
	for _, fields := range all {
		slices.Sort(fields)
	}
	return all
}

// first returns the day of the first value, or now if there is none.
func (r roller) first(ctx context.Context) (time.Time, error) {
	q := r.server.query()
	q.patient = true
	for m, fields := range r.fields() {
		for _, field := range fields {
			q.add("SELECT first(" + typed(&q, field, r.kinds[series.Key{Measurement: m, Field: field}]) + ") FROM " + q.bind(m))
		}
	}
	first := r.now()
	if q.statements == 0 {
		return first, nil
	}
	rows, err := r.server.ask(ctx, r.database, q)
	if err != nil {
		return first, err
	}
	for _, answer := range rows {
		if len(answer) == 0 || len(answer[0].Values) == 0 || len(answer[0].Values[0]) == 0 {
			continue
		}
		if at, ok := nanoseconds(answer[0].Values[0][0]); ok && at < first.UnixNano() {
			first = time.Unix(0, at)
		}
	}
	return first.UTC().Truncate(day), nil
}

// roll rolls up one day.
func (r roller) roll(ctx context.Context, midnight time.Time) error {
	fields := r.fields()
	measurements := slices.Sorted(maps.Keys(fields))
	q := r.server.query()
	q.patient = true
	var booleans []series.Key
	for _, m := range measurements {
		r.ask(&q, m, fields[m], "", midnight)
		for _, field := range fields[m] {
			if key := (series.Key{Measurement: m, Field: field}); r.kinds[key] == series.Boolean {
				booleans = append(booleans, key)
			}
		}
	}
	for _, key := range booleans {
		r.ask(&q, key.Measurement, []string{key.Field}, typed(&q, key.Field, series.Boolean)+" = true AND ", midnight)
	}
	if q.statements == 0 {
		return nil
	}
	rows, err := r.server.ask(ctx, r.database, q)
	if err != nil {
		return err
	}
	truths := map[part]float64{}
	for i, key := range booleans {
		for _, answer := range rows[len(measurements)+i] {
			for _, cells := range answer.Values {
				if len(cells) < 2 {
					return errIncomplete
				}
				at, _ := nanoseconds(cells[0])
				truths[part{key, at}], _ = number(cells[1])
			}
		}
	}
	var samples []series.Sample
	for i, m := range measurements {
		if len(rows[i]) == 0 {
			continue
		}
		for _, cells := range rows[i][0].Values {
			sample, err := r.sample(m, fields[m], cells, truths)
			if err != nil {
				return err
			}
			if len(sample.Fields) > 0 {
				samples = append(samples, sample)
			}
		}
	}
	return r.replace(ctx, midnight, samples)
}

// part is what a field was in a part of an hour, which begins at a time.
type part struct {
	series.Key
	at int64
}

// ask adds the statement that rolls up fields of a measurement, where a condition holds.
func (r roller) ask(q *query, measurement string, fields []string, where string, midnight time.Time) {
	var columns []string
	for _, field := range fields {
		kind := r.kinds[series.Key{Measurement: measurement, Field: field}]
		for _, name := range partsOf(kind) {
			columns = append(columns, name+"("+typed(q, field, kind)+")")
		}
	}
	q.add(fmt.Sprintf("SELECT %s FROM %s WHERE %stime >= %d AND time < %d GROUP BY time(%ds) fill(none)", strings.Join(columns, ", "),
		q.bind(measurement), where, midnight.UnixNano(), midnight.Add(day).UnixNano(), int64(r.grain/time.Second)))
}

// replace stores the rollups of a day.
func (r roller) replace(ctx context.Context, midnight time.Time, samples []series.Sample) error {
	if len(samples) == 0 {
		return nil
	}
	if r.anew {
		if err := r.remove(ctx, midnight); err != nil {
			return err
		}
	}
	err := r.store(ctx, samples)
	if errors.Is(err, series.ErrExpired) {
		return nil
	}
	return err
}

// store writes to the database of rollups.
func (r roller) store(ctx context.Context, samples []series.Sample) error {
	text, err := encode(samples, unchecked)
	if err != nil {
		return err
	}
	return r.server.send(ctx, r.server.rollupsOf(r.database), samples, text)
}

// remove deletes the rollups of a day.
func (r roller) remove(ctx context.Context, midnight time.Time) error {
	q := r.server.query()
	q.add(fmt.Sprintf("DELETE WHERE time >= %d AND time < %d", midnight.UnixNano(), midnight.Add(day).UnixNano()))
	_, err := r.server.ask(ctx, r.server.rollupsOf(r.database), q)
	if errors.Is(err, errIncomplete) { // 2.x has no result for it
		return nil
	}
	return err
}

// partsOf returns what a field is rolled up to.
func partsOf(kind series.Kind) []string {
	if kind == series.Boolean {
		return []string{"count", "last"}
	}
	return []string{"count", "sum", "min", "max"}
}

// sample returns a row of an answer as it is stored, with how many booleans were true.
func (r roller) sample(measurement string, fields []string, cells []any, truths map[part]float64) (series.Sample, error) {
	s := series.Sample{Measurement: measurement, Fields: map[string]any{}}
	at, ok := nanoseconds(cells[0])
	if !ok {
		return s, errIncomplete
	}
	s.Time = time.Unix(0, at)
	rest := cells[1:]
	for _, field := range fields {
		key := series.Key{Measurement: measurement, Field: field}
		parts := partsOf(r.kinds[key])
		if len(rest) < len(parts) {
			return s, errIncomplete
		}
		if count, found := number(rest[0]); found && count > 0 {
			for i, name := range parts {
				n, _ := number(rest[i])
				s.Fields[field+"."+name] = n
			}
			if r.kinds[key] == series.Boolean {
				s.Fields[field+".sum"] = truths[part{key, at}]
			}
		}
		rest = rest[len(parts):]
	}
	return s, nil
}
