package influx

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"tsmon/store/series"

	influxdb2 "github.com/influxdata/influxdb-client-go/v2"
	client "github.com/influxdata/influxdb-client-go/v2/api/http"
)

// server is the connection to one server, and what is known of its version.
type server struct {
	org     string
	place   string // the URL without credentials
	client  influxdb2.Client
	patient influxdb2.Client // whose requests may take patientTime
	http    *http.Client
	gemini  gemini

	mu      sync.Mutex
	buckets *bool // whether the server has some, once that is known
}

func newServer(opts Options, u *url.URL) *server {
	s := &server{org: opts.Org, place: u.String()}
	s.http = newHTTP(opts, s.gemini.recognise)
	patient := *s.http
	patient.Timeout = max(patient.Timeout, patientTime)
	s.client, s.patient = newClient(opts, s.http), newClient(opts, &patient)
	return s
}

func newClient(opts Options, c *http.Client) influxdb2.Client { //nolint:ireturn // the client's own
	return influxdb2.NewClientWithOptions(opts.URL, opts.Token, influxdb2.DefaultOptions().SetHTTPClient(c).SetApplicationName("tsmon"))
}

const (
	// RequestTime is how long a request may take by default. It is longer than any question
	// of a client of tsmon, so that a slow server is not taken for one that is away.
	RequestTime = 45 * time.Second

	patientTime = 10 * time.Minute // for what goes through a whole database
)

// newHTTP returns a client whose waits and answers are bounded. It follows no
// redirects: the token is meant for one server. The header of each answer goes to seen.
func newHTTP(opts Options, seen func(http.Header)) *http.Client {
	dial := cmp.Or(opts.Dial, 3*time.Second)
	return &http.Client{
		Timeout:       cmp.Or(opts.Timeout, RequestTime),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: bounded{cmp.Or(opts.Answer, 64<<20), seen, &http.Transport{
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
	seen func(http.Header)
	http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		b.seen(answer.Header)
		answer.Body = http.MaxBytesReader(nil, answer.Body, b.size)
	}
	return answer, err
}

// ping asks the server whether it is there.
func (s *server) ping(ctx context.Context) error {
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

// ErrOrg says that an organisation can't be found.
var ErrOrg = fmt.Errorf("%w: there is no such organisation, or the token may not see it", series.ErrInvalid)

// hasBuckets reports whether the server is InfluxDB 2.x, which has buckets and organisations.
// Only that version answers whether it has been set up.
func (s *server) hasBuckets(ctx context.Context) (bool, error) {
	s.mu.Lock()
	known := s.buckets
	s.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	service := s.client.HTTPService()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, service.ServerAPIURL()+"setup", nil)
	if err != nil {
		return false, err
	}
	answer, err := service.DoHTTPRequestWithResponse(request, nil)
	if err != nil {
		return false, err
	}
	if err := discard(answer); err != nil {
		return false, err
	}
	has := answer.StatusCode == http.StatusOK
	if !has && answer.StatusCode != http.StatusNotFound {
		return false, &client.Error{StatusCode: answer.StatusCode}
	}
	s.mu.Lock()
	s.buckets = &has
	s.mu.Unlock()
	return has, nil
}

// api calls a method of the interface of 2.x. Its error has a status, which that of the
// official client has not.
func (s *server) api(ctx context.Context, method, path string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	service := s.client.HTTPService()
	request, err := http.NewRequestWithContext(ctx, method, service.ServerAPIURL()+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	refused := service.DoHTTPRequest(request, nil, func(answer *http.Response) error {
		err := json.NewDecoder(answer.Body).Decode(into)
		return errors.Join(err, discard(answer))
	})
	switch {
	case refused == nil:
		return nil
	case refused.StatusCode == 0:
		return refused.Err
	}
	return refused
}

// isStatus reports whether an error is an answer of that status.
func isStatus(err error, status int) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.StatusCode == status
}
