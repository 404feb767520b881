// Package influx keeps time series in InfluxDB, 1.8 or 2.x, through its official
// client, or in openGemini, whose differences are all in gemini.go.
//
// Queries are InfluxQL, many statements in one request. Both versions understand it: 2.x for
// every bucket that has a mapping, which it creates with a bucket. A name is bound as an
// identifier unless it holds only letters, digits, hyphens, dots and underscores. Every
// field is cast to its kind, so that a field of another kind elsewhere can't fail the
// request. Booleans are counted, never averaged. The server merges tag sets. Lines are
// written in requests of about four megabytes (write.go).
//
// For each database a store caches:
//
//   - the kinds of its fields, for five minutes. A key that is not among them is
//     missing; it is looked up again when the kinds are a minute old;
//   - how far back the last value of each key was. A search covers the newest hour,
//     then a day, then all time, which takes the server ten times as long. The next
//     search begins where the value is expected;
//   - that a key has no value at all, for a minute.
//
// A value of a new key that another program writes may therefore be seen a minute late. What
// this store writes is seen at once.
//
// A database with a retention has a second one with its rollups, named after it with
// .rollups (~rollups in openGemini). Keep writes it. Series reads it for what is older than
// the retention, as far as windows begin at whole hours or the zone's midnights. Values that
// are written later than a day before they are deleted are not in it. Where nobody calls
// Keep, because an operator gave the database its retention, there are no rollups, and
// values are read as far back as there are any.
package influx

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"tsmon/store/series"
)

// Options are the settings of a store. The defaults of zero fields stand beside them.
type Options struct {
	URL   string // http://…:8086
	Org   string // of InfluxDB 2.x; none
	Token string // of 2.x, or user:password of 1.8; none

	Now     func() time.Time // time.Now
	Timeout time.Duration    // of a request, 45 s; what goes through a whole database has ten minutes
	Answer  int64            // the largest answer in bytes, 64 MiB
}

// Store is the store of one server. Package series documents its methods.
type Store struct {
	server *server
	now    func() time.Time

	mu       sync.Mutex
	memories map[string]*memory // by database
}

var _ series.Store = (*Store)(nil)

// Open returns the store of a server. It makes no request.
func Open(opts Options) (*Store, error) {
	u, err := url.Parse(opts.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the url of the time-series database must look like http://host:8086")
	}
	if u.User != nil {
		return nil, errors.New("the url of the time-series database must not hold credentials; they go into the token, as user:password")
	}
	s := &Store{server: newServer(opts, u), now: opts.Now, memories: map[string]*memory{}}
	if s.now == nil {
		s.now = time.Now
	}
	return s, nil
}

// Close closes idle connections.
func (s *Store) Close() error {
	s.server.client.Close()
	s.server.http.CloseIdleConnections()
	return nil
}

func (s *Store) Ping(ctx context.Context) error {
	return s.server.explain(ctx, "ping", s.server.ping(ctx))
}

// Create creates a bucket with unlimited retention on 2.x.
func (s *Store) Create(ctx context.Context, database string) error {
	return s.call(ctx, "create database", database, func() error { return s.server.make(ctx, database) })
}

// call calls f if the name of the database is valid. The error says what was attempted.
func (s *Store) call(ctx context.Context, what, database string, f func() error) error {
	if err := series.ValidDatabase(database); err != nil {
		return err
	}
	return s.server.explain(ctx, what+" "+database, f())
}
