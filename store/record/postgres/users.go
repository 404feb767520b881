package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tsmon/store/record"
)

const userColumns = `id, email, profile, admin, disabled, token_version, token_digest`

func scanUser(row pgx.CollectableRow) (u record.User, err error) {
	err = row.Scan(&u.ID, &u.Email, &u.Profile, &u.Admin, &u.Disabled, &u.TokenVersion, &u.TokenDigest)
	return u, err
}

// Users implements record.Users.
func (s *Store) Users(ctx context.Context, schema string) ([]record.User, error) {
	return list(ctx, s, "list users", schema, scanUser, `SELECT `+userColumns+` FROM {schema}.users ORDER BY id`)
}

// list returns all rows of a query about a tenant.
func list[T any](ctx context.Context, s *Store, what, schema string, scan pgx.RowToFunc[T], query string, args ...any) ([]T, error) {
	var all []T
	err := s.of(ctx, what, schema, func(ctx context.Context, c *pgxpool.Conn, in in) error {
		rows, err := c.Query(ctx, in.sql(query), args...)
		if err != nil {
			return err
		}
		all, err = pgx.AppendRows(all, rows, scan)
		return err
	})
	return all, err
}

// one returns the row of a query about a tenant. record.ErrNotFound if it has
// none.
func one[T any](ctx context.Context, s *Store, what, schema string, scan pgx.RowToFunc[T], query string, args ...any) (T, error) {
	var found T
	err := s.of(ctx, what, schema, func(ctx context.Context, c *pgxpool.Conn, in in) error {
		rows, err := c.Query(ctx, in.sql(query), args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectOneRow(rows, scan)
		return err
	})
	return found, err
}

// User implements record.Users.
func (s *Store) User(ctx context.Context, schema, email string) (record.User, error) {
	return one(ctx, s, "read user", schema, scanUser,
		`SELECT `+userColumns+` FROM {schema}.users WHERE email_key = $1`, emailKey(email))
}

// emailKey returns what an address is looked up by: one that can't be stored
// finds nobody.
func emailKey(email string) *string {
	if !record.Storable(email) {
		return nil
	}
	key := record.EmailKey(email)
	return &key
}

// UserByID implements record.Users.
func (s *Store) UserByID(ctx context.Context, schema string, id int64) (record.User, error) {
	return one(ctx, s, "read user", schema, scanUser, `SELECT `+userColumns+` FROM {schema}.users WHERE id = $1`, id)
}

// CreateUser implements record.Users.
func (s *Store) CreateUser(ctx context.Context, schema string, u record.User) (record.User, error) {
	if err := u.Validate(); err != nil {
		return record.User{}, fmt.Errorf("create user: %w", err)
	}
	created, err := one(ctx, s, "create user", schema, scanUser, `
		INSERT INTO {schema}.users (email, email_key, profile, admin, disabled, token_digest)
		VALUES ($1, $2, $3, $4, $5, $6)
		RETURNING `+userColumns,
		u.Email, record.EmailKey(u.Email), u.Profile, u.Admin, u.Disabled, u.TokenDigest)
	if errors.Is(err, record.ErrExists) {
		return record.User{}, fmt.Errorf("create user of %s: %s is %w", schema, u.Email, record.ErrExists)
	}
	return created, err
}

// DisableUser implements record.Users.
func (s *Store) DisableUser(ctx context.Context, schema, email string) error {
	_, err := one(ctx, s, "disable user", schema, pgx.RowTo[int64], `
		UPDATE {schema}.users SET token_version = token_version + CASE WHEN disabled THEN 0 ELSE 1 END, disabled = true
		WHERE email_key = $1 RETURNING id`, emailKey(email))
	return err
}

// SetUserToken implements record.Users.
func (s *Store) SetUserToken(ctx context.Context, schema, email string, digest []byte) error {
	_, err := one(ctx, s, "set token of user", schema, pgx.RowTo[int64], `
		UPDATE {schema}.users SET token_version = token_version + 1, token_digest = $2
		WHERE email_key = $1 RETURNING id`, emailKey(email), digest)
	return err
}
