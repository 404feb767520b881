package sqlite

import (
	"context"
	"errors"
	"fmt"
)

var errNewer = errors.New("the file was written by a newer program")

// versions are the steps of the schema; a file's user_version says how many of
// them it has seen.
//
// A field has one series for each set of tags, which is kept as it stands in
// line protocol. Numbers and booleans (1 and 0) of a field lie in one column.
// Times are nanoseconds since 1970.
var versions = []string{`
CREATE TABLE databases (
	id   INTEGER PRIMARY KEY,
	name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE fields (
	id          INTEGER PRIMARY KEY,
	database    INTEGER NOT NULL REFERENCES databases,
	measurement TEXT NOT NULL,
	name        TEXT NOT NULL,
	kind        INTEGER NOT NULL,
	UNIQUE (database, measurement, name)
) STRICT;
CREATE TABLE streams (
	id    INTEGER PRIMARY KEY,
	field INTEGER NOT NULL REFERENCES fields,
	tags  TEXT NOT NULL,
	UNIQUE (field, tags)
) STRICT;
CREATE TABLE points (
	stream INTEGER NOT NULL REFERENCES streams,
	time   INTEGER NOT NULL,
	value  ANY NOT NULL,
	PRIMARY KEY (stream, time)
) STRICT, WITHOUT ROWID;
`}

// migrate brings the schema up to date in one transaction, which also makes a
// second process wait that opens the file at the same time.
func (s *Store) migrate(ctx context.Context) error {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var have int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return err
	}
	if have > len(versions) {
		return fmt.Errorf("%w: its schema has version %d, this program knows %d", errNewer, have, len(versions))
	}
	for _, step := range versions[have:] {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(versions))); err != nil {
		return err
	}
	return tx.Commit()
}
