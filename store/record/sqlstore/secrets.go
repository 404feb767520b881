package sqlstore

import (
	"context"

	"tsmon/store/record"
)

func (s *Store) Secret(ctx context.Context, name string) ([]byte, error) {
	return one(ctx, s.core, central("read a secret", Read), scan(func(value *[]byte) []any { return []any{value} }),
		`SELECT value FROM tsmon.secrets WHERE name = $1`, name)
}

func (s *Store) CreateSecret(ctx context.Context, name string, value []byte) ([]byte, error) {
	if err := record.ValidSecret(name, value); err != nil {
		return nil, err
	}
	_, err := s.exec(ctx, central("create a secret", Write),
		`INSERT INTO tsmon.secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, value)
	if err != nil {
		return nil, err
	}
	return s.Secret(ctx, name)
}

func (s *Store) ReplaceSecret(ctx context.Context, name string, old, value []byte) (bool, error) {
	if err := record.ValidSecret(name, value); err != nil {
		return false, err
	}
	replaced, err := s.exec(ctx, central("replace a secret", Write),
		`UPDATE tsmon.secrets SET value = $3 WHERE name = $1 AND value = $2`, name, old, value)
	return replaced == 1, err
}
