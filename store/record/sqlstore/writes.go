package sqlstore

import (
	"context"

	"tsmon/store/record"
)

func (s *Store) Wrote(ctx context.Context, tsName string) error {
	if err := (record.Tenant{Schema: "x", TsName: tsName}).Validate(); err != nil {
		return err
	}
	_, err := s.exec(ctx, central("count a write", Write),
		`INSERT INTO tsmon.writes (ts_name, count) VALUES ($1, 1) ON CONFLICT (ts_name) DO UPDATE SET count = writes.count + 1`, tsName)
	return err
}

func (s *Store) Writes(ctx context.Context) (map[string]int64, error) {
	counts := map[string]int64{}
	var b Batch
	queueNumbers(&b, counts, `SELECT ts_name, count FROM tsmon.writes`)
	return counts, s.send(ctx, central("read the counts of writes", Read), &b)
}
