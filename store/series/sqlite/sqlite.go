// Package sqlite keeps time series in one SQLite file: the store of an
// installation that has no InfluxDB.
//
// The file holds any number of databases. A batch of samples is written in one transaction,
// whole or not at all; ErrKind, too, leaves nothing behind. Several processes may open the
// file: a writer waits five seconds for another's transaction.
//
// A write stores small chunks. The first write of the next hour packs them: the points of a
// series become one compressed block a day, with the values that came late or replaced
// others. A long import packs as it goes on. A reader merges blocks and chunks, so its
// answers don't depend on what is packed, and reads only the days of its window. A last
// value is one look into the index. block.go is the format of a block; pack.go says when
// blocks are made.
//
// A packed day of many points also has a rollup: their count, sum, minimum and maximum in
// each UTC hour, or in each half or quarter of an hour if the zone of the database needs
// that. Windows that are cut at such times are made of rollups, all others of the points
// themselves. Points are deleted by whole UTC days. The rollup of a deleted day stays; its
// parts then count for the windows in which they begin.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"tsmon/store/series"
	"tsmon/store/sqlitefile"
)

//go:embed schema/1.sql
var schema string

// busy is how long a writer waits for another process.
const busy = 5 * time.Second

// Options are the settings of a store. The defaults of zero fields stand beside them.
type Options struct {
	Now     func() time.Time // time.Now
	Timeout time.Duration    // of any call but CountBefore, 30 s
}

// Store is one file. Package series documents its methods.
type Store struct {
	file    *sqlitefile.File
	now     func() time.Time
	timeout time.Duration
	known   streams
	packing packing
}

var _ series.Store = (*Store)(nil)

// Open opens the file, which it creates in a folder that exists, and brings its structure
// up to date.
func Open(ctx context.Context, name string, opts Options) (*Store, error) {
	file, err := sqlitefile.Open(ctx, name, sqlitefile.Options{
		Steps: []string{schema}, Readers: 4, Lock: busy, Busy: busy,
		Pragmas: []string{"auto_vacuum(incremental)", "synchronous(normal)", "temp_store(memory)", "cache_size(-16000)"},
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, translate(ctx, err))
	}
	s := &Store{file: file, now: opts.Now, timeout: cmp.Or(opts.Timeout, 30*time.Second)}
	if s.now == nil {
		s.now = time.Now
	}
	return s, nil
}

// Close waits for running calls and closes the file. It does nothing for the nil Store of
// a failed Open.
func (s *Store) Close() error {
	if s == nil {
		return nil
	}
	return s.file.Close()
}

func (s *Store) Ping(ctx context.Context) error {
	return call(ctx, s.timeout, "ping", func(ctx context.Context) error {
		return s.file.Readers.QueryRowContext(ctx, "SELECT count(*) FROM databases").Scan(new(int))
	})
}

// TryWrite writes beside the file, and removes that again.
func (s *Store) TryWrite(ctx context.Context, database string) error {
	return s.read(ctx, s.timeout, "test a write to "+database, database, func(context.Context, *scanner) error { return s.file.Room() })
}

func (s *Store) Create(ctx context.Context, database string) error {
	if err := series.ValidDatabase(database); err != nil {
		return err
	}
	return call(ctx, s.timeout, "create database "+database, func(ctx context.Context) error {
		_, err := s.file.Writer.ExecContext(ctx, "INSERT INTO databases (name) VALUES (?) ON CONFLICT DO NOTHING", database)
		return err
	})
}

// call runs f for some time at most. Its error is one of the contract's and says what was
// attempted.
func call(ctx context.Context, timeout time.Duration, what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := f(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, translate(ctx, err))
	}
	return nil
}

// read calls f as call does, with a scanner of a database in one transaction: an answer
// reflects one state.
func (s *Store) read(ctx context.Context, timeout time.Duration, what, database string, f func(context.Context, *scanner) error) error {
	return call(ctx, timeout, what, func(ctx context.Context) error {
		return transact(ctx, s.file.Readers, func(tx statements) error {
			id, _, err := tx.find(ctx, database)
			if err != nil {
				return err
			}
			return f(ctx, &scanner{statements: tx, database: id})
		})
	})
}

// transact calls f in a transaction, which it commits unless f fails.
func transact(ctx context.Context, db *sql.DB, f func(statements) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(statements{tx, map[string]*sql.Stmt{}}); err != nil {
		return err
	}
	return tx.Commit()
}

// statements runs statements in a transaction. It prepares each once.
type statements struct {
	tx       *sql.Tx
	prepared map[string]*sql.Stmt // by their text
}

func (s statements) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if known := s.prepared[text]; known != nil {
		return known, nil
	}
	statement, err := s.tx.PrepareContext(ctx, text)
	s.prepared[text] = statement
	return statement, err
}

// each calls scan with each row of an answer.
func (s statements) each(ctx context.Context, scan func(sqlitefile.Row) error, text string, args ...any) error {
	statement, err := s.prepare(ctx, text) //nolint:sqlclosecheck // the transaction closes it
	if err != nil {
		return err
	}
	rows, err := statement.QueryContext(ctx, args...) //nolint:rowserrcheck // Scan checks it
	return sqlitefile.Scan(rows, err, scan)
}

func (s statements) exec(ctx context.Context, text string, args ...any) error {
	statement, err := s.prepare(ctx, text) //nolint:sqlclosecheck // the transaction closes it
	if err == nil {
		_, err = statement.ExecContext(ctx, args...)
	}
	return err
}

// find returns the ID of a database, and the day from which on it keeps points.
func (s statements) find(ctx context.Context, database string) (id, first int64, err error) {
	if err := series.ValidDatabase(database); err != nil {
		return 0, 0, err
	}
	err = s.tx.QueryRowContext(ctx, "SELECT id, first FROM databases WHERE name = ?", database).Scan(&id, &first)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, series.ErrNoDatabase
	}
	return id, first, err
}

// translate maps errors of the driver to those of the contract. An unknown one means that the
// file can't be used.
func translate(ctx context.Context, err error) error {
	for _, known := range []error{series.ErrNoDatabase, series.ErrKind, series.ErrName, series.ErrInvalid, series.ErrExpired, sqlitefile.ErrNewer} {
		if errors.Is(err, known) {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var e *driver.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case codes.SQLITE_PERM, codes.SQLITE_READONLY, codes.SQLITE_AUTH:
			return fmt.Errorf("%w: %w", fs.ErrPermission, err)
		}
	}
	return fmt.Errorf("%w: %w", series.ErrUnavailable, err)
}
