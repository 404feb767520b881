// Package apitest is the kit of tests of the HTTP interface. A World is what a server
// needs, on embedded back ends or on real ones; a Client sends requests to a server on
// it and holds each answer to the OpenAPI description.
package apitest

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/api"
	"tsmon/api/fleet"
	"tsmon/api/monitor"
	"tsmon/api/monitor/mqtt"
	"tsmon/api/monitor/token"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/object"
	"tsmon/store/object/dir"
	"tsmon/store/object/s3"
	"tsmon/store/record"
	"tsmon/store/record/postgres"
	recordfile "tsmon/store/record/sqlite"
	"tsmon/store/series"
	"tsmon/store/series/influx"
	seriesfile "tsmon/store/series/sqlite"
	"tsmon/store/servertest"
)

// World is a server's options and back ends, with two tenants and their users.
type World struct {
	api.Options
	Broker    string            // address that devices subscribe at
	InfluxURL string            // URL of InfluxDB, if there is one
	MinIO     *servertest.MinIO // nil: the objects lie in a folder
	Logged    *servertest.Log
	Clock     *Clock
	Settle    func(database string) // waits until what was written is answered

	Ana, Eva, Luis Login // of acueducto: an operator, an administrator, and somebody without grants
	Otro           Login // of another tenant
}

// Login is the body of a login.
type Login struct {
	Email    string `json:"email"`
	TokenApp string `json:"tokenApp"`
	Schema   string `json:"schemaName"`
	TsName   string `json:"ts_name"`
}

// Clock is a clock that a test can move.
type Clock struct {
	mu    sync.Mutex
	moved time.Duration
}

func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.moved)
}

func (c *Clock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved += d
}

// timed is a store whose time is that of a clock.
type timed struct {
	object.Store
	clock *Clock
}

func (s timed) Now(context.Context) (time.Time, error) { return s.clock.Now(), nil }

// DesktopOrigins are the origins of the desktop application.
var DesktopOrigins = []string{"tauri://localhost", "http://tauri.localhost", "https://tauri.localhost"}

