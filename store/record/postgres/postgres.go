// Package postgres keeps records in PostgreSQL, each tenant in a schema of its name.
//
// All data of a tenant, its users included, is in its schema, so that a tenant can be
// dumped, restored or dropped as one thing. The schema tsmon holds the rest: the list
// of tenants, the audit log, which outlives tenants, the clients of updates, and the
// versions of all schemas. Every statement names its schema, quoted by the driver; the
// search_path does not matter. A schema that is not in the list of tenants is never
// touched, and CreateTenant does not adopt one.
//
// JSON is stored as json, since jsonb would change it. Writers of diagrams and contents
// lock the row of the tenant's counters and take two round trips: to lock and read,
// then to write and commit. Writers of clients take turns by an advisory lock.
//
// Open makes no connection. Migrate, or the first call that reaches the server, brings
// all schemas up to date under an advisory lock. While the server is away calls fail
// with ErrUnavailable.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"tsmon/store/record"
)

// Limits bound what a store uses. A zero field stands for the value named
// beside it.
type Limits struct {
	Call    time.Duration // of each call of the contract, 10 s
	Connect time.Duration // to make a connection, 5 s
	Migrate time.Duration // of Migrate and CreateTenant, 2 min
	Conns   int32         // connections, 10
}

func (l Limits) orDefaults() Limits {
	return Limits{
		Call:    cmp.Or(l.Call, 10*time.Second),
		Connect: cmp.Or(l.Connect, 5*time.Second),
		Migrate: cmp.Or(l.Migrate, 2*time.Minute),
		Conns:   cmp.Or(l.Conns, 10),
	}
}

// Store is a database of records.
type Store struct {
	*server
	tenants
	contents
	fleet
}

var _ record.Store = (*Store)(nil)

// The parts of a Store, each of which implements some interfaces of the contract.
type (
	tenants  struct{ *server } // Tenants, Users, Audits
	contents struct{ *server } // Variables, Diagrams, Access, Configuration, Contents
	fleet    struct{ *server } // Installs
)

// server runs statements in a database that is up to date.
type server struct {
	limits   Limits
	pool     *pgxpool.Pool
	turn     chan struct{} // holds a value while this process migrates
	migrated atomic.Bool
	known    sync.Map // schemas of existing tenants
}

// Open returns the store that a URL, postgres://…, names. The caller closes it.
func Open(url string, limits Limits) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("records url: %w", err)
	}
	return open(config, limits)
}

func open(config *pgxpool.Config, limits Limits) (*Store, error) {
	limits = limits.orDefaults()
	config.MaxConns = limits.Conns
	config.MinConns = 0
	config.ConnConfig.ConnectTimeout = limits.Connect
	pool, err := pgxpool.NewWithConfig(context.Background(), config) // connects to nothing
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	s := &server{limits: limits, pool: pool, turn: make(chan struct{}, 1)}
	return &Store{s, tenants{s}, contents{s}, fleet{s}}, nil
}

// Ping implements record.Store.
func (s *server) Ping(ctx context.Context) error {
	return s.do(ctx, "ping records", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.Ping(ctx)
	})
}

// Close implements record.Store.
func (s *server) Close() error {
	s.pool.Close()
	return nil
}

// Migrate brings all schemas up to date. The first call of the store does so too.
func (s *server) Migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Migrate)
	defer cancel()
	if err := s.prepare(ctx); err != nil {
		return fmt.Errorf("prepare records: %w", s.translate(ctx, err))
	}
	return nil
}

// prepare migrates once.
func (s *server) prepare(ctx context.Context) error {
	if s.migrated.Load() {
		return nil
	}
	return s.inTurn(ctx, func() error {
		if s.migrated.Load() {
			return nil
		}
		if err := s.migrateAll(ctx); err != nil {
			return err
		}
		s.migrated.Store(true)
		return nil
	})
}

// inTurn makes this process wait for the lock of migrations with one connection only.
func (s *server) inTurn(ctx context.Context, f func() error) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
		return f()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// do runs f with a connection to a database that is up to date, and rolls back a
// transaction that f leaves open.
func (s *server) do(ctx context.Context, what string, f func(ctx context.Context, c *pgxpool.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Call)
	defer cancel()
	err := s.prepare(ctx)
	if err == nil {
		err = s.acquire(ctx, f)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, s.translate(ctx, err))
	}
	return nil
}

