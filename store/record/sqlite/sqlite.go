// Package sqlite keeps records in one SQLite file.
//
// Every table of what a tenant owns has the tenant in its key, and every
// statement about it binds the tenant as a parameter, so that no schema name is
// ever part of a statement. All tenants, the audit rows and the clients of
// updates share the file: it is one thing to copy, and one transaction can hold a
// save and all that it depends on. A commit is synced to disk.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"tsmon/store/record"
	"tsmon/store/sqlitefile"
)

//go:embed migrations/*.sql
var embedded embed.FS

// Limits bound what a store uses. A zero field stands for the value named
// beside it.
type Limits struct {
	Call    time.Duration // of each call of the contract, 10 s
	Lock    time.Duration // that Open waits for another process, 1 min
	Readers int           // connections, 4
}

func (l Limits) orDefaults() Limits {
	return Limits{
		Call:    cmp.Or(l.Call, 10*time.Second),
		Lock:    cmp.Or(l.Lock, time.Minute),
		Readers: cmp.Or(l.Readers, 4),
	}
}

// Store is an open file of records.
type Store struct {
	*database
	tenants
	contents
	fleet
}

var _ record.Store = (*Store)(nil)

// The parts of a Store, each of which implements some interfaces of the contract.
type (
	tenants  struct{ *database } // Tenants, Users, Audits
	contents struct{ *database } // Variables, Diagrams, Access, Configuration, Contents
	fleet    struct{ *database } // Installs
)

// Open opens the file at path, makes it if its folder exists, and brings its
// structure up to date. The caller closes the store.
func Open(ctx context.Context, path string, limits Limits) (*Store, error) {
	steps, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return nil, err
	}
	return open(ctx, path, limits.orDefaults(), steps)
}

func open(ctx context.Context, path string, limits Limits, steps fs.FS) (*Store, error) {
	file, err := sqlitefile.Open(ctx, path, sqlitefile.Options{
		Steps: steps, Readers: limits.Readers, Lock: limits.Lock, Pragmas: []string{"synchronous(full)"},
		Busy: limits.Call * 9 / 10, // that wait can't be interrupted, so it ends before the call does
	})
	if err != nil {
		return nil, fmt.Errorf("open records in %s: %w", path, translate(ctx, err))
	}
	db := &database{file, limits.Call}
	return &Store{db, tenants{db}, contents{db}, fleet{db}}, nil
}

// Close implements record.Store. Closing the nil Store of a failed Open does
// nothing.
func (s *Store) Close() error {
	if s == nil {
		return nil
	}
	return s.File.Close()
}

// database runs actions in transactions of a file.
type database struct {
	*sqlitefile.File
	limit time.Duration // of a call
}

// Ping implements record.Store.
func (d *database) Ping(ctx context.Context) error {
	return d.do(ctx, "ping records", d.Readers, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM tenants LIMIT 1)`).Scan(new(int))
	})
}

// action is what happens in a transaction.
type action func(ctx context.Context, tx *sql.Tx) error

// do runs an action in a transaction of one of the two pools.
func (d *database) do(ctx context.Context, what string, db *sql.DB, act action) error {
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	tx, err := db.BeginTx(ctx, nil)
	if err == nil {
		if err = act(ctx, tx); err == nil {
			err = tx.Commit()
		}
		tx.Rollback() // does nothing after the commit
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, translate(ctx, err))
	}
	return nil
}

// read runs an action on one state of a tenant's records.
func (d *database) read(ctx context.Context, what, schema string, act action) error {
	return d.of(ctx, what, schema, d.Readers, act)
}

// write runs an action that changes a tenant's records.
func (d *database) write(ctx context.Context, what, schema string, act action) error {
	return d.of(ctx, what, schema, d.Writer, act)
}

func (d *database) of(ctx context.Context, what, schema string, db *sql.DB, act action) error {
	if err := record.ValidSchema(schema); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return d.do(ctx, what+" of "+schema, db, func(ctx context.Context, tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `SELECT 1 FROM tenants WHERE tenant = ?`, schema).Scan(new(int))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: there is no such tenant", record.ErrNotFound)
		}
		if err != nil {
			return err
		}
		return act(ctx, tx)
	})
}

// translate maps the errors of the driver to those of the contract.
func translate(ctx context.Context, err error) error {
	var e *sqlite.Error
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return record.ErrNotFound
	case errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled):
		return context.Canceled
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", record.ErrUnavailable, context.DeadlineExceeded)
	case !errors.As(err, &e):
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CONSTRAINT:
		return fmt.Errorf("%w: %w", record.ErrInvalid, err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM:
		return fmt.Errorf("%w: %w", record.ErrUnavailable, err)
	}
	return err
}

// list returns all rows of a query.
func list[T any](ctx context.Context, tx *sql.Tx, scan func(record.Scanner) (T, error), query string, args ...any) (all []T, err error) {
	err = sqlitefile.Query(ctx, tx, func(r sqlitefile.Row) error {
		element, err := scan(r)
		all = append(all, element)
		return err
	}, query, args...)
	return all, err
}

// listOf returns all rows of a query about a tenant.
func listOf[T any](ctx context.Context, d *database, what, schema string, scan func(record.Scanner) (T, error), query string, args ...any) (all []T, err error) {
	err = d.read(ctx, what, schema, func(ctx context.Context, tx *sql.Tx) (err error) {
		all, err = list(ctx, tx, scan, query, args...)
		return err
	})
	return all, err
}

// each executes a statement with the arguments of each element of a list.
func each[T any](ctx context.Context, tx *sql.Tx, list []T, args func(T) []any, statement string) error {
	if len(list) == 0 {
		return nil
	}
	prepared, err := tx.PrepareContext(ctx, statement)
	if err != nil {
		return err
	}
	defer prepared.Close()
	for _, element := range list {
		if _, err := prepared.ExecContext(ctx, args(element)...); err != nil {
			return err
		}
	}
	return nil
}
