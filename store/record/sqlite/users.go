package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"tsmon/store/record"
)

const userColumns = `id, email, profile, admin, disabled, token_version, token_digest`

func scanUser(r scanner) (record.User, error) {
	var u record.User
	err := r.Scan(&u.ID, &u.Email, &u.Profile, &u.Admin, &u.Disabled, &u.TokenVersion, &u.TokenDigest)
	return u, err
}

// Users implements record.Users.
func (s *Store) Users(ctx context.Context, schema string) ([]record.User, error) {
	var list []record.User
	err := s.read(ctx, "list users", schema, func(ctx context.Context, tx *sql.Tx) error {
		return rows(ctx, tx, func(r *sql.Rows) error {
			u, err := scanUser(r)
			list = append(list, u)
			return err
		}, `SELECT `+userColumns+` FROM users WHERE tenant = ? ORDER BY id`, schema)
	})
	return list, err
}

// User implements record.Users.
func (s *Store) User(ctx context.Context, schema, email string) (record.User, error) {
	return s.user(ctx, schema, `email_key = ?`, record.EmailKey(email))
}

// UserByID implements record.Users.
func (s *Store) UserByID(ctx context.Context, schema string, id int64) (record.User, error) {
	return s.user(ctx, schema, `id = ?`, id)
}

func (s *Store) user(ctx context.Context, schema, condition string, arg any) (record.User, error) {
	var u record.User
	err := s.read(ctx, "read user", schema, func(ctx context.Context, tx *sql.Tx) error {
		var err error
		u, err = scanUser(tx.QueryRowContext(ctx, `SELECT `+userColumns+` FROM users WHERE tenant = ? AND `+condition, schema, arg))
		return err
	})
	return u, err
}

// CreateUser implements record.Users.
func (s *Store) CreateUser(ctx context.Context, schema string, u record.User) (record.User, error) {
	if err := u.Validate(); err != nil {
		return record.User{}, fmt.Errorf("create user: %w", err)
	}
	err := s.write(ctx, "create user", schema, func(ctx context.Context, tx *sql.Tx) error {
		created, err := scanUser(tx.QueryRowContext(ctx, `
			INSERT INTO users (tenant, id, email, email_key, profile, admin, disabled, token_version, token_digest)
			VALUES (?1, (SELECT coalesce(max(id), 0) + 1 FROM users WHERE tenant = ?1), ?2, ?3, ?4, ?5, ?6, 1, ?7)
			ON CONFLICT (tenant, email_key) DO NOTHING RETURNING `+userColumns,
			schema, u.Email, record.EmailKey(u.Email), u.Profile, u.Admin, u.Disabled, u.TokenDigest))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%s is %w", u.Email, record.ErrExists)
		}
		u = created
		return err
	})
	return u, err
}

// DisableUser implements record.Users.
func (s *Store) DisableUser(ctx context.Context, schema, email string) error {
	return s.changeUser(ctx, "disable user", schema, `
		UPDATE users SET token_version = token_version + (disabled = 0), disabled = 1 WHERE tenant = ? AND email_key = ?`,
		schema, record.EmailKey(email))
}

// SetUserToken implements record.Users.
func (s *Store) SetUserToken(ctx context.Context, schema, email string, digest []byte) error {
	return s.changeUser(ctx, "set token of user", schema, `
		UPDATE users SET token_version = token_version + 1, token_digest = ? WHERE tenant = ? AND email_key = ?`,
		digest, schema, record.EmailKey(email))
}

func (s *Store) changeUser(ctx context.Context, what, schema, statement string, args ...any) error {
	return s.write(ctx, what, schema, func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if n == 0 && err == nil {
			return record.ErrNotFound
		}
		return err
	})
}
