// Package sqlite keeps records in one SQLite file.
//
// Each tenant has tables of its own, t$SCHEMA$NAME. All tenants, the audit log and the
// clients of updates share the file. A copy of it is therefore complete, and a transaction
// can save a diagram and read everything that it depends on. A commit is synced to disk.
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

// Limits bound what a store uses. A zero field means the value beside it.
type Limits struct {
	Call time.Duration // of each call of the contract, 10 s
	Lock time.Duration // how long Open waits for another process, 1 min
}

const readers = 4 // connections

// Store is an open file of records.
type Store struct {
	*sqlstore.Store
	*database
}

var _ record.Store = (*Store)(nil)

// Open opens or creates the file at path and brings its structure up to date. The folder
// must exist. The caller closes the store.
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
		Busy: call * 9 / 10, // this wait can't be interrupted, so it must end before the call
	})
	db := &database{file}
	if err != nil {
		return nil, fmt.Errorf("open records in %s: %w", path, sqlstore.Translate(ctx, db, err))
	}
	return &Store{sqlstore.New(db, call), db}, nil
}

// TryWrite writes a file beside the records. Cancelling ctx does not interrupt the write.
func (s *Store) TryWrite(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return sqlstore.Translate(ctx, s, err)
	}
	if err := s.Room(); err != nil {
		return fmt.Errorf("write test data to records: %w: %w", record.ErrUnavailable, err)
	}
	return nil
}

// Close closes the file. Closing the nil Store of a failed Open does nothing.
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
