package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"tsmon/store/record"
)

const selectTenants = `SELECT tenant, ts_name, settings FROM tenants`

// Tenants implements record.Tenants.
func (t tenants) Tenants(ctx context.Context) (all []record.Tenant, err error) {
	err = t.do(ctx, "list tenants", t.Readers, func(ctx context.Context, tx *sql.Tx) (err error) {
		all, err = list(ctx, tx, record.ScanTenant, selectTenants+` ORDER BY tenant`)
		return err
	})
	return all, err
}

// Tenant implements record.Tenants.
func (t tenants) Tenant(ctx context.Context, schema string) (found record.Tenant, err error) {
	err = t.read(ctx, "read tenant", schema, func(ctx context.Context, tx *sql.Tx) (err error) {
		found, err = tenant(ctx, tx, schema)
		return err
	})
	return found, err
}

func tenant(ctx context.Context, tx *sql.Tx, schema string) (record.Tenant, error) {
	return record.ScanTenant(tx.QueryRowContext(ctx, selectTenants+` WHERE tenant = ?`, schema))
}

// CreateTenant implements record.Tenants.
func (t tenants) CreateTenant(ctx context.Context, wanted record.Tenant) error {
	settings, err := record.EncodeSettings(wanted)
	if err != nil {
		return fmt.Errorf("create tenant: %w", err)
	}
	return t.do(ctx, "create tenant "+wanted.Schema, t.Writer, func(ctx context.Context, tx *sql.Tx) error {
		found, err := tenant(ctx, tx, wanted.Schema)
		switch {
		case err == nil && found != wanted:
			return fmt.Errorf("%w with another ts_name or other settings", record.ErrExists)
		case err == nil || !errors.Is(err, sql.ErrNoRows):
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO tenants (tenant, ts_name, settings) VALUES (?, ?, ?)`, wanted.Schema, wanted.TsName, settings)
		return err
	})
}

// UpdateTenant implements record.Tenants.
func (t tenants) UpdateTenant(ctx context.Context, wanted record.Tenant) error {
	settings, err := record.EncodeSettings(wanted)
	if err != nil {
		return fmt.Errorf("update tenant: %w", err)
	}
	return t.change(ctx, "update tenant", wanted.Schema, `UPDATE tenants SET ts_name = ?, settings = ? WHERE tenant = ?`,
		wanted.TsName, settings, wanted.Schema)
}

// change executes a statement. record.ErrNotFound if it changes no row.
func (t tenants) change(ctx context.Context, what, schema, statement string, args ...any) error {
	return t.write(ctx, what, schema, func(ctx context.Context, tx *sql.Tx) error {
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

// Audit implements record.Audits.
func (t tenants) Audit(ctx context.Context, a record.Audit) error {
	a = a.Clean()
	return t.do(ctx, "audit", t.Writer, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO audits (at, schema, user, action, target, address, request, ok) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			a.Time.UnixMicro(), a.Schema, a.User, a.Action, a.Target, a.Address, a.Request, a.OK)
		return err
	})
}

// LastAudits implements record.Audits.
func (t tenants) LastAudits(ctx context.Context, schema string, limit int) (all []record.Audit, err error) {
	err = t.do(ctx, "read audits", t.Readers, func(ctx context.Context, tx *sql.Tx) (err error) {
		all, err = list(ctx, tx, record.ScanAudit, `SELECT at, schema, user, action, target, address, request, ok
			FROM audits WHERE schema = ? ORDER BY id DESC LIMIT ?`, schema, max(limit, 0))
		return err
	})
	return all, err
}

const selectUsers = `SELECT ` + record.UserColumns + ` FROM users WHERE tenant = ?`

// Users implements record.Users.
func (t tenants) Users(ctx context.Context, schema string) ([]record.User, error) {
	return listOf(ctx, t.database, "list users", schema, record.ScanUser, selectUsers+` ORDER BY id`, schema)
}

// User implements record.Users.
func (t tenants) User(ctx context.Context, schema, email string) (record.User, error) {
	return t.user(ctx, schema, ` AND email_key = ?`, record.EmailKey(email))
}

// UserByID implements record.Users.
func (t tenants) UserByID(ctx context.Context, schema string, id int64) (record.User, error) {
	return t.user(ctx, schema, ` AND id = ?`, id)
}

func (t tenants) user(ctx context.Context, schema, condition string, arg any) (u record.User, err error) {
	err = t.read(ctx, "read user", schema, func(ctx context.Context, tx *sql.Tx) (err error) {
		u, err = record.ScanUser(tx.QueryRowContext(ctx, selectUsers+condition, schema, arg))
		return err
	})
	return u, err
}

// CreateUser implements record.Users.
func (t tenants) CreateUser(ctx context.Context, schema string, u record.User) (record.User, error) {
	if err := u.Validate(); err != nil {
		return record.User{}, fmt.Errorf("create user: %w", err)
	}
	err := t.write(ctx, "create user", schema, func(ctx context.Context, tx *sql.Tx) error {
		created, err := record.ScanUser(tx.QueryRowContext(ctx, `
			INSERT INTO users (tenant, id, email, email_key, profile, admin, disabled, token_version, token_digest)
			VALUES (?1, (SELECT coalesce(max(id), 0) + 1 FROM users WHERE tenant = ?1), ?2, ?3, ?4, ?5, ?6, 1, ?7)
			ON CONFLICT (tenant, email_key) DO NOTHING RETURNING `+record.UserColumns,
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
func (t tenants) DisableUser(ctx context.Context, schema, email string) error {
	return t.change(ctx, "disable user", schema, `
		UPDATE users SET token_version = token_version + (disabled = 0), disabled = 1 WHERE tenant = ? AND email_key = ?`,
		schema, record.EmailKey(email))
}

// SetUserToken implements record.Users.
func (t tenants) SetUserToken(ctx context.Context, schema, email string, digest []byte) error {
	return t.change(ctx, "set token of user", schema, `
		UPDATE users SET token_version = token_version + 1, token_digest = ? WHERE tenant = ? AND email_key = ?`,
		digest, schema, record.EmailKey(email))
}
