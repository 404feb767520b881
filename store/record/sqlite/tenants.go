package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tsmon/store/record"
)

// Tenants implements record.Tenants.
func (s *Store) Tenants(ctx context.Context) ([]record.Tenant, error) {
	var list []record.Tenant
	err := s.do(ctx, "list tenants", s.readers, func(ctx context.Context, tx *sql.Tx) error {
		return rows(ctx, tx, func(r *sql.Rows) error {
			t, err := scanTenant(r)
			list = append(list, t)
			return err
		}, `SELECT tenant, ts_name, settings FROM tenants ORDER BY tenant`)
	})
	return list, err
}

// Tenant implements record.Tenants.
func (s *Store) Tenant(ctx context.Context, schema string) (record.Tenant, error) {
	var t record.Tenant
	err := s.read(ctx, "read tenant", schema, func(ctx context.Context, tx *sql.Tx) error {
		var err error
		t, err = tenant(ctx, tx, schema)
		return err
	})
	return t, err
}

func tenant(ctx context.Context, tx *sql.Tx, schema string) (record.Tenant, error) {
	return scanTenant(tx.QueryRowContext(ctx, `SELECT tenant, ts_name, settings FROM tenants WHERE tenant = ?`, schema))
}

// scanner is a row of one or of many.
type scanner interface{ Scan(into ...any) error }

func scanTenant(r scanner) (record.Tenant, error) {
	var t record.Tenant
	var settings []byte
	if err := r.Scan(&t.Schema, &t.TsName, &settings); err != nil {
		return t, err
	}
	return t, json.Unmarshal(settings, &t.Settings)
}

// CreateTenant implements record.Tenants.
func (s *Store) CreateTenant(ctx context.Context, t record.Tenant) error {
	settings, err := encode(t)
	if err != nil {
		return fmt.Errorf("create tenant: %w", err)
	}
	return s.do(ctx, "create tenant "+t.Schema, s.writer, func(ctx context.Context, tx *sql.Tx) error {
		there, err := tenant(ctx, tx, t.Schema)
		switch {
		case err == nil && there != t:
			return fmt.Errorf("%w with another ts_name or other settings", record.ErrExists)
		case err == nil || !errors.Is(err, sql.ErrNoRows):
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO tenants (tenant, ts_name, settings) VALUES (?, ?, ?)`, t.Schema, t.TsName, settings)
		return err
	})
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
	return s.write(ctx, "update tenant", t.Schema, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE tenants SET ts_name = ?, settings = ? WHERE tenant = ?`, t.TsName, settings, t.Schema)
		return err
	})
}

// Audit implements record.Audits.
func (s *Store) Audit(ctx context.Context, a record.Audit) error {
	a = a.Clean()
	return s.do(ctx, "audit", s.writer, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO audits (at, schema, user, action, target, address, request, ok) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			a.Time.UnixMicro(), a.Schema, a.User, a.Action, a.Target, a.Address, a.Request, a.OK)
		return err
	})
}

// LastAudits implements record.Audits.
func (s *Store) LastAudits(ctx context.Context, schema string, limit int) ([]record.Audit, error) {
	var list []record.Audit
	err := s.do(ctx, "read audits", s.readers, func(ctx context.Context, tx *sql.Tx) error {
		return rows(ctx, tx, func(r *sql.Rows) error {
			a, err := scanAudit(r)
			list = append(list, a)
			return err
		}, `SELECT at, schema, user, action, target, address, request, ok FROM audits WHERE schema = ? ORDER BY id DESC LIMIT ?`, schema, max(limit, 0))
	})
	return list, err
}

func scanAudit(r scanner) (record.Audit, error) {
	var a record.Audit
	var at int64
	err := r.Scan(&at, &a.Schema, &a.User, &a.Action, &a.Target, &a.Address, &a.Request, &a.OK)
	a.Time = time.UnixMicro(at).UTC()
	return a, err
}
