package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tsmon/store/record/sqlstore"
)

// central is a scope of migrations: the schema of that name. The schema of each tenant is
// another scope.
const central = "tsmon"

// room leaves space in the pages of clients for new versions of their rows. No indexed
// column changes, so PostgreSQL reuses that space without a vacuum. Space that Sweep and
// Forget free is reused after a vacuum, which runs earlier than by default: when a twentieth
// of the rows is dead.
const room = `ALTER TABLE tsmon.clients SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
	ALTER TABLE tsmon.tries SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05)`

// steps returns the statements that build up the schema of a scope, in order.
func steps(scope string) ([]string, error) {
	if scope == central {
		all, err := sqlstore.Steps(sqlstore.Central)
		return append(all, room), err
	}
	all, err := sqlstore.Steps(sqlstore.Tenant)
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "{schema}", pgx.Identifier{scope}.Sanitize())
	}
	return all, err
}

const lockKey = 0x74736d6f6e // "tsmon"

// locked runs f while its connection holds the advisory lock of migrations. The server
// makes it wait for the lock.
func (s *server) locked(ctx context.Context, f func(c *pgx.Conn) error) error {
	return s.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		if _, err := c.Exec(ctx, `SELECT pg_catalog.pg_advisory_lock($1)`, int64(lockKey)); err != nil {
			return err
		}
		err := f(c.Conn())
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTime)
		defer cancel()
		if _, unlockErr := c.Exec(ctx, `SELECT pg_catalog.pg_advisory_unlock($1)`, int64(lockKey)); unlockErr != nil {
			_ = c.Conn().Close(ctx) // which unlocks too
		}
		return err
	})
}

// migrateAll brings the schemas of all scopes up to date.
func (s *server) migrateAll(ctx context.Context) error {
	return s.locked(ctx, func(c *pgx.Conn) error {
		if err := createVersions(ctx, c); err != nil {
			return err
		}
		if err := migrate(ctx, c, central); err != nil {
			return err
		}
		all, err := steps("")
		if err != nil {
			return err
		}
		rows, err := c.Query(ctx, `SELECT t.schema_name FROM tsmon.tenants t LEFT JOIN tsmon.migrations m ON m.scope = t.schema_name
			WHERE coalesce(m.version, 0) < $1`, len(all))
		if err != nil {
			return err
		}
		behind, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, schema := range behind {
			if err = migrate(ctx, c, schema); err != nil {
				break
			}
		}
		return err
	})
}

// CreateSchema returns record.ErrExists if the database holds another schema of that name.
func (s *server) CreateSchema(ctx context.Context, schema string) error {
	ctx, cancel := context.WithTimeout(ctx, migrateTime)
	defer cancel()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	return s.inTurn(ctx, func() error {
		return s.locked(ctx, func(c *pgx.Conn) error { return migrate(ctx, c, schema) })
	})
}

// Drop first locks all tables, and waits for each only briefly. A longer wait could cause a
// deadlock, which the server would resolve after a second by cancelling another call.
func (s *server) Drop(b *sqlstore.Batch, schema string) error {
	tables, err := sqlstore.Tables()
	var drop sqlstore.Batch
	drop.Exec(`SET LOCAL lock_timeout = '50ms'`) // for each table
	drop.Exec(`LOCK TABLE ` + strings.Join(tables, ", ") + ` IN ACCESS EXCLUSIVE MODE`)
	drop.Exec(`SET LOCAL lock_timeout = 0`)
	b.Statements = slices.Concat(drop.Statements, b.Statements)
	b.Exec(`DROP SCHEMA {schema} CASCADE`)
	b.Exec(`DELETE FROM tsmon.migrations WHERE scope = $1`, schema)
	return err
}

// createVersions creates the table of versions. It first checks whether the table exists,
// since the user may lack the right to create a schema.
func createVersions(ctx context.Context, c *pgx.Conn) error {
	var exists bool
	err := c.QueryRow(ctx, `SELECT pg_catalog.to_regclass('tsmon.migrations') IS NOT NULL`).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = c.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS tsmon;
		CREATE TABLE tsmon.migrations (scope text COLLATE "C" PRIMARY KEY, version bigint NOT NULL)`)
	return err
}

// migrate applies the missing steps of a scope, each in a transaction with its version. The
// caller holds the lock.
func migrate(ctx context.Context, c *pgx.Conn, scope string) error {
	all, err := steps(scope)
	if err != nil {
		return err
	}
	return apply(ctx, c, scope, all)
}

func apply(ctx context.Context, c *pgx.Conn, scope string, steps []string) error {
	var have int
	err := c.QueryRow(ctx, `SELECT version FROM tsmon.migrations WHERE scope = $1`, scope).Scan(&have)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	for version := have; version < len(steps); version++ {
		err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, steps[version]); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO tsmon.migrations (scope, version) VALUES ($1, $2)
				ON CONFLICT (scope) DO UPDATE SET version = excluded.version`, scope, version+1)
			return err
		})
		if err != nil {
			return fmt.Errorf("migrate %s to version %d: %w", scope, version+1, err)
		}
	}
	return nil
}
