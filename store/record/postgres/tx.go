package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"tsmon/store/record/sqlstore"
)

// tx is a transaction. It begins with the first batch, unless that is a single statement.
type tx struct {
	*pgxpool.Conn
	mode   sqlstore.Mode
	schema string // quoted
	begun  bool
}

func (s *server) Begin(ctx context.Context, mode sqlstore.Mode, schema string) (sqlstore.Tx, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &tx{Conn: c, mode: mode, schema: pgx.Identifier{schema}.Sanitize()}, nil
}

// Close rolls back. The pool closes a connection whose transaction remains open.
func (t *tx) Close() {
	if t.Conn.Conn().PgConn().TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = t.Exec(ctx, `ROLLBACK`)
	}
	t.Release()
}

func (t *tx) Send(ctx context.Context, b *sqlstore.Batch, last bool) error {
	var batch pgx.Batch
	if !t.begun && (!last || len(b.Statements) > 1) {
		t.begin(&batch, last)
	}
	for i, st := range b.Statements {
		if b.Apart && last && i > 0 {
			batch.Queue(`COMMIT`)
			t.begin(&batch, last)
		}
		queue(&batch, strings.ReplaceAll(st.SQL, "{schema}", t.schema), st)
	}
	if last && t.begun {
		batch.Queue(`COMMIT`)
	}
	if batch.Len() == 0 {
		return nil
	}
	return t.SendBatch(ctx, &batch).Close()
}

// begin begins the transaction. If another batch follows, a timeout releases the locks in
// case this process disappears.
func (t *tx) begin(batch *pgx.Batch, last bool) {
	t.begun = true
	if t.mode == sqlstore.Read {
		batch.Queue(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`)
	} else {
		batch.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
	}
	if !last {
		batch.Queue(`SET LOCAL idle_in_transaction_session_timeout = '10s'`)
	}
}

// queue adds a statement. {rows} of a list becomes one array for each column.
func queue(batch *pgx.Batch, statement string, st sqlstore.Statement) {
	args := st.Args
	if st.Columns != nil {
		statement = strings.ReplaceAll(statement, "{rows}", unnest(st.Columns))
		for i := range st.Columns {
			column := make(pgtype.FlatArray[any], len(st.Rows))
			for n, row := range st.Rows {
				column[n] = row[i]
			}
			args = append(args, column)
		}
	}
	queued := batch.Queue(statement, args...)
	switch {
	case st.Scan != nil:
		queued.Query(func(rows pgx.Rows) error {
			defer rows.Close()
			for rows.Next() {
				if err := st.Scan(rows); err != nil {
					return err
				}
			}
			return rows.Err()
		})
	case st.Affected != nil:
		queued.Exec(func(tag pgconn.CommandTag) error {
			*st.Affected = tag.RowsAffected()
			return nil
		})
	}
}

// unnest returns {rows} of a list.
func unnest(columns []sqlstore.Column) string {
	var arrays, names []string
	for i, c := range columns {
		arrays = append(arrays, "$"+strconv.Itoa(i+1)+"::"+c.Type+"[]")
		names = append(names, c.Name)
	}
	return "unnest(" + strings.Join(arrays, ", ") + ") AS n (" + strings.Join(names, ", ") + ")"
}

// Forget skips locked rows: they are recent, and waiting for them could cause a deadlock.
func (s *server) Forget(ctx context.Context, tx sqlstore.Tx, walks []*sqlstore.Walk, before time.Time) (n int64, err error) {
	var b sqlstore.Batch
	for _, w := range walks {
		queueForget(&b, w, before, &n)
	}
	err = tx.Send(ctx, &b, true) // sets n
	return n, err
}

// queueForget deletes rows of the next piece of a walk, and adds their number to n.
func queueForget(b *sqlstore.Batch, w *sqlstore.Walk, before time.Time, n *int64) {
	marks := "$3"
	for i := range w.Last[1:] {
		marks += fmt.Sprintf(", $%d", i+4)
	}
	args := append([]any{before.UnixMicro(), sqlstore.Piece}, w.Last...)
	w.Done = true // unless there is a row
	b.Query(func(row sqlstore.Scanner) error {
		var gone, piece int64
		into := []any{&gone, &piece}
		for i := range w.Last {
			into = append(into, &w.Last[i])
		}
		err := row.Scan(into...)
		w.Done = piece < sqlstore.Piece
		*n += gone
		return err
	}, strings.NewReplacer("{table}", w.Table, "{key}", w.Key, "{last}", marks, "{down}", strings.ReplaceAll(w.Key, ",", " DESC,")+" DESC").Replace(`
		WITH piece AS MATERIALIZED (SELECT {key}, ctid AS at, seen FROM {table} WHERE ({key}) > ({last}) ORDER BY {key} LIMIT $2),
			gone AS (DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table}
				WHERE ctid = ANY(ARRAY(SELECT at FROM piece WHERE seen < $1)) AND seen < $1 FOR UPDATE SKIP LOCKED)) RETURNING 1)
		SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM piece), {key} FROM piece
		ORDER BY {down} LIMIT 1`), args...)
}
