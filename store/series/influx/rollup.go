package influx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tsmon/store/series"
)

// What the values of a database amount to lies in a second one, which server.rollupsOf
// names, under the same measurements. A field has the fields .count, .sum, .min and .max
// there; a boolean one has .count, .last and .sum, which is how many are true. Each has a
// value for each part of an hour. The measurement of progress says up to when that is done,
// how long the parts are, and whether shorter ones may lie among them.
const (
	progress = "tsmon"
	day      = 24 * time.Hour

	// rollAgain is how long a day is rolled up again and again, for values that come late. It
	// is rolled up once more before its values are deleted.
	rollAgain = 3 * day

	perProgress = 30 // days between records of progress, from which the next call goes on

	replaceTries = 6 // the pauses between them double, and last three seconds in all
)

// rollUp rolls up the days of a database that have ended and are not rolled up yet.
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

type roller struct {
	*Store
	database string
	grain    time.Duration
	anew     bool // there are rollups of other parts, which have to be deleted
	kinds    map[series.Key]series.Kind
}

// progress returns the day before which all is rolled up in parts as short as r's, or the
// zero time. Parts that are shorter stay so: longer ones beside them would count values
// twice. Before longer parts are replaced, progress records that they will be mixed with
// shorter ones, in case not all of them are.
func (r *roller) progress(ctx context.Context) (time.Time, error) {
	made, err := r.server.progress(ctx, r.database)
	if err != nil || made.until.IsZero() {
		return time.Time{}, err
	}
	if made.mixed || made.grain > r.grain {
		r.anew, made.mixed = true, true
		return time.Time{}, r.record(ctx, made)
	}
	r.grain = made.grain
	return made.until, nil
}

// finish records that all is rolled up until a day.
func (r roller) finish(ctx context.Context, until time.Time) error {
	return r.record(ctx, rollups{until: until, grain: r.grain})
}

func (r roller) record(ctx context.Context, made rollups) error {
	fields := map[string]any{"until": float64(made.until.Unix()), "grain": made.grain.Seconds(), "mixed": 0.0}
	if made.mixed {
		fields["mixed"] = 1.0
	}
	return r.store(ctx, []series.Sample{{Measurement: progress, Time: r.now(), Fields: fields}})
}

// keys returns the fields that hold no text, by measurement.
func (r roller) keys() []series.Key {
	keys := slices.SortedFunc(maps.Keys(r.kinds), func(a, b series.Key) int {
		return cmp.Or(strings.Compare(a.Measurement, b.Measurement), strings.Compare(a.Field, b.Field))
	})
	return slices.DeleteFunc(keys, func(k series.Key) bool { return r.kinds[k] == series.Text })
}

