// Package sqlite keeps time series in one SQLite file: the store of an
// installation that has no InfluxDB.
//
// The file holds any number of databases side by side. One connection writes, a
// few read, and neither waits for the other (write-ahead log). A batch of
// samples is written in one transaction, whole or not at all; ErrKind, too,
// leaves nothing behind. Several processes may open the file: a writer waits for
// another's transaction as long as Limits say.
//
// A point lies in the order of its series and time, so that a last value is one
// look into the index whatever the number of points, and an aggregate or a
// series reads the points of its window and no others.
//
// The schema has a version. An older file is brought up to date when it is
// opened, one by a newer program is refused.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gofrs/flock"
	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"tsmon/store/series"
)

// Options are the settings of a store. A zero field stands for the value named
// beside it.
type Options struct {
	Now     func() time.Time // time.Now
	Readers int              // connections that read, 4
	Busy    time.Duration    // how long a writer waits for another process, 5 s
	Timeout time.Duration    // of any call, 30 s
}

// Store is one file. Its methods may be called concurrently.
type Store struct {
	now     func() time.Time
	timeout time.Duration
	reader  *sql.DB
	writer  *sql.DB
	known   streams
}

var _ series.Store = (*Store)(nil)

// Open opens the file, and makes it and its tables where they are not there.
// The folder must be there.
func Open(ctx context.Context, name string, opts Options) (*Store, error) {
	busy := cmp.Or(opts.Busy, 5*time.Second)
	s := &Store{now: opts.Now, timeout: cmp.Or(opts.Timeout, 30*time.Second)}
	if s.now == nil {
		s.now = time.Now
	}
	// Switching a new file to its write-ahead log does not wait for another
	// process that is doing the same: they take turns.
	lock, err := turn(ctx, name, busy)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, translate(ctx, err))
	}
	defer lock.Close()
	if s.writer, err = connect(name, busy, "immediate", 1); err != nil {
		return nil, err
	}
	if err = s.migrate(ctx); err == nil {
		s.reader, err = connect(name, busy, "deferred", cmp.Or(opts.Readers, 4))
	}
	if err != nil {
		s.writer.Close()
		return nil, fmt.Errorf("open %s: %w", name, translate(ctx, err))
	}
	return s, nil
}

// turn waits for the lock beside the file, which is to be closed.
func turn(ctx context.Context, name string, wait time.Duration) (*flock.Flock, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	lock := flock.New(name+".lock", flock.SetPermissions(0o600))
	_, err := lock.TryLockContext(ctx, 5*time.Millisecond)
	return lock, err
}

func connect(name string, busy time.Duration, lock string, connections int) (*sql.DB, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(abs), RawQuery: url.Values{
		"_txlock": {lock},
		"_pragma": {
			"busy_timeout(" + strconv.FormatInt(busy.Milliseconds(), 10) + ")",
			"journal_mode(wal)", "synchronous(normal)", "foreign_keys(on)", "temp_store(memory)", "cache_size(-16000)",
		},
	}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// Close waits for the calls that run and closes the file.
func (s *Store) Close() error {
	return errors.Join(s.reader.Close(), s.writer.Close())
}

// Ping implements series.Store.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var n int
	err := s.reader.QueryRowContext(ctx, "SELECT count(*) FROM databases").Scan(&n)
	return explain(ctx, "ping", err)
}

// Create implements series.Store.
func (s *Store) Create(ctx context.Context, database string) error {
	if err := series.ValidDatabase(database); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, err := s.writer.ExecContext(ctx, "INSERT INTO databases (name) VALUES (?) ON CONFLICT DO NOTHING", database)
	return explain(ctx, "create database "+database, err)
}

// querier is a connection, a pool of them or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// find returns the id of a database.
func find(ctx context.Context, q querier, database string) (id int64, err error) {
	if err := series.ValidDatabase(database); err != nil {
		return 0, err
	}
	err = q.QueryRowContext(ctx, "SELECT id FROM databases WHERE name = ?", database).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, series.ErrNoDatabase
	}
	return id, err
}

// explain names what was attempted and puts an error into the words of the contract.
func explain(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, translate(ctx, err))
}

// translate maps what the driver returns to the errors of the contract. What is
// not known there means that the file can't be used.
func translate(ctx context.Context, err error) error {
	for _, known := range []error{series.ErrNoDatabase, series.ErrKind, series.ErrName, series.ErrInvalid, errNewer} {
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
