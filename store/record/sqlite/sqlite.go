// Package sqlite keeps records in one SQLite file.
//
// Every table of what a tenant owns has the tenant in its key, and every
// statement about it names the tenant; a bound parameter, so that no schema name
// is ever part of a statement. All tables of all tenants, the audit rows and the
// clients of updates are in one file: it is one thing to copy, and one
// transaction can hold a save and what it depends on.
//
// Writers take turns: a store has one connection for writing, whose
// transactions begin with the write lock, so that none of them fails half-way
// because another process was faster. Readers have a pool of their own and, the
// journal being a write-ahead log, neither wait for the writer nor see what it
// has not committed. A commit is synced to disk.
//
// Open brings the file's structure up to date, under a lock on the file's name
// with .lock appended, which other processes that open it wait for. That lock
// file stays. Beside it SQLite keeps its -wal and -shm files.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"tsmon/store/record"
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
	limits  Limits
	writer  *sql.DB
	readers *sql.DB
}

var _ record.Store = (*Store)(nil)

// Open opens the file at path, makes it if its folder is there, and brings its
// structure up to date. The caller closes the store.
func Open(ctx context.Context, path string, limits Limits) (*Store, error) {
	s := &Store{limits: limits.orDefaults()}
	if err := s.open(ctx, path); err != nil {
		return nil, fmt.Errorf("open records in %s: %w", path, translate(ctx, err))
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.limits.Lock)
	defer cancel()
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 5*time.Millisecond); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	defer lock.Close()
	if s.writer, err = s.connect(path, 1, "journal_mode(wal)", "synchronous(full)"); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return errors.Join(err, s.writer.Close())
	}
	if s.readers, err = s.connect(path, s.limits.Readers, "query_only(1)"); err != nil {
		return errors.Join(err, s.writer.Close())
	}
	return nil
}

// connect opens a pool of connections. What waits for another process's lock
// can't be interrupted, so that it ends a little before the call does.
func (s *Store) connect(path string, conns int, pragmas ...string) (*sql.DB, error) {
	busy := fmt.Sprintf("busy_timeout(%d)", (s.limits.Call * 9 / 10).Milliseconds())
	query := url.Values{"_pragma": append([]string{busy, "foreign_keys(1)"}, pragmas...)}
	if conns == 1 {
		query.Set("_txlock", "immediate")
	}
	name := (&url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: query.Encode()}).String()
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, s.writer, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// Ping implements record.Store.
func (s *Store) Ping(ctx context.Context) error {
	return s.do(ctx, "ping records", s.readers, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM tenants LIMIT 1)`).Scan(new(int))
	})
}

// Close implements record.Store.
func (s *Store) Close() error {
	return errors.Join(s.readers.Close(), s.writer.Close())
}

// action is what happens in a transaction.
type action func(ctx context.Context, tx *sql.Tx) error

// do runs an action in a transaction of one of the two pools.
func (s *Store) do(ctx context.Context, what string, db *sql.DB, act action) error {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Call)
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
func (s *Store) read(ctx context.Context, what, schema string, act action) error {
	return s.of(ctx, what, schema, s.readers, act)
}

// write runs an action that changes a tenant's records.
func (s *Store) write(ctx context.Context, what, schema string, act action) error {
	return s.of(ctx, what, schema, s.writer, act)
}

func (s *Store) of(ctx context.Context, what, schema string, db *sql.DB, act action) error {
	if err := record.ValidSchema(schema); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return s.do(ctx, what+" of "+schema, db, func(ctx context.Context, tx *sql.Tx) error {
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

// translate puts errors of the driver into the contract's words.
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

// rows calls scan for each row of a query.
func rows(ctx context.Context, tx *sql.Tx, scan func(*sql.Rows) error, query string, args ...any) error {
	r, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer r.Close()
	for r.Next() {
		if err := scan(r); err != nil {
			return err
		}
	}
	return r.Err()
}
