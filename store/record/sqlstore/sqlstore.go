// Package sqlstore implements the contract of package record in SQL, for databases that the
// adapters open. Package record documents the methods.
//
// Statements use the part of PostgreSQL's dialect that the SQLite adapter can translate. The
// schema tsmon holds the tables that tenants share, {schema} those of one tenant. In a
// statement about a list, {rows} stands for a table n of all rows of the list, or of one row
// at a time. It comes last in FROM, and n qualifies its columns.
package sqlstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"tsmon/store/record"
)

// Mode is what a transaction is for.
type Mode int

const (
	Read  Mode = iota // reads one state of the database
	Write             // locks the counters of a tenant, or rows in the order of their keys
)

// Database is what an adapter provides.
type Database interface {
	// Begin brings the structure of the database up to date and begins a transaction.
	// schema is that of a tenant, or empty.
	Begin(ctx context.Context, mode Mode, schema string) (Tx, error)
	// CreateSchema creates the tables of a tenant unless they exist. schema is valid.
	CreateSchema(ctx context.Context, schema string) error
	// Drop adds the statements that drop the tables of a tenant to a batch. If the tables
	// are in use, the batch fails with ErrLocked and may be sent again.
	Drop(b *Batch, schema string) error
	// Forget scans the next Piece rows of at least one walk, deletes those last seen before
	// a time, and returns how many. It commits the transaction.
	Forget(ctx context.Context, tx Tx, walks []*Walk, before time.Time) (int64, error)
	// Translate maps an error of the driver to those of package record.
	Translate(err error) error
}

// Translate maps an error of a call to those of package record.
func Translate(ctx context.Context, db Database, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled):
		return context.Canceled
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", record.ErrUnavailable, context.DeadlineExceeded)
	}
	return db.Translate(err)
}

// Piece is how many rows of a table one transaction of a clean-up scans, so that others can
// write in between.
const Piece = 5000

// Walk is the position of Forget in a table, in the order of its key.
type Walk struct {
	Table string
	Key   string // columns
	Last  []any  // key of the last row of the last piece
	Done  bool
}

// ErrLocked says that another transaction holds a lock. It wraps record.ErrUnavailable.
var ErrLocked = fmt.Errorf("%w: another transaction holds a lock", record.ErrUnavailable)

// Tx is a transaction.
type Tx interface {
	// Send executes a batch in one round trip. It commits after the last batch.
	Send(ctx context.Context, b *Batch, last bool) error
	// Close rolls back unless a batch has committed.
	Close()
}

// Batch is a list of statements.
type Batch struct {
	Statements []Statement
	Apart      bool // the adapter may commit after each statement
}

// Statement is a statement of a batch.
type Statement struct {
	SQL      string
	Args     []any               // $1, $2, …
	Columns  []Column            // of {rows}, in a statement about a list
	Rows     [][]any             // of {rows}
	Scan     func(Scanner) error // called with each row of the result; may be nil
	Affected *int64              // set to the number of changed rows; may be nil; excludes Scan
}

// Scanner is a row of a result.
type Scanner = interface{ Scan(into ...any) error }

// Column is a column of a list.
type Column struct{ Name, Type string }

// Exec adds a statement and ignores its result.
func (b *Batch) Exec(statement string, args ...any) { b.add(Statement{SQL: statement, Args: args}) }

// Query adds a statement that returns rows.
func (b *Batch) Query(scan func(Scanner) error, statement string, args ...any) {
	b.add(Statement{SQL: statement, Args: args, Scan: scan})
}

// Count adds a statement and sets n to the number of rows that it changes.
func (b *Batch) Count(n *int64, statement string, args ...any) {
	b.add(Statement{SQL: statement, Args: args, Affected: n})
}

// add adds a statement. A text that no database can hold becomes NULL, which equals
// nothing.
func (b *Batch) add(st Statement) {
	for i, arg := range st.Args {
		if text, ok := arg.(string); ok && !record.Storable(text) {
			st.Args[i] = nil
		}
	}
	b.Statements = append(b.Statements, st)
}

