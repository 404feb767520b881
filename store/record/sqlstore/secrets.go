package sqlstore

import (
	"context"
	"fmt"

	"tsmon/store/record"
)

const selectSecret = `SELECT value FROM tsmon.secrets WHERE name = $1`

var scanSecret = scan(func(value *[]byte) []any { return []any{value} })

// Secret implements record.Secrets.
func (s *Store) Secret(ctx context.Context, name string) ([]byte, error) {
	if !record.Storable(name) {
		return nil, fmt.Errorf("read a secret: %w", record.ErrNotFound)
	}
	return one(ctx, s.core, central("read a secret", Read), scanSecret, selectSecret, name)
}

// CreateSecret implements record.Secrets.
func (s *Store) CreateSecret(ctx context.Context, name string, value []byte) ([]byte, error) {
	if err := record.ValidSecret(name, value); err != nil {
		return nil, err
	}
	var b Batch
	b.Exec(`INSERT INTO tsmon.secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, value)
	if err := s.send(ctx, central("create a secret", Write), &b); err != nil {
		return nil, err
	}
	return s.Secret(ctx, name)
}

// ReplaceSecret implements record.Secrets.
func (s *Store) ReplaceSecret(ctx context.Context, name string, old, value []byte) (bool, error) {
	if err := record.ValidSecret(name, value); err != nil {
		return false, err
	}
	replaced, err := list(ctx, s.core, central("replace a secret", Write), scanSecret,
		`UPDATE tsmon.secrets SET value = $3 WHERE name = $1 AND value = $2 RETURNING value`, name, old, value)
	return len(replaced) == 1, err
}
