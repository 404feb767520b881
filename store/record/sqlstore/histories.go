package sqlstore

import (
	"context"
	"errors"

	"tsmon/store/record"
)

var scanSeen = scan(func(s *record.Seen) []any { return []any{&s.Sequence, &s.Hash} })

// Seen implements record.Histories.
func (s *Store) Seen(ctx context.Context, channel string) (record.Seen, error) {
	if !record.Storable(channel) {
		return record.Seen{}, nil
	}
	seen, err := one(ctx, s.core, central("read the end of a log", Read), scanSeen, `SELECT sequence, hash FROM tsmon.seen WHERE channel = $1`, channel)
	if errors.Is(err, record.ErrNotFound) {
		return record.Seen{}, nil
	}
	return seen, err
}

// See implements record.Histories.
func (s *Store) See(ctx context.Context, channel string, old, seen record.Seen) (bool, error) {
	if err := seen.Validate(channel); err != nil {
		return false, err
	}
	statement, args := `UPDATE tsmon.seen SET sequence = $2, hash = $3 WHERE channel = $1 AND sequence = $4 AND hash = $5 RETURNING sequence, hash`, []any{channel, seen.Sequence, seen.Hash, old.Sequence, old.Hash}
	if old == (record.Seen{}) {
		statement, args = `INSERT INTO tsmon.seen (channel, sequence, hash) VALUES ($1, $2, $3) ON CONFLICT (channel) DO NOTHING RETURNING sequence, hash`, args[:3]
	}
	replaced, err := list(ctx, s.core, central("record the end of a log", Write), scanSeen, statement, args...)
	return len(replaced) == 1, err
}