// list adds a statement about a list unless the list is empty. columns are names and types,
// such as "id bigint, name text".
func (b *Batch) list(columns string, rows [][]any, scan func(Scanner) error, statement string) {
	if len(rows) > 0 {
		b.Statements = append(b.Statements, Statement{SQL: statement, Columns: parseColumns(columns), Rows: rows, Scan: scan})
	}
}

func parseColumns(text string) (columns []Column) {
	for column := range strings.SplitSeq(text, ", ") {
		name, kind, _ := strings.Cut(column, " ")
		columns = append(columns, Column{name, kind})
	}
	return columns
}

// upsert adds the rows of a list to a table, or replaces those with the same keys.
func (b *Batch) upsert(table, keys, columns string, rows [][]any) {
	var names, set []string
	for _, c := range parseColumns(columns) {
		names = append(names, c.Name)
		if !strings.Contains(", "+keys+",", " "+c.Name+",") {
			set = append(set, c.Name+" = excluded."+c.Name)
		}
	}
	b.list(columns, rows, nil, fmt.Sprintf(`INSERT INTO %s (%s) SELECT n.%s FROM {rows} WHERE true ON CONFLICT (%s) DO UPDATE SET %s`,
		table, strings.Join(names, ", "), strings.Join(names, ", n."), keys, strings.Join(set, ", ")))
}

// rowsOf returns the elements of a list as rows.
func rowsOf[T any](list []T, values func(T) []any) [][]any {
	rows := make([][]any, len(list))
	for i, element := range list {
		rows[i] = values(element)
	}
	return rows
}

// Store implements record.Store except for Close.
type Store struct {
	*core
	fleet
	tenants
	contents
}

// tenants implements record.Tenants, Users and Audits.
type tenants struct{ *core }

// contents implements record.Diagrams, Variables, Access, Configuration and Contents.
type contents struct{ *core }

// fleet implements record.Installs, Samples, Outcomes and Outbox.
type fleet struct{ *core }

// core runs the calls of the contract.
type core struct {
	db    Database
	limit time.Duration // of a call
	known sync.Map      // schemas of existing tenants
}

// New returns the store of a database. Calls take at most limit.
func New(db Database, limit time.Duration) *Store {
	c := &core{db: db, limit: limit}
	return &Store{c, fleet{c}, tenants{c}, contents{c}}
}

func (s *Store) Ping(ctx context.Context) error {
	_, err := list(ctx, s.core, central("ping records", Read), scan(func(n *int) []any { return []any{n} }), `SELECT 1 FROM tsmon.tenants LIMIT 1`)
	return err
}

// TryWrite replaces the only row of a table with random bytes, which do not compress.
func (s *Store) TryWrite(ctx context.Context) error {
	filler := make([]byte, 64<<10)
	rand.Read(filler) // never fails
	_, err := s.exec(ctx, central("write test data to records", Write),
		`INSERT INTO tsmon.room (id, filler) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET filler = excluded.filler`, filler)
	return err
}

type call struct {
	what   string // for errors
	mode   Mode
	schema string
	tenant bool // schema must be a tenant's
}

func central(what string, mode Mode) call { return call{what: what, mode: mode} }

func of(schema, what string, mode Mode) call { return call{what, mode, schema, true} }

