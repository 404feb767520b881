package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"tsmon/store/record"
	"tsmon/store/record/recordtest"
	"tsmon/store/record/sqlstore"
	"tsmon/store/servertest"
)

func TestMain(m *testing.M) { recordtest.Main(m, openStore) }

func openStore(_ context.Context, url string) (record.Store, error) {
	return Open(url, Limits{Conns: 1})
}

// patient are limits for tests in which many write at once, on a machine that may be busy.
var patient = Limits{Call: 2 * time.Minute}

// connect opens a store whose connections find no table that a statement does
// not qualify.
func connect(t testing.TB, url string, limits Limits) *Store {
	t.Helper()
	s, err := Open(url+"&search_path=pg_catalog", limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestContract(t *testing.T) {
	server := servertest.StartPostgres(t)
	recordtest.Suite(t, func(t *testing.T) record.Store { return connect(t, server.Database(), patient) })
	t.Run("OneConnection", func(t *testing.T) { testOneConnection(t, server) })
	t.Run("TwoStores", func(t *testing.T) { testTwoStores(t, server) })
	t.Run("WritersApart", func(t *testing.T) { testWritersApart(t, server) })
	t.Run("DeleteBesideReaders", func(t *testing.T) { testDeleteBesideReaders(t, server) })
	t.Run("Old", func(t *testing.T) { testOld(t, server) })
	t.Run("Starters", func(t *testing.T) { recordtest.Starters(t, openStore, server.Database()) })
	t.Run("Ages", func(t *testing.T) { testAges(t, server) })
	t.Run("Growth", func(t *testing.T) { testGrowth(t, server) })
	t.Run("Trips", func(t *testing.T) { testTrips(t, server) })
	t.Run("ForgetInPieces", func(t *testing.T) { testForgetInPieces(t, server) })
	t.Run("ForeignSchema", func(t *testing.T) { testForeignSchema(t, server) })
	t.Run("HalfMadeTenant", func(t *testing.T) { testHalfMadeTenant(t, server) })
	t.Run("Locked", func(t *testing.T) { testLocked(t, server) })
	t.Run("ReadOnly", func(t *testing.T) { testReadOnly(t, server) })
	t.Run("Restart", func(t *testing.T) { testRestart(t, server) })
	t.Run("Down", func(t *testing.T) { testDown(t, server) })
}

func makeTenant(t *testing.T, s *Store, schema string) {
	t.Helper()
	if err := s.CreateTenant(t.Context(), record.Tenant{Schema: schema, TsName: "x"}); err != nil {
		t.Fatal(err)
	}
}

// testAges simulates many days. On a busy machine one of 60,000 calls may wait long.
func testAges(t *testing.T, server *servertest.Postgres) {
	s := connect(t, server.Database(), Limits{Call: 10 * time.Minute})
	recordtest.Ages(t, 11, s, vacuumed(t, s))
}

// testGrowth lets a fleet grow.
func testGrowth(t *testing.T, server *servertest.Postgres) {
	s := connect(t, server.Database(), Limits{})
	recordtest.Growth(t, s, vacuumed(t, s))
}

// vacuumed returns a function that cleans up, as the server does by itself, and returns
// the size of the tables of clients.
func vacuumed(t *testing.T, s *Store) func() int64 {
	return func() (bytes int64) {
		_, err := s.pool.Exec(t.Context(), `VACUUM (ANALYZE)`)
		if err == nil {
			err = s.pool.QueryRow(t.Context(), `SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname IN ('clients', 'tries', 'samples')`).Scan(&bytes)
		}
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
}

// testOneConnection makes tenants and saves where every call has to wait for the
// others: none may wait for a second connection while it holds the only one.
func testOneConnection(t *testing.T, server *servertest.Postgres) {
	s := connect(t, server.Database(), Limits{Conns: 1})
	var all errgroup.Group
	for i := range 8 {
		all.Go(func() error {
			schema := fmt.Sprintf("t%d", i%4)
			if err := s.CreateTenant(t.Context(), record.Tenant{Schema: schema, TsName: "x"}); err != nil {
				return err
			}
			_, err := s.SaveDiagram(t.Context(), schema, record.Diagram{}, record.Deleted{})
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
}

// testTwoStores records clients through two stores, as two servers would.
func testTwoStores(t *testing.T, server *servertest.Postgres) {
	url := server.Database()
	recordtest.SightRace(t, connect(t, url, patient), connect(t, url, patient))
	url = server.Database()
	recordtest.BoundRace(t, connect(t, url, patient), connect(t, url, patient))
	url = server.Database()
	recordtest.OutboxRace(t, connect(t, url, patient), connect(t, url, patient))
	url = server.Database()
	recordtest.TenantDeletedElsewhere(t, connect(t, url, patient), connect(t, url, patient))
}

// testWritersApart: a server that waits for a row of a client does not keep another one
// from writing other clients.
func testWritersApart(t *testing.T, server *servertest.Postgres) {
	url := server.Database()
	waiting, other := connect(t, url, patient), connect(t, url, patient)
	all := recordtest.Sightings(2)
	one := record.Sightings{Installed: all.Installed[:1]}
	if err := waiting.Sight(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	holder, err := other.pool.Begin(t.Context())
	if err == nil {
		_, err = holder.Exec(t.Context(), `SELECT 1 FROM tsmon.clients FOR UPDATE`)
	}
	if err != nil {
		t.Fatal(err)
	}
	one.Installed[0].Seen = time.Now()
	done := make(chan error, 1)
	go func() { done <- waiting.Sight(t.Context(), one) }()
	for blocked := false; !blocked; {
		err := other.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_locks WHERE NOT granted)`).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Sight(t.Context(), record.Sightings{Installed: all.Installed[1:], Tries: all.Tries, Downloads: all.Downloads}); err != nil {
		t.Error(err)
	}
	if err := errors.Join(holder.Rollback(t.Context()), <-done); err != nil {
		t.Error(err)
	}
}

// testOld opens a database of the first version of the central structure.
func testOld(t *testing.T, server *servertest.Postgres) {
	url := server.Database()
	old := connect(t, url, Limits{})
	all, err := steps(central)
	if err != nil {
		t.Fatal(err)
	}
	err = old.locked(t.Context(), func(c *pgx.Conn) error {
		if err := createVersions(t.Context(), c); err != nil {
			return err
		}
		return apply(t.Context(), c, central, all[:1])
	})
	if err != nil {
		t.Fatal(err)
	}
	old.migrated.Store(true)
	makeTenant(t, old, "a")
	for range 2 {
		s := connect(t, url, Limits{})
		if _, err := s.Users(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		recordtest.Sighted(t, s)
	}
}

// testDeleteBesideReaders deletes a tenant while another session reads its tables in any
// order: neither side fails.
func testDeleteBesideReaders(t *testing.T, server *servertest.Postgres) {
	url := server.Database()
	s, other := connect(t, url, Limits{}), connect(t, url, Limits{})
	tables, err := sqlstore.Tables()
	if err != nil || len(tables) < 8 {
		t.Fatalf("tables of a tenant: %v, %v", tables, err)
	}
	for n := range tables {
		makeTenant(t, s, "a")
		reader, err := other.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		read := func(table string) {
			if _, err := reader.Exec(t.Context(), `SELECT FROM `+strings.Replace(table, "{schema}", "a", 1)); err != nil {
				t.Errorf("read %s after %s, beside a delete: %v", table, tables[n], err)
			}
		}
		read(tables[n])
		done := make(chan error, 1)
		go func() { done <- s.DeleteTenant(t.Context(), "a") }()
		for blocked := false; !blocked; {
			err := other.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_locks WHERE NOT granted)`).Scan(&blocked)
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, table := range tables {
			read(table)
		}
		if err := errors.Join(reader.Rollback(t.Context()), <-done); err != nil {
			t.Errorf("delete beside a reader of %s: %v", tables[n], err)
		}
	}
}

func execute(t *testing.T, s *Store, statements string) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
}

// testForeignSchema: the database has a schema of another program.
func testForeignSchema(t *testing.T, server *servertest.Postgres) {
	s := connect(t, server.Database(), Limits{})
	makeTenant(t, s, "a")
	execute(t, s, `CREATE SCHEMA other; CREATE TABLE other.users (id bigint, email text)`)
	if _, err := s.Users(t.Context(), "other"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("the users of a schema that is no tenant's: %v", err)
	}
	for range 2 {
		if err := s.CreateTenant(t.Context(), record.Tenant{Schema: "other", TsName: "x"}); !errors.Is(err, record.ErrExists) {
			t.Errorf("CreateTenant over a foreign schema: %v", err)
		}
	}
	execute(t, s, `DROP SCHEMA other CASCADE`)
	makeTenant(t, s, "other")
	execute(t, s, `DROP SCHEMA other CASCADE`)
	if _, err := s.Users(t.Context(), "other"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("the users of a schema that is gone: %v", err)
	}
}

// testHalfMadeTenant completes a tenant after a crash between two steps.
func testHalfMadeTenant(t *testing.T, server *servertest.Postgres) {
	s := connect(t, server.Database(), Limits{})
	if err := s.CreateSchema(t.Context(), "half"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Users(t.Context(), "half"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("the users of a half-made tenant: %v", err)
	}
	makeTenant(t, s, "half")
	if _, err := s.Users(t.Context(), "half"); err != nil {
		t.Error(err)
	}
}

// testLocked lets another session hold a tenant: a save fails in bounded time,
// leaves no transaction behind, and works afterwards.
func testLocked(t *testing.T, server *servertest.Postgres) {
	url := server.Database()
	s := connect(t, url, Limits{Conns: 1, Call: 300 * time.Millisecond})
	other := connect(t, url, Limits{})
	makeTenant(t, other, "a")
	tx, err := other.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM a.counters FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if _, err := s.SaveDiagram(t.Context(), "a", record.Diagram{}, record.Deleted{}); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("a save of a locked tenant says %v", err)
	}
	if _, err := s.Users(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("that took %v", took)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SaveDiagram(t.Context(), "a", record.Diagram{}, record.Deleted{}); err != nil {
		t.Error(err)
	}
}

// testReadOnly uses a server that refuses writes, as a standby does.
func testReadOnly(t *testing.T, server *servertest.Postgres) {
	url := server.Database()
	s := connect(t, url, Limits{})
	makeTenant(t, s, "a")
	if err := s.TryWrite(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Exec("postgres", "ALTER DATABASE "+url[strings.LastIndex(url, "/")+1:strings.Index(url, "?")]+" SET default_transaction_read_only = on")
	s = connect(t, url, Limits{})
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("it answers: %v", err)
	}
	if err := s.TryWrite(t.Context()); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("without writes the error is %v", err)
	}
}

// testRestart restarts the server below a pool of idle connections: one call at
// most may notice.
func testRestart(t *testing.T, server *servertest.Postgres) {
	s := connect(t, server.Database(), Limits{})
	makeTenant(t, s, "a")
	var idle []*pgxpool.Conn
	for range s.pool.Config().MaxConns {
		c, err := s.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	for _, c := range idle {
		c.Release()
	}
	server.Stop()
	server.Start()
	if _, err := s.Users(t.Context(), "a"); err != nil && !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("the first call says %v", err)
	}
	if _, err := s.Users(t.Context(), "a"); err != nil {
		t.Errorf("the second call says %v", err)
	}
}

// testDown opens a store while its server is away, and takes the server away
// again under load.
func testDown(t *testing.T, server *servertest.Postgres) {
	url := server.Database()
	server.Stop()
	s := connect(t, url, Limits{})
	demandDown(t, s)
	server.Start()
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	makeTenant(t, s, "a")
	for range 2 {
		load(t, s, server)
		demandDown(t, s)
		server.Start()
		if _, err := s.SaveDiagram(t.Context(), "a", record.Diagram{}, record.Deleted{}); err != nil {
			t.Fatal(err)
		}
	}
}

// load saves on all connections until the server, which it stops, is gone.
func load(t *testing.T, s *Store, server *servertest.Postgres) {
	t.Helper()
	const savers = 20
	ended, saved := make(chan error, savers), make(chan struct{}, savers)
	for range savers {
		go func() {
			for {
				_, err := s.SaveDiagram(t.Context(), "a", record.Diagram{Objects: record.Objects{Lines: make([]record.Object, 50)}}, record.Deleted{})
				if err != nil {
					ended <- err
					return
				}
				select {
				case saved <- struct{}{}:
				default:
				}
			}
		}()
	}
	<-saved
	server.Stop()
	for range savers {
		if err := <-ended; !errors.Is(err, record.ErrUnavailable) {
			t.Errorf("a save while the server goes away says %v", err)
		}
	}
}

func demandDown(t *testing.T, s *Store) {
	t.Helper()
	begun := time.Now()
	_, err := s.Tenant(t.Context(), "a")
	for _, err := range []error{err, s.Ping(t.Context()), s.Migrate(t.Context())} {
		if err != nil && !errors.Is(err, record.ErrUnavailable) {
			t.Errorf("without a server the error is %v", err)
		}
	}
	if err := s.Ping(t.Context()); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("without a server Ping says %v", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("that took %v", took)
	}
}

// TestSilentServer connects to a server that accepts and never answers.
func TestSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := connect(t, "postgres://u:secret@"+l.Addr().String()+"/db?sslmode=disable", Limits{Call: 200 * time.Millisecond})
	if err := s.Ping(t.Context()); !errors.Is(err, record.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error is %v", err)
	}
}

func TestBadURL(t *testing.T) {
	for _, url := range []string{"postgres://u:secret@host:port/db", "postgres://u:secret@host/db?sslmode=no", "::", "postgres://u:secret@h/d?pool_max_conns=x"} {
		s, err := Open(url, Limits{})
		if err == nil {
			s.Close()
			t.Errorf("%s was opened", url)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error of a URL holds its password: %v", err)
		}
	}
}
