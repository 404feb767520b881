package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tsmon/store/record"
)

// Tenants implements record.Tenants.
func (s *Store) Tenants(ctx context.Context) ([]record.Tenant, error) {
	var list []record.Tenant
	err := s.do(ctx, "list tenants", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, err := c.Query(ctx, `SELECT schema_name, ts_name, settings FROM tsmon.tenants ORDER BY schema_name`)
		if err != nil {
			return err
		}
		list, err = pgx.AppendRows(list, rows, scanTenant)
		return err
	})
	return list, err
}

func scanTenant(row pgx.CollectableRow) (record.Tenant, error) {
	var t record.Tenant
	var settings []byte
	if err := row.Scan(&t.Schema, &t.TsName, &settings); err != nil {
		return t, err
	}
	return t, json.Unmarshal(settings, &t.Settings)
}

// Tenant implements record.Tenants.
func (s *Store) Tenant(ctx context.Context, schema string) (record.Tenant, error) {
	var t record.Tenant
	err := s.of(ctx, "read tenant", schema, func(ctx context.Context, c *pgxpool.Conn, _ in) (err error) {
		t, err = tenant(ctx, c, schema)
		return err
	})
	return t, err
}

func tenant(ctx context.Context, c *pgxpool.Conn, schema string) (record.Tenant, error) {
	rows, err := c.Query(ctx, `SELECT schema_name, ts_name, settings FROM tsmon.tenants WHERE schema_name = $1`, schema)
	if err != nil {
		return record.Tenant{}, err
	}
	return pgx.CollectExactlyOneRow(rows, scanTenant)
}

// CreateTenant implements record.Tenants. The schema comes first: what a crash
// leaves behind is taken up by the next call.
func (s *Store) CreateTenant(ctx context.Context, t record.Tenant) error {
	settings, err := encode(t)
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

func (s *Store) makeSchema(ctx context.Context, schema string) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	return s.inTurn(ctx, func() error { return s.migrate(ctx, schema) })
}

// encode checks a tenant and returns its settings as JSON.
func encode(t record.Tenant) (string, error) {
	if err := t.Validate(); err != nil {
		return "", err
	}
	settings, err := json.Marshal(t.Settings)
	return string(settings), err
}

// UpdateTenant implements record.Tenants.
func (s *Store) UpdateTenant(ctx context.Context, t record.Tenant) error {
	settings, err := encode(t)
	if err != nil {
		return fmt.Errorf("update tenant: %w", err)
	}
	return s.of(ctx, "update tenant", t.Schema, func(ctx context.Context, c *pgxpool.Conn, _ in) error {
		_, err := c.Exec(ctx, `UPDATE tsmon.tenants SET ts_name = $2, settings = $3 WHERE schema_name = $1`, t.Schema, t.TsName, settings)
		return err
	})
}

// Audit implements record.Audits.
func (s *Store) Audit(ctx context.Context, a record.Audit) error {
	a = a.Clean()
	return s.do(ctx, "audit", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, `INSERT INTO tsmon.audits (at, schema_name, user_email, action, target, address, request, ok)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, a.Time, a.Schema, a.User, a.Action, a.Target, a.Address, a.Request, a.OK)
		return err
	})
}

// LastAudits implements record.Audits.
func (s *Store) LastAudits(ctx context.Context, schema string, limit int) ([]record.Audit, error) {
	var list []record.Audit
	if !record.Storable(schema) {
		return nil, nil
	}
	err := s.do(ctx, "read audits", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, err := c.Query(ctx, `SELECT at, schema_name, user_email, action, target, address, request, ok
			FROM tsmon.audits WHERE schema_name = $1 ORDER BY id DESC LIMIT $2`, schema, max(limit, 0))
		if err != nil {
			return err
		}
		list, err = pgx.AppendRows(list, rows, func(row pgx.CollectableRow) (a record.Audit, err error) {
			err = row.Scan(&a.Time, &a.Schema, &a.User, &a.Action, &a.Target, &a.Address, &a.Request, &a.OK)
			a.Time = a.Time.UTC()
			return a, err
		})
		return err
	})
	return list, err
}
