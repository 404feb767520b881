package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

//go:embed migrations
var embedded embed.FS

// central is the scope of the migrations of the schema of that name; each
// tenant's schema is a scope too.
const central = "tsmon"

// migrations are the embedded steps of a scope, which name its schema as
// {schema}.
func migrations(scope string) ([]*goose.Migration, error) {
	folder := "migrations/tenant"
	if scope == central {
		folder = "migrations/central"
	}
	files, err := fs.ReadDir(embedded, folder)
	if err != nil {
		return nil, err
	}
	var steps []*goose.Migration
	for _, f := range files {
		version, err := goose.NumericComponent(f.Name())
		if err != nil {
			return nil, err
		}
		text, err := embedded.ReadFile(path.Join(folder, f.Name()))
		if err != nil {
			return nil, err
		}
		statements := strings.ReplaceAll(string(text), "{schema}", pgx.Identifier{scope}.Sanitize())
		steps = append(steps, goose.NewGoMigration(version, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, statements)
			return err
		}}, nil))
	}
	return steps, nil
}

// latest is the last version of a tenant's schema.
func latest() (int64, error) {
	steps, err := migrations("")
	if err != nil || len(steps) == 0 {
		return 0, err
	}
	return steps[len(steps)-1].Version, nil
}

// migrate brings a scope up to date while it holds the lock of all migrations.
func (s *Store) migrate(ctx context.Context, scope string) error {
	steps, err := migrations(scope)
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(s.pool)
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectCustom, db, nil, goose.WithStore(versions(scope)), goose.WithGoMigrations(steps...),
		goose.WithSessionLocker(advisoryLock{}), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate %s: %w", scope, err)
	}
	return nil
}

// advisoryLock makes migrations of one database take turns. It waits in the
// server, so that whoever is next begins at once.
type advisoryLock struct{}

const lockKey = 0x74736d6f6e // "tsmon"

func (advisoryLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `SELECT pg_catalog.pg_advisory_lock($1)`, int64(lockKey))
	return err
}

func (advisoryLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `SELECT pg_catalog.pg_advisory_unlock($1)`, int64(lockKey))
	return err
}

// versions keeps the versions of a scope in the table of all scopes.
type versions string

var _ database.Store = versions("")

// Tablename implements database.Store.
func (versions) Tablename() string { return "tsmon.migrations" }

// TableExists reports whether the scope has versions; goose asks for it.
func (v versions) TableExists(ctx context.Context, db database.DBTxConn) (bool, error) {
	var there bool
	err := db.QueryRowContext(ctx, `SELECT pg_catalog.to_regclass('tsmon.migrations') IS NOT NULL`).Scan(&there)
	if err != nil || !there {
		return false, err
	}
	err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM tsmon.migrations WHERE scope = $1)`, string(v)).Scan(&there)
	return there, err
}

// CreateVersionTable implements database.Store. It is called while the lock is
// held and the scope has no version, so that the table may be there already.
func (versions) CreateVersionTable(ctx context.Context, db database.DBTxConn) error {
	_, err := db.ExecContext(ctx, `
		CREATE SCHEMA IF NOT EXISTS tsmon;
		CREATE TABLE IF NOT EXISTS tsmon.migrations (
			scope   text NOT NULL,
			version bigint NOT NULL,
			at      timestamptz NOT NULL DEFAULT now(),
			PRIMARY KEY (scope, version)
		)`)
	return err
}

// Insert implements database.Store.
func (v versions) Insert(ctx context.Context, db database.DBTxConn, req database.InsertRequest) error {
	_, err := db.ExecContext(ctx, `INSERT INTO tsmon.migrations (scope, version) VALUES ($1, $2)`, string(v), req.Version)
	return err
}

// Delete implements database.Store.
func (v versions) Delete(ctx context.Context, db database.DBTxConn, version int64) error {
	_, err := db.ExecContext(ctx, `DELETE FROM tsmon.migrations WHERE scope = $1 AND version = $2`, string(v), version)
	return err
}

// GetMigration implements database.Store.
func (v versions) GetMigration(ctx context.Context, db database.DBTxConn, version int64) (*database.GetMigrationResult, error) {
	r := &database.GetMigrationResult{IsApplied: true}
	err := db.QueryRowContext(ctx, `SELECT at FROM tsmon.migrations WHERE scope = $1 AND version = $2`, string(v), version).Scan(&r.Timestamp)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, database.ErrVersionNotFound
	}
	return r, err
}

// GetLatestVersion implements database.Store.
func (v versions) GetLatestVersion(ctx context.Context, db database.DBTxConn) (int64, error) {
	var version sql.NullInt64
	err := db.QueryRowContext(ctx, `SELECT max(version) FROM tsmon.migrations WHERE scope = $1`, string(v)).Scan(&version)
	if err == nil && !version.Valid {
		err = database.ErrVersionNotFound
	}
	return version.Int64, err
}

// ListMigrations implements database.Store.
func (v versions) ListMigrations(ctx context.Context, db database.DBTxConn) ([]*database.ListMigrationsResult, error) {
	rows, err := db.QueryContext(ctx, `SELECT version FROM tsmon.migrations WHERE scope = $1 ORDER BY version DESC`, string(v))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []*database.ListMigrationsResult
	for rows.Next() {
		m := &database.ListMigrationsResult{IsApplied: true}
		if err := rows.Scan(&m.Version); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, rows.Err()
}
