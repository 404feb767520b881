// Package postgres keeps records in PostgreSQL, with each tenant in a schema of that name.
//
// The schema of a tenant holds all its data including users, so that the tenant can be
// dumped, restored or dropped as a whole. The schema tsmon holds the list of tenants, the
// audit log, which outlives tenants, the clients of updates, and the versions of all
// schemas. Every statement names its schema, quoted by the driver; the search_path does not
// matter. The store leaves other schemas alone, and CreateTenant does not adopt one.
//
// JSON is stored as json, since jsonb would change it. Writers of diagrams and contents
// lock the row of the tenant's counters and make two round trips: the first locks and
// reads, the second writes and commits. Writers of clients lock rows in the order of their
// keys.
//
// Open does not connect. Migrate, or the first call that reaches the server, brings all
// schemas up to date under an advisory lock. Calls fail with ErrUnavailable while the
// server can't be reached.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"

	"tsmon/store/record"
	"tsmon/store/record/sqlstore"
)

// Limits bound what a store uses. A zero field means the value beside it.
type Limits struct {
	Call  time.Duration // of each call of the contract, 10 s
	Conns int32         // connections, 10
}

const (
	connectTime = 5 * time.Second // to make a connection
	migrateTime = 2 * time.Minute // of Migrate and CreateTenant
)

// Store is a database of records.
type Store struct {
	*sqlstore.Store
	*server
}

var _ record.Store = (*Store)(nil)

// server is the sqlstore.Database.
type server struct {
	pool     *pgxpool.Pool
	turn     *semaphore.Weighted // of 1, held while this process migrates
	migrated atomic.Bool
}

// Open returns the store at a URL, postgres://…. The caller closes it.
func Open(url string, limits Limits) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("records url: %w", err)
	}
	return open(config, limits)
}

func open(config *pgxpool.Config, limits Limits) (*Store, error) {
	config.MaxConns = cmp.Or(limits.Conns, 10)
	config.MinConns = 0
	config.ConnConfig.ConnectTimeout = connectTime
	pool, err := pgxpool.NewWithConfig(context.Background(), config) // connects to nothing
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	s := &server{pool: pool, turn: semaphore.NewWeighted(1)}
	return &Store{sqlstore.New(s, cmp.Or(limits.Call, 10*time.Second)), s}, nil
}

func (s *server) Close() error {
	s.pool.Close()
	return nil
}

// Migrate brings all schemas up to date, as the first call of the store does.
func (s *server) Migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, migrateTime)
	defer cancel()
	if err := s.prepare(ctx); err != nil {
		return fmt.Errorf("prepare records: %w", sqlstore.Translate(ctx, s, err))
	}
	return nil
}

// prepare brings all schemas up to date, once.
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

// inTurn runs one f at a time, so that only one connection of this process waits for the
// lock of migrations.
func (s *server) inTurn(ctx context.Context, f func() error) error {
	if err := s.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.turn.Release(1)
	return f()
}

func (s *server) Translate(err error) error {
	if isLost(err) {
		s.pool.Reset() // the other connections are lost too
		return fmt.Errorf("%w: %w", record.ErrUnavailable, err)
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	switch pg.Code {
	case "42P01", "3F000": // undefined table, undefined schema
		return fmt.Errorf("%w: %w", record.ErrNotFound, err)
	case "23505", "42P06": // unique violation, duplicate schema
		return fmt.Errorf("%w: %w", record.ErrExists, err)
	case "40001", "40P01", "55P03": // serialization failure, deadlock, lock not available
		return fmt.Errorf("%w: %w", sqlstore.ErrLocked, err)
	}
	switch pg.Code[:2] {
	case "22", "23", "54": // data exception, integrity constraint, limit exceeded
		return fmt.Errorf("%w: %w", record.ErrInvalid, err)
	case "08", "25", "40", "53", "55", "57", "58": // connection, transaction state, rollback, resources, state, operator, system
		return fmt.Errorf("%w: %w", record.ErrUnavailable, err)
	}
	return err
}

func isLost(err error) bool {
	_, refused := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	return refused || network || pgconn.SafeToRetry(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
