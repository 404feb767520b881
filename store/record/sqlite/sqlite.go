// Package sqlite keeps records in one SQLite file.
//
// Each tenant has tables of its own, t$SCHEMA$NAME. All tenants, the audit rows and the
// clients of updates share the file: it is one thing to copy, and one transaction can
// hold a save and all that it depends on. A commit is synced to disk.
package sqlite

import (
	"cmp"
	"context"
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
	Call time.Duration // of each call of the contract, 10 s
	Lock time.Duration // that Open waits for another process, 1 min
}

const readers = 4 // connections

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
	return open(ctx, path, limits, steps)
}

func open(ctx context.Context, path string, limits Limits, steps []string) (*Store, error) {
	for i := range steps {
		steps[i] = translate(structure.Replace(steps[i]), "")
	}
	call := cmp.Or(limits.Call, 10*time.Second)
	file, err := sqlitefile.Open(ctx, path, sqlitefile.Options{
		Steps: steps, Readers: readers, Lock: cmp.Or(limits.Lock, time.Minute), Pragmas: []string{"synchronous(full)"},
		Busy: call * 9 / 10, // that wait can't be interrupted, so it ends before the call does
	})
	db := &database{file}
	if err != nil {
		return nil, fmt.Errorf("open records in %s: %w", path, sqlstore.Translate(ctx, db, err))
	}
	return &Store{sqlstore.New(db, call), db}, nil
}

// TryWrite implements record.Store. It writes beside the file, and ends with the write.
func (s *Store) TryWrite(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return sqlstore.Translate(ctx, s, err)
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

func (d *database) Translate(err error) error {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
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
