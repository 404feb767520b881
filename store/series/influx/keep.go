package influx

import (
	"context"
	"fmt"
	"time"

	"tsmon/store/series"
)

// Keep rolls up values before the server deletes them, in whole shards of up to a week once
// all of their values are too old. It has to be called each hour; the first call may take
// minutes. With AsItIs, a retention that an operator set gets rollups only if there are some
// already.
func (s *Store) Keep(ctx context.Context, database string, k series.Keeping) error {
	if err := series.ValidKeeping(k); err != nil {
		return err
	}
	return s.call(ctx, "keep values of", database, func() error {
		now, policy, err := s.server.retention(ctx, database)
		if err != nil {
			return err
		}
		roll := k.Retention > 0
		if k.Retention == series.AsItIs {
			k.Retention = now
			made, err := s.rollupsSeen(ctx, database)
			if err != nil {
				return err
			}
			roll = now > 0 && !made.until.IsZero()
		}
		if roll {
			if err := s.rollUp(ctx, database, k); err != nil {
				return err
			}
		}
		if k.Retention != now {
			err = s.server.setRetention(ctx, database, policy, k.Retention)
		}
		s.memory(database).roll(rollups{}, time.Time{})
		return err
	})
}

func (s *Store) CountBefore(ctx context.Context, database string, t time.Time) (count int64, err error) {
	err = s.call(ctx, "count values of", database, func() (err error) {
		count, err = s.server.count(ctx, database, fmt.Sprintf("time < %d", t.UnixNano()))
		return err
	})
	return count, err
}

// count returns how many values a database holds where a condition is met.
func (s *server) count(ctx context.Context, database, where string) (count int64, err error) {
	q := s.query()
	q.patient = true
	q.add("SELECT count(*) FROM /^[^_]/ WHERE " + where)
	rows, err := s.ask(ctx, database, q)
	if err != nil {
		return 0, err
	}
	for _, r := range rows[0] {
		for _, cells := range r.Values {
			for _, cell := range cells[min(1, len(cells)):] { // after the time
				n, _ := number(cell)
				count += int64(n)
			}
		}
	}
	return count, nil
}
