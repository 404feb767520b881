// Package sqlitefile opens the SQLite files of the stores.
//
// A file has one connection that writes and a pool of connections that read. The
// journal is a write-ahead log: readers neither wait for the writer nor see what
// it has not committed. A writing transaction begins with the write lock, so that
// none fails halfway because another process was faster.
//
// The structure of a file is a list of steps; its user_version counts those that
// it has seen. Open applies the others under a lock on the file's name with .lock
// appended, and refuses a file that a newer program has written. The lock file
// stays; SQLite keeps its -wal and -shm files beside it. The write-ahead log, which grows
// while somebody reads, is cut to 8 MiB once that has ended.
package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	_ "modernc.org/sqlite" // the driver
)

// ErrNewer says that a newer program has written the file.
var ErrNewer = errors.New("the file was written by a newer program")

// Options are the settings of a file.
type Options struct {
	Steps   []string      // statements that build up the structure
	Readers int           // connections that read
	Lock    time.Duration // how long Open waits for another process
	Busy    time.Duration // how long a writer waits for another process
	Pragmas []string      // of all connections, such as synchronous(full)
}

// maxLog is what is left of a write-ahead log once it has been copied to the file, in
// bytes: twice the length at which SQLite begins to copy it.
const maxLog = 8 << 20

// File is an open file.
type File struct {
	Writer, Readers *sql.DB

	probe string // the file that Room writes
}

// Open opens the file, makes it if its folder exists, and brings its structure up
// to date.
func Open(ctx context.Context, path string, opts Options) (*File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, opts.Lock)
	defer cancel()
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 5*time.Millisecond); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	defer lock.Close()
	f := &File{probe: path + ".probe"}
	if f.Writer, err = connect(path, 1, opts, "immediate", "journal_mode(wal)", fmt.Sprintf("journal_size_limit(%d)", maxLog)); err != nil {
		return nil, err
	}
	if err = migrate(ctx, f.Writer, opts.Steps); err == nil {
		f.Readers, err = connect(path, opts.Readers, opts, "deferred", "query_only(1)")
	}
	if err != nil {
		return nil, errors.Join(err, f.Writer.Close())
	}
	return f, nil
}

func connect(path string, connections int, opts Options, lock string, pragmas ...string) (*sql.DB, error) {
	pragmas = append([]string{fmt.Sprintf("busy_timeout(%d)", opts.Busy.Milliseconds()), "foreign_keys(1)"}, pragmas...)
	query := url.Values{"_txlock": {lock}, "_pragma": append(pragmas, opts.Pragmas...)}
	name := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// migrate applies the missing steps in one transaction.
func migrate(ctx context.Context, db *sql.DB, steps []string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var have int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return err
	}
	if have > len(steps) {
		return fmt.Errorf("%w: its structure has version %d, this program knows %d", ErrNewer, have, len(steps))
	}
	for i, step := range steps[have:] {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return fmt.Errorf("migrate to version %d: %w", have+i+1, err)
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(steps))); err != nil {
		return err
	}
	return tx.Commit()
}

// Close waits for the calls that run and closes the file. Closing a nil File, as
// a failed Open returns it, does nothing.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	return errors.Join(f.Readers.Close(), f.Writer.Close())
}

// Row is *sql.Row or *sql.Rows.
type Row = interface{ Scan(into ...any) error }

// Scan calls scan with each row of what a query has returned.
func Scan(rows *sql.Rows, err error, scan func(Row) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
