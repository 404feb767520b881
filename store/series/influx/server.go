package influx

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"tsmon/store/series"

	influxdb2 "github.com/influxdata/influxdb-client-go/v2"
	client "github.com/influxdata/influxdb-client-go/v2/api/http"
)

// server is the connection to one server, and what is known of its version.
type server struct {
	org     string
	place   string // the URL without credentials
	timeout time.Duration
	client  influxdb2.Client
	http    *http.Client
	gemini  gemini
	buckets atomic.Pointer[bool] // whether the server has some; nil before that is known
}

const (
	// RequestTime is how long a request may take by default. It is longer than any question
	// of a client of tsmon, so that a slow server is not taken for one that is away.
	RequestTime = 45 * time.Second

	patientTime = 10 * time.Minute // for what goes through a whole database
	dialTime    = 3 * time.Second
)

// newServer returns a server whose waits and answers are bounded. It follows no redirects:
// the token is meant for one server.
func newServer(opts Options, u *url.URL) *server {
	s := &server{org: opts.Org, place: u.String(), timeout: cmp.Or(opts.Timeout, RequestTime)}
	s.http = &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: bounded{cmp.Or(opts.Answer, 64<<20), s.gemini.recognise, &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: dialTime}).DialContext,
			TLSHandshakeTimeout: dialTime,
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     90 * time.Second,
		}},
	}
	s.client = influxdb2.NewClientWithOptions(opts.URL, opts.Token, influxdb2.DefaultOptions().SetHTTPClient(s.http).SetApplicationName("tsmon"))
	return s
}

// bounded is a transport whose answers fail with http.MaxBytesError past a size. It shows
// the header of each answer to seen.
type bounded struct {
	size int64
	seen func(http.Header)
	http.RoundTripper
}

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		b.seen(answer.Header)
		answer.Body = http.MaxBytesReader(nil, answer.Body, b.size)
	}
	return answer, err
}

// do sends a request and passes an answer with a status of 2xx to read, which closes its
// body. For any other status the error is a client.Error.
func (s *server) do(ctx context.Context, method, address string, body io.Reader, read func(*http.Response) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return err
	}
	refused := s.client.HTTPService().DoHTTPRequest(request, nil, read)
	switch {
	case refused == nil: // which is no nil error
		return nil
	case refused.StatusCode == 0:
		return refused.Err
	}
	return refused
}

func (s *server) ping(ctx context.Context) error {
	return s.do(ctx, http.MethodGet, s.client.HTTPService().ServerURL()+"ping", nil, func(answer *http.Response) error {
		if answer.StatusCode != http.StatusNoContent {
			return errors.Join(&client.Error{StatusCode: answer.StatusCode}, discard(answer))
		}
		return discard(answer)
	})
}

// ErrOrg says that an organisation can't be found.
var ErrOrg = fmt.Errorf("%w: there is no such organisation, or the token may not see it", series.ErrInvalid)

// hasBuckets reports whether the server is InfluxDB 2.x, which has buckets and organisations.
// Only that version answers whether it has been set up.
func (s *server) hasBuckets(ctx context.Context) (bool, error) {
	if known := s.buckets.Load(); known != nil {
		return *known, nil
	}
	err := s.do(ctx, http.MethodGet, s.client.HTTPService().ServerAPIURL()+"setup", nil, discard)
	has := err == nil
	if !has && !isStatus(err, http.StatusNotFound) {
		return false, err
	}
	s.buckets.Store(&has)
	return has, nil
}

// api calls a method of the interface of 2.x. The client has a function for each, but the
// errors of those lack the status.
func (s *server) api(ctx context.Context, method, path string, body, into any) error {
	var text bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&text).Encode(body); err != nil {
			return err
		}
	}
	return s.do(ctx, method, s.client.HTTPService().ServerAPIURL()+path, &text, func(answer *http.Response) error {
		return errors.Join(json.NewDecoder(answer.Body).Decode(into), discard(answer))
	})
}

func isStatus(err error, status int) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && refused.StatusCode == status
}
