package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsmon/store/record/sqlstore"
	"tsmon/store/sqlitefile"
)

type tx struct {
	*sql.Tx
	schema string
}

func (d *database) Begin(ctx context.Context, mode sqlstore.Mode, schema string) (sqlstore.Tx, error) {
	db := d.Writer
	if mode == sqlstore.Read {
		db = d.Readers
	}
	begun, err := db.BeginTx(ctx, nil)
	return &tx{begun, schema}, err
}

func (d *database) CreateSchema(ctx context.Context, schema string) error {
	begun, err := d.Writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer begun.Rollback()
	var exists bool
	err = begun.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = ?)`, translate(`{schema}.counters`, schema)).Scan(&exists)
	if err != nil || exists {
		return err
	}
	steps, err := sqlstore.Steps(sqlstore.Tenant)
	for _, step := range steps {
		step = strings.ReplaceAll(structure.Replace(step), "CREATE INDEX ", "CREATE INDEX {schema}.")
		if _, err = begun.ExecContext(ctx, translate(step, schema)); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return begun.Commit()
}

// Drop drops the tables that refer to others first.
func (d *database) Drop(b *sqlstore.Batch, _ string) error {
	tables, err := sqlstore.Tables()
	for _, table := range slices.Backward(tables) {
		b.Exec(`DROP TABLE ` + table)
	}
	return err
}

func (t *tx) Close() { t.Rollback() } // does nothing after the commit

// structure translates the types of columns. A clustered table is stored in the order of
// its key.
var structure = strings.NewReplacer(
	"CREATE SCHEMA {schema};", "", "\n); -- clustered", "\n) STRICT, WITHOUT ROWID;", "\n);", "\n) STRICT;",
	" bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", " INTEGER PRIMARY KEY", ` COLLATE "C"`, "", ") STORED", ")",
	" bigint", " INTEGER", " boolean", " INTEGER", " json", " TEXT", " bytea", " BLOB", "(greatest(", "(max(",
)

var greatest, least = regexp.MustCompile(`greatest\(([^,()]+), ([^,()]+)\)`), regexp.MustCompile(`least\(([^,()]+), ([^,()]+)\)`)

// translate returns a statement in SQLite's dialect. There max and min of several arguments
// are NULL if one of them is, unlike greatest and least.
func translate(statement, schema string) string {
	statement = strings.NewReplacer("$", "?", "{schema}.", "t$"+schema+"$", "tsmon.", "", " FOR UPDATE SKIP LOCKED", "", " FOR UPDATE", "").Replace(statement)
	statement = greatest.ReplaceAllString(statement, "coalesce(max($1, $2), $1, $2)")
	return least.ReplaceAllString(statement, "coalesce(min($1, $2), $1, $2)")
}

func (t *tx) Send(ctx context.Context, b *sqlstore.Batch, last bool) error {
	for _, st := range b.Statements {
		if err := t.send(ctx, st); err != nil {
			return err
		}
	}
	if last {
		return t.Commit()
	}
	return nil
}

func (t *tx) send(ctx context.Context, st sqlstore.Statement) error {
	statement := translate(st.SQL, t.schema)
	switch {
	case st.Columns != nil:
		return t.sendList(ctx, statement, st)
	case st.Scan != nil:
		rows, err := t.QueryContext(ctx, statement, st.Args...)
		return sqlitefile.Scan(rows, err, st.Scan)
	}
	result, err := t.ExecContext(ctx, statement, st.Args...)
	if err == nil && st.Affected != nil {
		*st.Affected, err = result.RowsAffected()
	}
	return err
}

// sendList executes a statement for each row of a list, with the columns as parameters. In a
// statement about the whole list SQLite would not use an index.
func (t *tx) sendList(ctx context.Context, statement string, st sqlstore.Statement) error {
	parameters := []string{"FROM {rows}", "", ", {rows}", ""}
	for i, c := range st.Columns {
		parameters = append(parameters, "n."+c.Name, "?"+strconv.Itoa(i+1))
	}
	statement = strings.NewReplacer(parameters...).Replace(statement)
	prepared, err := t.PrepareContext(ctx, statement)
	if err != nil {
		return err
	}
	defer prepared.Close()
	for _, row := range st.Rows {
		if st.Scan == nil {
			_, err = prepared.ExecContext(ctx, row...)
		} else {
			rows, failed := prepared.QueryContext(ctx, row...)
			err = sqlitefile.Scan(rows, failed, st.Scan)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Forget scans one walk at a time.
func (d *database) Forget(ctx context.Context, tx sqlstore.Tx, walks []*sqlstore.Walk, before time.Time) (n int64, err error) {
	w := walks[0]
	var end []any // of the piece
	marks := strings.Repeat(", ?", len(w.Last)-1)
	after := fmt.Sprintf(`FROM %s WHERE (%s) > (?%s)`, w.Table, w.Key, marks)
	var look, remove sqlstore.Batch
	look.Query(func(r sqlstore.Scanner) error {
		end = make([]any, len(w.Last))
		into := make([]any, len(w.Last))
		for i := range end {
			into[i] = &end[i]
		}
		return r.Scan(into...)
	}, fmt.Sprintf(`SELECT %s %s ORDER BY %[1]s LIMIT 1 OFFSET %[3]d`, w.Key, after, sqlstore.Piece-1), w.Last...)
	if err := tx.Send(ctx, &look, false); err != nil {
		return 0, err
	}
	statement, args := `DELETE `+after, w.Last
	if w.Done = end == nil; !w.Done {
		statement += fmt.Sprintf(` AND (%s) <= (?%s)`, w.Key, marks)
		args, w.Last = slices.Concat(args, end), end
	}
	remove.Count(&n, statement+` AND seen < ?`, append(slices.Clip(args), before.UnixMicro())...)
	err = tx.Send(ctx, &remove, true) // sets n
	return n, err
}
