// Package sqlite keeps records in one SQLite file.
//
// Each tenant has tables of its own, t$SCHEMA$NAME. All tenants, the audit rows and the
// clients of updates share the file: it is one thing to copy, and one transaction can
// hold a save and all that it depends on. A commit is synced to disk.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"tsmon/store/record"
	"tsmon/store/record/sqlstore"
	"tsmon/store/sqlitefile"
)

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
	*sqlstore.Store
	*database
}

var _ record.Store = (*Store)(nil)

// Open opens the file at path, makes it if its folder exists, and brings its
// structure up to date. The caller closes the store.
func Open(ctx context.Context, path string, limits Limits) (*Store, error) {
	steps, err := sqlstore.Steps(sqlstore.Central)
	if err != nil {
		return nil, err
	}
	return open(ctx, path, limits.orDefaults(), steps)
}

func open(ctx context.Context, path string, limits Limits, steps []string) (*Store, error) {
	for i := range steps {
		steps[i] = translate(structure.Replace(steps[i]), "")
	}
	file, err := sqlitefile.Open(ctx, path, sqlitefile.Options{
		Steps: steps, Readers: limits.Readers, Lock: limits.Lock, Pragmas: []string{"synchronous(full)"},
		Busy: limits.Call * 9 / 10, // that wait can't be interrupted, so it ends before the call does
	})
	if err != nil {
		return nil, fmt.Errorf("open records in %s: %w", path, (*database)(nil).Translate(ctx, err))
	}
	db := &database{file}
	return &Store{sqlstore.New(db, limits.Call), db}, nil
}

// TryWrite implements record.Store. It writes beside the file, and ends with the write.
func (s *Store) TryWrite(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return s.Translate(ctx, err)
	}
	if err := s.Room(); err != nil {
		return fmt.Errorf("try a write of records: %w: %w", record.ErrUnavailable, err)
	}
	return nil
}

// Close implements record.Store. Closing the nil Store of a failed Open does
// nothing.
func (s *Store) Close() error {
	if s == nil {
		return nil
	}
	return s.File.Close()
}

// database is the sqlstore.Database.
type database struct{ *sqlitefile.File }

// Translate implements sqlstore.Database.
func (d *database) Translate(ctx context.Context, err error) error {
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