func (s *server) acquire(ctx context.Context, f func(ctx context.Context, c *pgxpool.Conn) error) error {
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release() // closes it if a transaction is still open
	err = f(ctx, c)
	if err != nil && c.Conn().PgConn().TxStatus() != 'I' {
		c.Exec(ctx, `ROLLBACK`) // where it fails, Release closes
	}
	return err
}

// of runs f with a connection and the name of an existing tenant's schema.
func (s *server) of(ctx context.Context, what, schema string, f func(ctx context.Context, c *pgxpool.Conn, in in) error) error {
	if err := record.ValidSchema(schema); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return s.do(ctx, what+" of "+schema, func(ctx context.Context, c *pgxpool.Conn) error {
		if err := s.find(ctx, c, schema); err != nil {
			return err
		}
		return f(ctx, c, in(pgx.Identifier{schema}.Sanitize()))
	})
}

// find returns record.ErrNotFound if there is no such tenant. It caches existing ones.
func (s *server) find(ctx context.Context, c *pgxpool.Conn, schema string) error {
	if _, ok := s.known.Load(schema); ok {
		return nil
	}
	err := c.QueryRow(ctx, `SELECT 1 FROM tsmon.tenants WHERE schema_name = $1`, schema).Scan(new(int))
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: there is no such tenant", record.ErrNotFound)
	}
	if err == nil {
		s.known.Store(schema, true)
	}
	return err
}

// in is the quoted name of a tenant's schema.
type in string

// sql puts the schema into a statement.
func (n in) sql(statement string) string {
	return strings.ReplaceAll(statement, "{schema}", string(n))
}

// translate maps the errors of the driver to those of the contract.
func (s *server) translate(ctx context.Context, err error) error {
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return record.ErrNotFound
	case errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled):
		return context.Canceled
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", record.ErrUnavailable, context.DeadlineExceeded)
	case isLost(err):
		s.pool.Reset() // the other connections are as dead
		return fmt.Errorf("%w: %w", record.ErrUnavailable, err)
	case errors.As(err, &pg):
		return kind(pg, err)
	}
	return err
}

// isLost reports whether there is no connection to the server.
func isLost(err error) bool {
	var refused *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &refused) || errors.As(err, &network) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// kind maps the error codes of the server.
func kind(pg *pgconn.PgError, err error) error {
	switch pg.Code {
	case "42P01", "3F000": // undefined table, undefined schema
		return fmt.Errorf("%w: %w", record.ErrNotFound, err)
	case "23505", "42P06": // unique violation, duplicate schema
		return fmt.Errorf("%w: %w", record.ErrExists, err)
	}
	switch pg.Code[:2] {
	case "22", "23", "54": // data exception, integrity constraint, limit exceeded
		return fmt.Errorf("%w: %w", record.ErrInvalid, err)
	case "08", "25", "40", "53", "55", "57", "58": // connection, transaction state, rollback, resources, state, operator, system
		return fmt.Errorf("%w: %w", record.ErrUnavailable, err)
	}
	return err
}

// rowTo adapts a function of package record to the driver.
func rowTo[T any](scan func(record.Scanner) (T, error)) pgx.RowToFunc[T] {
	return func(row pgx.CollectableRow) (T, error) { return scan(row) }
}

// query returns all rows of a query, nil for none.
func query[T any](ctx context.Context, c *pgxpool.Conn, scan func(record.Scanner) (T, error), statement string, args ...any) ([]T, error) {
	rows, err := c.Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	var all []T
	return pgx.AppendRows(all, rows, rowTo(scan))
}

// list returns all rows of a query about a tenant.
func list[T any](ctx context.Context, s *server, what, schema string, scan func(record.Scanner) (T, error), statement string, args ...any) (all []T, err error) {
	err = s.of(ctx, what, schema, func(ctx context.Context, c *pgxpool.Conn, in in) (err error) {
		all, err = query(ctx, c, scan, in.sql(statement), args...)
		return err
	})
	return all, err
}

// one returns the row of a query about a tenant. record.ErrNotFound if it has
// none.
func one[T any](ctx context.Context, s *server, what, schema string, scan func(record.Scanner) (T, error), statement string, args ...any) (found T, err error) {
	err = s.of(ctx, what, schema, func(ctx context.Context, c *pgxpool.Conn, in in) (err error) {
		found, err = scan(c.QueryRow(ctx, in.sql(statement), args...))
		return err
	})
	return found, err
}

func scanID(row record.Scanner) (id int64, err error) {
	err = row.Scan(&id)
	return id, err
}
