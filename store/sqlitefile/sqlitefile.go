// Package sqlitefile opens the SQLite files of the stores.
//
// A file has one connection for writing and a pool of connections for reading. The
// journal is a write-ahead log: readers don't wait for the writer, and don't see what it
// has not committed. A writing transaction takes the write lock when it begins, so that
// none fails halfway because another process holds it.
//
// A list of steps builds up the structure of a file; user_version is the number of steps
// applied. Open applies the others while it holds a lock on the file of the same name with
// .lock appended, which is never removed. It refuses a file that a newer program has
// written. The write-ahead log grows while a reader is active and is cut to 8 MiB afterwards.
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

// ErrNewer says that the file has steps that this program does not know.
var ErrNewer = errors.New("the file was written by a newer program")

// Options are the settings of a file.
type Options struct {
	Steps   []string      // statements that build up the structure
	Readers int           // connections that read
	Lock    time.Duration // how long Open waits for another process that opens the file
	Busy    time.Duration // how long a transaction waits for another process that writes
	Pragmas []string      // for all connections, such as synchronous(full)
}

// maxLog is the size in bytes that a write-ahead log keeps after it has been copied to the
// file: twice the size at which SQLite begins to copy it.
const maxLog = 8 << 20

// File is an open file.
type File struct {
	Writer, Readers *sql.DB

	probe string // path of the file that Room writes
}

// Open opens a file, which it creates if there is none, and applies the missing steps. The
// folder must exist.
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

// Close waits for the running calls and closes the file. Closing the nil File of a failed
// Open does nothing.
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