// Must returns a function that ends the test on an error and else returns the value.
func Must[T any](tb testing.TB) func(T, error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// Embedded returns a world on SQLite, a folder and a broker in the process.
func Embedded(tb testing.TB) *World {
	tb.Helper()
	return EmbeddedIn(tb, tb.TempDir())
}

// EmbeddedIn returns a world on SQLite in a folder, with the names that `tsmon serve` gives
// what is in its data folder. A server may take it over when the test of the world has ended.
func EmbeddedIn(tb testing.TB, folder string) *World {
	tb.Helper()
	w := &World{Settle: func(string) {}}
	w.Objects = Must[*dir.Store](tb)(dir.Open(filepath.Join(folder, "objects")))
	records := Must[*recordfile.Store](tb)(recordfile.Open(tb.Context(), filepath.Join(folder, "records.db"), recordfile.Limits{}))
	tb.Cleanup(func() { records.Close() })
	w.Records = records
	values := Must[*seriesfile.Store](tb)(seriesfile.Open(tb.Context(), filepath.Join(folder, "series.db"), seriesfile.Options{}))
	tb.Cleanup(func() { values.Close() })
	w.Series = values
	broker := Must[*mqtt.Broker](tb)(mqtt.Listen(tb.Context(), mqtt.BrokerOptions{Address: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}))
	tb.Cleanup(func() { broker.Close() })
	w.Messages, w.Broker = broker, broker.Addr()
	w.fill(tb, "acueducto", "otro")
	return w
}

// Number makes names unique within a test binary.
var Number atomic.Int64

// Servers are real back ends, which worlds can share.
type Servers struct {
	minio    *servertest.MinIO
	Postgres *servertest.Postgres
	influx   *servertest.InfluxDB
	broker   *servertest.Mosquitto
}

// StartServers starts MinIO, PostgreSQL, InfluxDB and Mosquitto, or ends the test
// where one is missing.
func StartServers(tb testing.TB) *Servers {
	tb.Helper()
	s := &Servers{servertest.StartMinIO(tb), servertest.StartPostgres(tb), servertest.StartInfluxDB(tb), servertest.StartMosquitto(tb)}
	s.minio.Setenv()
	s.minio.MakeBucket("tsmon")
	return s
}

// World returns a world on the servers, whose tenants no other world has.
func (s *Servers) World(tb testing.TB) *World {
	tb.Helper()
	w := &World{Settle: s.influx.Settle, InfluxURL: s.influx.URL, MinIO: s.minio}
	n := strconv.FormatInt(Number.Add(1), 10)
	w.Objects = Must[object.Store](tb)(s3.Open(s.minio.URL("tsmon/app"+n), s3.Limits{}))
	records := Must[*postgres.Store](tb)(postgres.Open(s.Postgres.Database(), postgres.Limits{}))
	tb.Cleanup(func() { records.Close() })
	w.Records = records
	values := Must[*influx.Store](tb)(influx.Open(influx.Options{URL: s.influx.URL, Now: func() time.Time { return w.Clock.Now() }}))
	tb.Cleanup(func() { values.Close() })
	w.Series = values
	client := Must[*mqtt.Client](tb)(mqtt.Dial(tb.Context(), mqtt.Options{URL: s.broker.URL(), Log: slog.New(slog.DiscardHandler)}))
	tb.Cleanup(func() { client.Close() })
	w.Messages, w.Broker = client, s.broker.URL()
	w.fill(tb, "acueducto"+n, "otro"+n)
	return w
}

// MetricsKey opens what the key of the metrics does.
const MetricsKey = "metrics-of-every-test"

// fill creates the tenants and their users, and sets the other options.
func (w *World) fill(tb testing.TB, schema, other string) {
	tb.Helper()
	w.Logged, w.Clock = &servertest.Log{}, &Clock{}
	w.Objects = timed{w.Objects, w.Clock}
	w.Log = slog.New(slog.NewJSONHandler(w.Logged, nil))
	w.Tokens = Must[*token.Keys](tb)(token.Open(filepath.Join(tb.TempDir(), "keys", "token-keys.json")))
	w.Tokens.Now = w.Clock.Now
	w.Now = w.Clock.Now
	w.Refresh, w.Clients, w.MaxUpload = config.DefaultRefresh, config.DefaultClients, config.DefaultMaxUpload
	w.Origins = []string{"https://scada.example.com"}
	w.Guards = &fleet.Guards{Default: fleet.Guard{Failures: config.DefaultFailures, Networks: config.DefaultNetworks}, Records: w.Records, Now: w.Clock.Now}
	w.Uploads = monitor.KeyPair{Access: "access-of-the-test", Secret: "secret-of-the-test"}
	w.WriteToken, w.MetricsKey = "write-of-the-test", MetricsKey
	// Which clients are in a sample is the same in every run.
	if _, err := w.Records.CreateSecret(tb.Context(), fleet.SaltName, []byte("the salt of every test")); err != nil {
		tb.Fatal(err)
	}
	settings := record.Settings{TimeZone: "America/Bogota", SaveMenu: saveMenu, PublishMenu: publishMenu}
	for _, t := range []record.Tenant{
		{Schema: schema, TsName: "ts_" + schema, Settings: settings},
		{Schema: other, TsName: "ts_" + other},
	} {
		if err := w.Records.CreateTenant(tb.Context(), t); err != nil {
			tb.Fatal(err)
		}
		if err := w.Series.Create(tb.Context(), t.TsName); err != nil {
			tb.Fatal(err)
		}
	}
	w.Ana = w.user(tb, schema, record.User{Email: "ana@example.com", Profile: 7})
	w.Eva = w.user(tb, schema, record.User{Email: "eva@example.com", Profile: 8, Admin: true})
	w.Luis = w.user(tb, schema, record.User{Email: "luis@example.com", Profile: 9})
	w.Otro = w.user(tb, other, record.User{Email: "ana@example.com", Profile: 7, Admin: true})
}

func (w *World) user(tb testing.TB, schema string, u record.User) Login {
	tb.Helper()
	tokenApp := "partner-token-of-" + u.Email + "-" + schema
	u.TokenDigest = monitor.TokenDigest(tokenApp)
	Must[record.User](tb)(w.Records.CreateUser(tb.Context(), schema, u))
	return Login{u.Email, tokenApp, schema, "ts_" + schema}
}

// Write writes line protocol with timestamps in milliseconds.
func (w *World) Write(tb testing.TB, database, lines string) {
	tb.Helper()
	var samples []series.Sample
	for s, err := range series.Lines(strings.NewReader(lines), time.Millisecond, w.Clock.Now()) {
		if err != nil {
			tb.Fatal(err)
		}
		samples = append(samples, s)
	}
	if err := w.Series.Write(tb.Context(), database, samples); err != nil {
		tb.Fatal(err)
	}
	w.Settle(database)
}

// Serve starts a server with the world's present options.
func (w *World) Serve(tb testing.TB) *httptest.Server {
	tb.Helper()
	return ServeWith(tb, w, func(*api.Server, *http.Server) {})
}

// ServeHasty starts a server whose deadlines are short.
func (w *World) ServeHasty(tb testing.TB) *httptest.Server {
	tb.Helper()
	hasty := *w
	hasty.Deadline, hasty.StoreTime = 500*time.Millisecond, 500*time.Millisecond
	return hasty.Serve(tb)
}

// OnRealServers runs tests on MinIO, PostgreSQL, InfluxDB and Mosquitto, which they
// share, each test with tenants of its own.
func OnRealServers(t *testing.T, tests map[string]func(*testing.T, *World)) {
	servers := StartServers(t)
	for name, f := range tests {
		t.Run(name, func(t *testing.T) { f(t, servers.World(t)) })
	}
}
