package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
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

	"tsmon/api/mqtt"
	"tsmon/api/token"
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

// world is a server's back ends with two tenants, and what is needed to ask it.
type world struct {
	Options
	broker string            // address that devices subscribe at
	influx string            // URL of InfluxDB, if there is one
	minio  *servertest.MinIO // nil: the objects lie in a folder
	log    *logged
	now    *clockAt
	settle func(database string) // waits until what was written is answered

	ana, eva, luis login // of acueducto: an operator, an administrator, and somebody without grants
	otro           login // of another tenant
}

// login is what a user logs in with.
type login struct {
	Email    string `json:"email"`
	TokenApp string `json:"tokenApp"`
	Schema   string `json:"schemaName"`
	TsName   string `json:"ts_name"`
}

// clockAt is a clock that a test can move.
type clockAt struct {
	mu    sync.Mutex
	moved time.Duration
}

func (c *clockAt) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.moved)
}

func (c *clockAt) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved += d
}

// logged is a log that a test can read.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const (
	saveMenu    = 2
	publishMenu = 3
)

// must fails the test on an error.
func must[T any](tb testing.TB) func(T, error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// embedded is a world on SQLite, a folder and a broker in the process.
func embedded(tb testing.TB) *world {
	tb.Helper()
	folder := tb.TempDir()
	w := &world{settle: func(string) {}}
	w.Objects = must[*dir.Store](tb)(dir.Open(filepath.Join(folder, "objects")))
	records := must[*recordfile.Store](tb)(recordfile.Open(tb.Context(), filepath.Join(folder, "records.db"), recordfile.Limits{}))
	tb.Cleanup(func() { records.Close() })
	w.Records = records
	values := must[*seriesfile.Store](tb)(seriesfile.Open(tb.Context(), filepath.Join(folder, "series.db"), seriesfile.Options{}))
	tb.Cleanup(func() { values.Close() })
	w.Series = values
	broker := must[*mqtt.Broker](tb)(mqtt.Listen(tb.Context(), mqtt.BrokerOptions{Address: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}))
	tb.Cleanup(func() { broker.Close() })
	w.Messages, w.broker = broker, broker.Addr()
	w.fill(tb, "acueducto", "otro")
	return w
}

// number makes the names of tenants that share a server different.
var number atomic.Int64

// servers are the real back ends that all tests of a process share.
type servers struct {
	minio    *servertest.MinIO
	postgres *servertest.Postgres
	influx   *servertest.InfluxDB
	broker   *servertest.Mosquitto
}

// startServers starts them, or ends the test where one can't be had.
func startServers(tb testing.TB) *servers {
	tb.Helper()
	s := &servers{servertest.StartMinIO(tb), servertest.StartPostgres(tb), servertest.StartInfluxDB(tb), servertest.StartMosquitto(tb)}
	s.minio.Setenv()
	s.minio.MakeBucket("tsmon")
	return s
}

// real is a world on MinIO, PostgreSQL, InfluxDB and Mosquitto.
func real(tb testing.TB, s *servers) *world {
	tb.Helper()
	w := &world{settle: s.influx.Settle, influx: s.influx.URL, minio: s.minio}
	n := strconv.FormatInt(number.Add(1), 10)
	w.Objects = must[object.Store](tb)(s3.Open(s.minio.URL("tsmon/app"+n), s3.Limits{}))
	records := must[*postgres.Store](tb)(postgres.Open(s.postgres.Database(), postgres.Limits{}))
	tb.Cleanup(func() { records.Close() })
	w.Records = records
	values := must[*influx.Store](tb)(influx.Open(influx.Options{URL: s.influx.URL, Now: func() time.Time { return w.now.now() }}))
	tb.Cleanup(func() { values.Close() })
	w.Series = values
	client := must[*mqtt.Client](tb)(mqtt.Dial(tb.Context(), mqtt.Options{URL: s.broker.URL(), Log: slog.New(slog.DiscardHandler)}))
	tb.Cleanup(func() { client.Close() })
	w.Messages, w.broker = client, s.broker.URL()
	w.fill(tb, "acueducto"+n, "otro"+n)
	return w
}

// fill makes the tenants and their users, and what the server needs besides.
func (w *world) fill(tb testing.TB, schema, other string) {
	tb.Helper()
	w.log, w.now = &logged{}, &clockAt{}
	w.Log = slog.New(slog.NewJSONHandler(w.log, nil))
	w.Tokens = must[*token.Keys](tb)(token.Open(filepath.Join(tb.TempDir(), "keys", "token-keys.json")))
	w.Tokens.Now = w.now.now
	w.Now = w.now.now
	w.Origins = []string{"https://scada.example.com"}
	w.Uploads = KeyPair{"access-of-the-test", "secret-of-the-test"}
	w.WriteToken = "write-of-the-test"
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
	w.ana = w.user(tb, schema, record.User{Email: "ana@example.com", Profile: 7})
	w.eva = w.user(tb, schema, record.User{Email: "eva@example.com", Profile: 8, Admin: true})
	w.luis = w.user(tb, schema, record.User{Email: "luis@example.com", Profile: 9})
	w.otro = w.user(tb, other, record.User{Email: "ana@example.com", Profile: 7, Admin: true})
}

func (w *world) user(tb testing.TB, schema string, u record.User) login {
	tb.Helper()
	tokenApp := "partner-token-of-" + u.Email + "-" + schema
	u.TokenDigest = TokenDigest(tokenApp)
	must[record.User](tb)(w.Records.CreateUser(tb.Context(), schema, u))
	return login{u.Email, tokenApp, schema, "ts_" + schema}
}

// put writes samples as line protocol.
func (w *world) put(tb testing.TB, database, lines string) {
	tb.Helper()
	var samples []series.Sample
	for s, err := range series.Lines(strings.NewReader(lines), time.Millisecond, w.now.now()) {
		if err != nil {
			tb.Fatal(err)
		}
		samples = append(samples, s)
	}
	if err := w.Series.Write(tb.Context(), database, samples); err != nil {
		tb.Fatal(err)
	}
	w.settle(database)
}

// serve starts a server on the world as it is now.
func (w *world) serve(tb testing.TB) *httptest.Server {
	tb.Helper()
	handler := New(w.Options)
	server := httptest.NewServer(handler.Handler())
	tb.Cleanup(func() {
		server.Close()
		handler.Close()
	})
	return server
}

// client asks a server as one user, or as nobody.
type client struct {
	tb    testing.TB
	base  string
	token string
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// as logs a user in.
func (w *world) as(tb testing.TB, server *httptest.Server, who login) client {
	tb.Helper()
	c := client{tb: tb, base: server.URL}
	got := c.post("/loginPartner", who)
	if got.status != http.StatusOK {
		tb.Fatalf("login of %s: %d %s", who.Email, got.status, got.body)
	}
	c.token = got.data(tb).(string)
	return c
}

// in is the client in a subtest.
func (c client) in(tb testing.TB) client {
	c.tb = tb
	return c
}

// send sends a request. A body that is no reader is sent as JSON.
func (c client) send(method, path string, body any, header http.Header) answer {
	c.tb.Helper()
	reader, isReader := body.(io.Reader)
	if !isReader && body != nil {
		reader = bytes.NewReader(must[[]byte](c.tb)(json.Marshal(body)))
	}
	r := must[*http.Request](c.tb)(http.NewRequestWithContext(c.tb.Context(), method, c.base+path, reader))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	return c.do(r)
}

// noRedirects shows every answer as it is.
var noRedirects = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       time.Minute,
}

func (c client) do(r *http.Request) answer {
	c.tb.Helper()
	got := must[*http.Response](c.tb)(noRedirects.Do(r))
	defer got.Body.Close()
	a := answer{got.StatusCode, got.Header, must[[]byte](c.tb)(io.ReadAll(got.Body))}
	checkDescribed(c.tb, r, a)
	return a
}

func (c client) post(path string, body any) answer {
	c.tb.Helper()
	return c.send(http.MethodPost, path, body, nil)
}

func (c client) get(path string) answer {
	c.tb.Helper()
	return c.send(http.MethodGet, path, nil, nil)
}

// raw is a body that is sent as it stands.
func raw(text string) io.Reader { return strings.NewReader(text) }

// data returns the member data of an answer that succeeded.
func (a answer) data(tb testing.TB) any {
	tb.Helper()
	var body struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(a.body, &body); err != nil || a.status != http.StatusOK {
		tb.Fatalf("%d %.300s: %v", a.status, a.body, err)
	}
	var v any
	if err := json.Unmarshal(body.Data, &v); err != nil {
		tb.Fatalf("%.300s: %v", a.body, err)
	}
	return v
}

// wantData demands an answer whose data is this JSON.
func (a answer) wantData(tb testing.TB, want string) {
	tb.Helper()
	var v any
	if err := json.Unmarshal([]byte(want), &v); err != nil {
		tb.Fatalf("%s: %v", want, err)
	}
	got := must[[]byte](tb)(json.Marshal(a.data(tb)))
	if wanted := must[[]byte](tb)(json.Marshal(v)); !bytes.Equal(got, wanted) {
		tb.Errorf("data is\n%s, want\n%s", got, wanted)
	}
}

// wantFailure demands the shape that the status has, and returns the messages.
func (a answer) wantFailure(tb testing.TB, status int) string {
	tb.Helper()
	if a.status != status {
		tb.Errorf("%d %.300s, want %d", a.status, a.body, status)
		return ""
	}
	var body map[string]struct {
		Message string `json:"message"`
		Code    string `json:"code"`
	}
	dec := json.NewDecoder(bytes.NewReader(a.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil || a.header.Get("Content-Type") != "application/json" {
		tb.Errorf("%s %.300q: %v", a.header.Get("Content-Type"), a.body, err)
	}
	if status == http.StatusUnauthorized {
		if e := body["error"]; len(body) != 1 || e.Code != "UNAUTHORIZED" || e.Message == "" {
			tb.Errorf("%.300s is not the body of 401", a.body)
		}
		return body["error"].Message
	}
	var all []string
	for i := range len(body) {
		name := "error" + string('1'+rune(i))
		if i < 9 && body[name].Message == "" {
			tb.Errorf("%.300s has no %s", a.body, name)
		}
		all = append(all, body[name].Message)
	}
	if len(all) == 0 {
		tb.Errorf("%d without a message", a.status)
	}
	return strings.Join(all, " ")
}

// interfaceTests run on every set of back ends.
var interfaceTests = map[string]func(*testing.T, *world){}

func TestEmbedded(t *testing.T) {
	for name, f := range interfaceTests {
		t.Run(name, func(t *testing.T) { f(t, embedded(t)) })
	}
}

func TestReal(t *testing.T) {
	servers := startServers(t)
	for name, f := range interfaceTests {
		t.Run(name, func(t *testing.T) { f(t, real(t, servers)) })
	}
}

// decodeSegment returns a part of a JWT, or nothing.
func decodeSegment(text string) []byte {
	data, _ := base64.RawURLEncoding.DecodeString(text)
	return data
}
