package postgres

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"tsmon/store/record"
	"tsmon/store/record/recordtest"
	"tsmon/store/record/sqlstore"
	"tsmon/store/servertest"
)

// trips counts round trips: how often something is sent after something was
// received.
type trips struct {
	n atomic.Int64
}

type countedConn struct {
	net.Conn
	trips    *trips
	received atomic.Bool
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.received.Store(true)
	}
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	if c.received.CompareAndSwap(true, false) {
		c.trips.n.Add(1)
	}
	return c.Conn.Write(p)
}

// counted opens a store of one connection whose round trips are counted.
func counted(tb testing.TB, url string) (*Store, *trips) {
	tb.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	var t trips
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &countedConn{Conn: conn, trips: &t}, err
	}
	s, err := open(config, Limits{Conns: 1})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s, &t
}

// testTrips holds the promises about round trips, statements being known to the
// connection.
func testTrips(t *testing.T, server *servertest.Postgres) {
	s, trips := counted(t, server.Database())
	schema, d := recordtest.Diagram(t, s)
	content, err := s.Export(t.Context(), schema)
	if err != nil {
		t.Fatal(err)
	}
	fresh := d
	fresh.Objects = record.Objects{Lines: make([]record.Object, recordtest.BenchmarkLines)}
	save := func(d record.Diagram) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.SaveDiagram(ctx, schema, d, record.Deleted{})
			return err
		}
	}
	for _, c := range []struct {
		name string
		most int64
		call func(ctx context.Context) error
	}{
		{"Diagram", 1, func(ctx context.Context) error { _, err := s.Diagram(ctx, schema, d.ID); return err }},
		{"SaveDiagram", 2, save(d)},
		{"SaveDiagramNewLines", 2, save(fresh)},
		{"Export", 1, func(ctx context.Context) error { _, err := s.Export(ctx, schema); return err }},
		{"Import", 2, func(ctx context.Context) error { return s.Import(ctx, schema, content) }},
		{"Variables", 1, func(ctx context.Context) error { _, err := s.Variables(ctx, schema); return err }},
		{"Sight", 1, func(ctx context.Context) error { return s.Sight(ctx, recordtest.Sightings(100)) }},
		{"ForgetClients", 2, func(ctx context.Context) error { _, err := s.ForgetClients(ctx, time.Time{}); return err }},
		{"Audit", 1, func(ctx context.Context) error { return s.Audit(ctx, record.Audit{}) }},
	} {
		if err := c.call(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := trips.n.Load()
		if err := c.call(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := trips.n.Load() - before; n > c.most {
			t.Errorf("%s takes %d round trips, at most %d are allowed", c.name, n, c.most)
		} else {
			t.Logf("%s: %d round trips", c.name, n)
		}
	}
}

// testForgetInPieces counts transactions, each of which is a round trip: others
// write between them.
func testForgetInPieces(t *testing.T, server *servertest.Postgres) {
	s, trips := counted(t, server.Database())
	if err := s.Sight(t.Context(), recordtest.Sightings(2*sqlstore.Piece+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ForgetClients(t.Context(), time.Time{}); err != nil { // the connection knows the statements
		t.Fatal(err)
	}
	before := trips.n.Load()
	n, err := s.ForgetClients(t.Context(), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
	if made := trips.n.Load() - before; n != 2*(2*sqlstore.Piece+1) || err != nil || made != 4 { // three pieces, and the samples
		t.Errorf("%d rows are gone in %d round trips, %v", n, made, err)
	}
}

func BenchmarkDiagram(b *testing.B) {
	server := servertest.StartPostgres(b)
	recordtest.Benchmarks(b, func(b *testing.B) (record.Store, func() int64) {
		s, trips := counted(b, server.Database())
		return s, trips.n.Load
	})
}

func BenchmarkSightings(b *testing.B) {
	recordtest.BenchmarkSightings(b, connect(b, servertest.StartPostgres(b).Database(), Limits{}))
}
