package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// copyBusy is how long a copy waits for a writer.
const copyBusy = 10 * time.Second

// Copy copies a database that others may read and write, as it is between two
// transactions. There must be no file at to.
func Copy(ctx context.Context, path, to string) error {
	return with(path, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, "VACUUM INTO ?", to)
		return err
	})
}

// Check returns an error if a file is damaged or not a database.
func Check(ctx context.Context, path string) error {
	return with(path, func(db *sql.DB) error {
		var found string
		err := db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&found)
		if err == nil && found != "ok" {
			err = fmt.Errorf("the database is damaged: %.200s", found)
		}
		return err
	})
}

func with(path string, f func(*sql.DB) error) error {
	db, err := connect(path, 1, Options{Busy: copyBusy}, "deferred")
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}