// run runs f in a transaction. record.ErrNotFound if the call's tenant does not exist.
func (s *core) run(ctx context.Context, c call, f func(ctx context.Context, tx Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	if c.tenant {
		if err := record.ValidSchema(c.schema); err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		c.what += " of " + c.schema
		if err := s.find(ctx, c); err != nil {
			return err
		}
	}
	if err := s.transact(ctx, c, f); err != nil {
		return s.explain(ctx, c, Translate(ctx, s.db, err))
	}
	return nil
}

func (s *core) transact(ctx context.Context, c call, f func(ctx context.Context, tx Tx) error) error {
	tx, err := s.db.Begin(ctx, c.mode, c.schema)
	if err != nil {
		return err
	}
	defer tx.Close()
	return f(ctx, tx)
}

// explain adds the call to an error. It returns record.ErrNotFound if another process has
// deleted the tenant.
func (s *core) explain(ctx context.Context, c call, err error) error {
	if c.tenant && ctx.Err() == nil && !errors.Is(err, record.ErrUnavailable) {
		s.known.Delete(c.schema)
		if missing := s.find(ctx, c); errors.Is(missing, record.ErrNotFound) {
			return missing
		}
	}
	return fmt.Errorf("%s: %w", c.what, err)
}

// find returns record.ErrNotFound if the call's tenant does not exist. It remembers
// tenants that exist.
func (s *core) find(ctx context.Context, c call) error {
	if _, ok := s.known.Load(c.schema); ok {
		return nil
	}
	_, err := one(ctx, s, central(c.what, Read), scanTenant, selectTenant, c.schema)
	if errors.Is(err, record.ErrNotFound) {
		return fmt.Errorf("%s: tenant %w", c.what, record.ErrNotFound)
	}
	if err == nil {
		s.known.Store(c.schema, true)
	}
	return err
}

// send executes a batch in a transaction of its own.
func (s *core) send(ctx context.Context, c call, b *Batch) error {
	return s.run(ctx, c, func(ctx context.Context, tx Tx) error { return tx.Send(ctx, b, true) })
}

// exec executes a statement and returns the number of rows that it changes.
func (s *core) exec(ctx context.Context, c call, statement string, args ...any) (n int64, err error) {
	var b Batch
	b.Count(&n, statement, args...)
	err = s.send(ctx, c, &b)
	return n, err
}

// scan returns a function that reads a row into the fields of an element.
func scan[T any](fields func(*T) []any) func(Scanner) (T, error) {
	return func(row Scanner) (t T, err error) {
		err = row.Scan(fields(&t)...)
		return t, err
	}
}

// collect returns a function that appends rows to a list.
func collect[T any](all *[]T, scan func(Scanner) (T, error)) func(Scanner) error {
	return func(row Scanner) error {
		element, err := scan(row)
		*all = append(*all, element)
		return err
	}
}

// list returns the rows of a statement.
func list[T any](ctx context.Context, s *core, c call, scan func(Scanner) (T, error), statement string, args ...any) (all []T, err error) {
	var b Batch
	b.Query(collect(&all, scan), statement, args...)
	err = s.send(ctx, c, &b)
	return all, err
}

// one returns the row of a statement. record.ErrNotFound if there is none.
func one[T any](ctx context.Context, s *core, c call, scan func(Scanner) (T, error), statement string, args ...any) (found T, err error) {
	all, err := list(ctx, s, c, scan, statement, args...)
	switch {
	case err != nil:
		return found, err
	case len(all) == 0:
		return found, fmt.Errorf("%s: %w", c.what, record.ErrNotFound)
	}
	return all[0], nil
}

var scanID = scan(func(id *int64) []any { return []any{id} })

// queueNumbers reads rows of a text and a number.
func queueNumbers(b *Batch, into map[string]int64, statement string) {
	b.Query(func(r Scanner) error {
		var key string
		var n int64
		err := r.Scan(&key, &n)
		into[key] = n
		return err
	}, statement)
}

// stamp scans a time that is stored as a number of units since 1970. NULL is the zero time.
type stamp struct {
	into *time.Time
	unit func(int64) time.Time
}

func micros(into *time.Time) *stamp { return &stamp{into, time.UnixMicro} }

func millis(into *time.Time) *stamp { return &stamp{into, time.UnixMilli} }

func (s *stamp) Scan(value any) error {
	*s.into = time.Time{}
	if n, ok := value.(int64); ok {
		*s.into = s.unit(n).UTC()
	}
	return nil
}
