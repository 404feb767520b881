package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tsmon/store/record"
)

const selectTenants = `SELECT schema_name, ts_name, settings FROM tsmon.tenants`

// Tenants implements record.Tenants.
func (s tenants) Tenants(ctx context.Context) (all []record.Tenant, err error) {
	err = s.do(ctx, "list tenants", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		all, err = query(ctx, c, record.ScanTenant, selectTenants+` ORDER BY schema_name`)
		return err
	})
	return all, err
}

// Tenant implements record.Tenants.
func (s tenants) Tenant(ctx context.Context, schema string) (t record.Tenant, err error) {
	err = s.of(ctx, "read tenant", schema, func(ctx context.Context, c *pgxpool.Conn, _ in) (err error) {
		t, err = tenant(ctx, c, schema)
		return err
	})
	return t, err
}

func tenant(ctx context.Context, c *pgxpool.Conn, schema string) (record.Tenant, error) {
	return record.ScanTenant(c.QueryRow(ctx, selectTenants+` WHERE schema_name = $1`, schema))
}

// CreateTenant implements record.Tenants. It creates the schema first; after a crash
// the next call completes the tenant.
func (s tenants) CreateTenant(ctx context.Context, t record.Tenant) error {
	settings, err := record.EncodeSettings(t)
	if err != nil {
		return fmt.Errorf("create tenant: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.limits.Migrate)
	defer cancel()
	if err := s.makeSchema(ctx, t.Schema); err != nil {
		return fmt.Errorf("create tenant %s: %w", t.Schema, s.translate(ctx, err))
	}
	return s.do(ctx, "create tenant "+t.Schema, func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, `INSERT INTO tsmon.tenants (schema_name, ts_name, settings) VALUES ($1, $2, $3)
			ON CONFLICT (schema_name) DO NOTHING`, t.Schema, t.TsName, settings)
		if err != nil {
			return err
		}
		there, err := tenant(ctx, c, t.Schema)
		if err == nil && there != t {
			return fmt.Errorf("%w with another ts_name or other settings", record.ErrExists)
		}
		return err
	})
}

func (s tenants) makeSchema(ctx context.Context, schema string) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	return s.inTurn(ctx, func() error {
		return s.locked(ctx, func(c *pgx.Conn) error { return migrate(ctx, c, schema) })
	})
}

// UpdateTenant implements record.Tenants.
func (s tenants) UpdateTenant(ctx context.Context, t record.Tenant) error {
	settings, err := record.EncodeSettings(t)
	if err != nil {
		return fmt.Errorf("update tenant: %w", err)
	}
	return s.of(ctx, "update tenant", t.Schema, func(ctx context.Context, c *pgxpool.Conn, _ in) error {
		_, err := c.Exec(ctx, `UPDATE tsmon.tenants SET ts_name = $2, settings = $3 WHERE schema_name = $1`, t.Schema, t.TsName, settings)
		return err
	})
}

// Audit implements record.Audits.
func (s tenants) Audit(ctx context.Context, a record.Audit) error {
	a = a.Clean()
	return s.do(ctx, "audit", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, `INSERT INTO tsmon.audits (at, schema_name, user_email, action, target, address, request, ok)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, a.Time.UnixMicro(), a.Schema, a.User, a.Action, a.Target, a.Address, a.Request, a.OK)
		return err
	})
}

// LastAudits implements record.Audits.
func (s tenants) LastAudits(ctx context.Context, schema string, limit int) (all []record.Audit, err error) {
	if !record.Storable(schema) {
		return nil, nil
	}
	err = s.do(ctx, "read audits", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		all, err = query(ctx, c, record.ScanAudit, `SELECT at, schema_name, user_email, action, target, address, request, ok
			FROM tsmon.audits WHERE schema_name = $1 ORDER BY id DESC LIMIT $2`, schema, max(limit, 0))
		return err
	})
	return all, err
}

// Users implements record.Users.
func (s tenants) Users(ctx context.Context, schema string) ([]record.User, error) {
	return list(ctx, s.server, "list users", schema, record.ScanUser, `SELECT `+record.UserColumns+` FROM {schema}.users ORDER BY id`)
}

// User implements record.Users.
func (s tenants) User(ctx context.Context, schema, email string) (record.User, error) {
	return one(ctx, s.server, "read user", schema, record.ScanUser,
		`SELECT `+record.UserColumns+` FROM {schema}.users WHERE email_key = $1`, emailKey(email))
}

// emailKey returns the key of an address, or nil, which matches nobody, for one that
// can't be stored.
func emailKey(email string) *string {
	if !record.Storable(email) {
		return nil
	}
	key := record.EmailKey(email)
	return &key
}

// UserByID implements record.Users.
func (s tenants) UserByID(ctx context.Context, schema string, id int64) (record.User, error) {
	return one(ctx, s.server, "read user", schema, record.ScanUser, `SELECT `+record.UserColumns+` FROM {schema}.users WHERE id = $1`, id)
}

// CreateUser implements record.Users.
func (s tenants) CreateUser(ctx context.Context, schema string, u record.User) (record.User, error) {
	if err := u.Validate(); err != nil {
		return record.User{}, fmt.Errorf("create user: %w", err)
	}
	created, err := one(ctx, s.server, "create user", schema, record.ScanUser, `
		INSERT INTO {schema}.users (email, email_key, profile, admin, disabled, token_digest)
		VALUES ($1, $2, $3, $4, $5, $6)
		RETURNING `+record.UserColumns,
		u.Email, record.EmailKey(u.Email), u.Profile, u.Admin, u.Disabled, u.TokenDigest)
	if errors.Is(err, record.ErrExists) {
		return record.User{}, fmt.Errorf("create user of %s: %s is %w", schema, u.Email, record.ErrExists)
	}
	return created, err
}

// DisableUser implements record.Users.
func (s tenants) DisableUser(ctx context.Context, schema, email string) error {
	_, err := one(ctx, s.server, "disable user", schema, scanID, `
		UPDATE {schema}.users SET token_version = token_version + CASE WHEN disabled THEN 0 ELSE 1 END, disabled = true
		WHERE email_key = $1 RETURNING id`, emailKey(email))
	return err
}

// SetUserToken implements record.Users.
func (s tenants) SetUserToken(ctx context.Context, schema, email string, digest []byte) error {
	_, err := one(ctx, s.server, "set token of user", schema, scanID, `
		UPDATE {schema}.users SET token_version = token_version + 1, token_digest = $2
		WHERE email_key = $1 RETURNING id`, emailKey(email), digest)
	return err
}
