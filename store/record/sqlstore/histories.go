package sqlstore

import (
	"context"
	"errors"

	"tsmon/store/record"
)

func (s *Store) Seen(ctx context.Context, log string) (record.Seen, error) {
	seen, err := one(ctx, s.core, central("read the end of a log", Read), scan(func(s *record.Seen) []any {
		return []any{&s.Sequence, &s.Hash, &s.Manifest}
	}), `SELECT sequence, hash, manifest FROM tsmon.seen WHERE log = $1`, log)
	if errors.Is(err, record.ErrNotFound) {
		return record.Seen{}, nil
	}
	return seen, err
}

func (s *Store) See(ctx context.Context, log string, old, seen record.Seen) (bool, error) {
	if err := seen.Validate(log); err != nil {
		return false, err
	}
	statement, args := `UPDATE tsmon.seen SET sequence = $2, hash = $3, manifest = least(manifest, $2)
		WHERE log = $1 AND sequence = $4 AND hash = $5`, []any{log, seen.Sequence, seen.Hash, old.Sequence, old.Hash}
	if old.Sequence == 0 && old.Hash == "" {
		statement, args = `INSERT INTO tsmon.seen (log, sequence, hash, manifest) VALUES ($1, $2, $3, 0) ON CONFLICT (log) DO NOTHING`, args[:3]
	}
	replaced, err := s.exec(ctx, central("record the end of a log", Write), statement, args...)
	return replaced == 1, err
}

func (s *Store) SeeManifest(ctx context.Context, log string, entry int64) error {
	if err := (record.Seen{Sequence: entry, Hash: "-"}).Validate(log); err != nil {
		return err
	}
	_, err := s.exec(ctx, central("record the manifest of a log", Write),
		`UPDATE tsmon.seen SET manifest = $2 WHERE log = $1 AND manifest < $2 AND sequence >= $2`, log, entry)
	return err
}