// first returns the day of the first value, or today if there is none.
func (r roller) first(ctx context.Context) (time.Time, error) {
	q := r.server.query()
	q.patient = true
	for _, k := range r.keys() {
		q.add("SELECT first(" + typed(&q, k.Field, r.kinds[k]) + ") FROM " + q.bind(k.Measurement))
	}
	first := r.now()
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

// rolling is a statement that rolls up fields of a measurement: functions of them over a day.
type rolling []cell

// rollings returns the statements that roll up all fields: one for each measurement, and one
// for each boolean, whose true values are counted.
func (r roller) rollings(midnight time.Time) (all []rolling) {
	var booleans []rolling
	for _, k := range r.keys() {
		if n := len(all); n == 0 || all[n-1][0].Measurement != k.Measurement {
			all = append(all, nil)
		}
		one := cell{Key: k, kind: r.kinds[k], since: midnight.UnixNano() - 1, until: midnight.Add(day).UnixNano() - 1}
		functions := []string{"count", "sum", "min", "max"}
		if one.kind == series.Boolean {
			functions = []string{"count", "last"}
			ofTrue := one
			ofTrue.function, ofTrue.onlyTrue = "count", true
			booleans = append(booleans, rolling{ofTrue})
		}
		for _, function := range functions {
			one.function = function
			all[len(all)-1] = append(all[len(all)-1], one)
		}
	}
	return append(all, booleans...)
}

func (r roller) roll(ctx context.Context, midnight time.Time) error {
	q := r.server.query()
	q.patient = true
	all := r.rollings(midnight)
	for _, cells := range all {
		columns, where := clauses(&q, cells)
		q.add(fmt.Sprintf("SELECT %s FROM %s WHERE %s GROUP BY time(%ds) fill(none)", columns, q.bind(cells[0].Measurement), where, int64(r.grain/time.Second)))
	}
	rows, err := r.server.ask(ctx, r.database, q)
	if err != nil {
		return err
	}
	parts := map[part]series.Sample{}
	for i, answer := range rows {
		for _, row := range answer {
			for _, cells := range row.Values {
				if err := all[i].add(parts, cells); err != nil {
					return err
				}
			}
		}
	}
	if len(parts) == 0 {
		return nil
	}
	samples := slices.Collect(maps.Values(parts))
	if r.anew {
		return r.replace(ctx, midnight, samples)
	}
	return r.store(ctx, samples)
}

// replace stores the rollups of a day in place of those that are there. It leaves those of
// the hours before the first, whose values may be deleted already. A DELETE misses what the
// server is just writing from its cache to the disk, so replace counts the rollups
// afterwards, and tries again while there are too many.
func (r roller) replace(ctx context.Context, midnight time.Time, samples []series.Sample) error {
	first, stored := midnight.Add(day), 0
	for _, sample := range samples {
		if hour := sample.Time.Truncate(time.Hour); hour.Before(first) {
			first = hour
		}
		stored += len(sample.Fields)
	}
	where := fmt.Sprintf("time >= %d AND time < %d", first.UnixNano(), midnight.Add(day).UnixNano())
	pause := lookAgain
	for try := 1; ; try++ {
		if err := r.remove(ctx, where); err != nil {
			return err
		}
		if err := r.store(ctx, samples); err != nil {
			return err
		}
		found, err := r.server.count(ctx, r.server.rollupsOf(r.database), where)
		if err != nil || found <= int64(stored) {
			return err
		}
		if try == replaceTries {
			return fmt.Errorf("old rollups of %s can't be deleted: %w", midnight.Format(time.DateOnly), series.ErrUnavailable)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
			pause *= 2
		}
	}
}

// part is a part of an hour of a measurement. It begins at a time.
type part struct {
	measurement string
	at          int64
}

// add adds a row of an answer to the samples that are to be stored. A boolean that has
// values gets the sum of zero too, which its own statement then replaces: that has no row
// where none is true.
func (r rolling) add(parts map[part]series.Sample, values []any) error {
	if len(values) != 1+len(r) {
		return errIncomplete
	}
	at, ok := nanoseconds(values[0])
	if !ok {
		return errIncomplete
	}
	for i, c := range r {
		n, found := number(values[1+i])
		name := c.function
		if c.onlyTrue {
			name = "sum"
		}
		if !found || name == "count" && n == 0 {
			continue
		}
		of := part{c.Measurement, at}
		if parts[of].Fields == nil {
			parts[of] = series.Sample{Measurement: c.Measurement, Time: time.Unix(0, at), Fields: map[string]any{}}
		}
		fields := parts[of].Fields
		fields[c.Field+"."+name] = n
		if name == "last" {
			fields[c.Field+".sum"] = 0.0
		}
	}
	return nil
}

// store stores rollups, but for those that are older than the database keeps any.
func (r roller) store(ctx context.Context, samples []series.Sample) error {
	text, err := encode(samples, unchecked)
	if err != nil {
		return err
	}
	err = r.server.send(ctx, r.server.rollupsOf(r.database), samples, text)
	if errors.Is(err, series.ErrExpired) {
		return nil
	}
	return err
}

func (r roller) remove(ctx context.Context, where string) error {
	q := r.server.query()
	q.add("DELETE WHERE " + where)
	_, err := r.server.ask(ctx, r.server.rollupsOf(r.database), q)
	if errors.Is(err, errIncomplete) { // 2.x has no result for it
		return nil
	}
	return err
}
