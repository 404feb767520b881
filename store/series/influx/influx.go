// Package influx keeps time series in InfluxDB, 1.8 or 2.x, through its official
// client.
//
// Queries are InfluxQL, which both versions understand (2.x for every bucket that
// has a mapping, which it creates with a bucket), with many statements in one
// request. A name is bound as an identifier unless it holds only letters, digits,
// hyphens, dots and underscores. Every field is cast to its kind, so that a field
// of another kind elsewhere can't fail the request; booleans are counted, never
// averaged. The server merges tag sets.
//
// For each database a store caches:
//
//   - the kinds of its fields, for five minutes. A key that is not among them is
//     missing; it is looked up again when the kinds are a minute old;
//   - how far back the last value of each key was. A search covers the newest hour,
//     then a day, then all time, which takes the server ten times as long, and the
//     next search begins where the value is expected;
//   - that a key has no value at all, for a minute.
//
// A database with a retention has a second one, named after it with .rollups, of what its
// values amount to in each hour; Keep writes it. Series answers with it for what is older
// than the retention, as far as windows begin at whole hours or the zone's midnights.
// Values that are written later than a day before they are deleted are not in it.
//
// Values of a new key that another program writes may therefore be seen a minute
// late. What this store writes is seen at once.
package influx

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	influxdb2 "github.com/influxdata/influxdb-client-go/v2"
	client "github.com/influxdata/influxdb-client-go/v2/api/http"

	"tsmon/store/series"
)

// Options are the settings of a store. A zero field stands for the value named
// beside it.
type Options struct {
	URL   string // http://…:8086
	Org   string // of InfluxDB 2.x; none
	Token string // of 2.x, or user:password of 1.8; none

	Now     func() time.Time // time.Now
	Dial    time.Duration    // to connect, 3 s
	Timeout time.Duration    // of a request, 15 s
	Answer  int64            // the largest answer in bytes, 64 MiB
}

// Store is one server. Its methods may be called concurrently.
type Store struct {
	org    string
	place  string // the URL without credentials
	now    func() time.Time
	client influxdb2.Client
	http   *http.Client

	mu       sync.Mutex
	memories map[string]*memory // by database
	buckets  *bool              // whether the server has some, once that is known
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
	s := &Store{
		org: opts.Org, place: u.String(), now: opts.Now, http: newHTTP(opts), memories: map[string]*memory{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	settings := influxdb2.DefaultOptions().SetHTTPClient(s.http).SetApplicationName("tsmon")
	s.client = influxdb2.NewClientWithOptions(opts.URL, opts.Token, settings)
	return s, nil
}

// newHTTP returns a client whose waits and answers are bounded. It follows no
// redirects: the token is meant for one server.
func newHTTP(opts Options) *http.Client {
	dial := cmp.Or(opts.Dial, 3*time.Second)
	return &http.Client{
		Timeout:       cmp.Or(opts.Timeout, 15*time.Second),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: bounded{cmp.Or(opts.Answer, 64<<20), &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: dial}).DialContext,
			TLSHandshakeTimeout: dial,
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     90 * time.Second,
		}},
	}
}

// bounded is a transport whose answers fail with http.MaxBytesError past a size.
type bounded struct {
	size int64
	http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, b.size)
	}
	return answer, err
}

// Close closes idle connections.
func (s *Store) Close() error {
	s.client.Close()
	s.http.CloseIdleConnections()
	return nil
}

// Ping implements series.Store.
func (s *Store) Ping(ctx context.Context) (err error) {
	defer s.explain(ctx, "ping", &err)
	service := s.client.HTTPService()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, service.ServerURL()+"ping", nil)
	if err != nil {
		return err
	}
	answer, err := service.DoHTTPRequestWithResponse(request, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		return &client.Error{StatusCode: answer.StatusCode}
	}
	return nil
}

// Create implements series.Store. On 2.x it creates a bucket with unlimited retention.
func (s *Store) Create(ctx context.Context, database string) (err error) {
	if err := series.ValidDatabase(database); err != nil {
		return err
	}
	defer s.explain(ctx, "create database "+database, &err)
	return s.make(ctx, database)
}

// make creates a database if it does not exist.
func (s *Store) make(ctx context.Context, database string) error {
	has, err := s.hasBuckets(ctx)
	if err != nil {
		return err
	}
	if has {
		return s.createBucket(ctx, database)
	}
	q := query{}
	q.add("CREATE DATABASE " + q.bind(database))
	_, err = s.ask(ctx, "", q)
	return err
}
