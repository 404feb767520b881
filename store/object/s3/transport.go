package s3

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// errHungUp replaces io.EOF in the middle of an answer.
var errHungUp = errors.New("the server closed the connection")

// transport makes requests with every wait bounded.
type transport struct {
	base *http.Transport
	told atomic.Pointer[told] // nil before the first answer
}

// told is the server's time from a response, and when the response arrived.
type told struct{ date, at time.Time }

func newTransport(l Limits) *transport {
	d := &dialer{Dialer: net.Dialer{Timeout: l.Dial, KeepAlive: 30 * time.Second}, stall: l.Stall}
	return &transport{base: &http.Transport{
		Proxy:                 proxy,
		DialContext:           d.dial,
		TLSHandshakeTimeout:   l.Dial,
		ResponseHeaderTimeout: l.Stall,
		IdleConnTimeout:       l.Stall / 2, // before the reader waiting there stalls
		MaxIdleConnsPerHost:   64,          // a move of a channel with rings makes 50 requests at once
		WriteBufferSize:       64 << 10,
		ReadBufferSize:        64 << 10,
		DisableCompression:    true, // objects come as they are
	}}
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.base.RoundTrip(r)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errHungUp
	}
	if err == nil {
		if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
			t.told.Store(&told{date, time.Now()})
		}
	}
	if err == nil && answer.StatusCode == http.StatusOK && r.URL.Query().Has("list-type") {
		return listing(answer)
	}
	return answer, err
}

// tellAge is how long the time of a response is extrapolated with the local monotonic clock,
// which may stop while the machine sleeps.
const tellAge = 10 * time.Second

// now returns the server's time; ok is false if there was no recent response with one.
func (t *transport) now() (now time.Time, ok bool) {
	last := t.told.Load()
	if last == nil {
		return time.Time{}, false
	}
	age := time.Since(last.at) // monotonic: independent of changes of the clock
	return last.date.Add(age), age < tellAge
}

// maxSkew is how far the local clock may differ: S3 refuses requests that are 15 minutes off.
const maxSkew = 14 * time.Minute

// skewed reports whether the local clock differed by more than maxSkew at the last response.
func (t *transport) skewed() bool {
	last := t.told.Load()
	return last != nil && last.at.Round(0).Sub(last.date).Abs() > maxSkew
}

// maxListing bounds one page of a list, of 1000 keys at most.
const maxListing = 8 << 20

// listing bounds a page of a list and checks its beginning, since the client library
// accepts any XML, and takes a web page for an empty list.
func listing(answer *http.Response) (*http.Response, error) {
	page := bufio.NewReader(io.LimitReader(answer.Body, maxListing))
	head, err := page.Peek(512)
	if err == nil || err == io.EOF {
		err = nil
		if !bytes.Contains(head, []byte("<ListBucketResult")) {
			err = errUnlike
		}
	}
	if err != nil {
		answer.Body.Close()
		return nil, err
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{page, answer.Body}
	return answer, nil
}

// proxy is http.ProxyFromEnvironment, whose error would repeat a password.
func proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errors.New("the proxy named in the environment is not usable")
	}
	return u, nil
}

// dialer connects to one server. For a while after a timeout it fails at once, so
// that retries do not multiply the wait.
type dialer struct {
	net.Dialer
	stall    time.Duration
	timedOut atomic.Pointer[timeout] // nil before the first
}

// timeout is the error of a dial, to be returned for a while.
type timeout struct {
	err   error
	until time.Time
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if last := d.timedOut.Load(); last != nil && time.Now().Before(last.until) {
		return nil, last.err
	}
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() && ctx.Err() == nil {
			d.timedOut.Store(&timeout{err, time.Now().Add(d.Timeout)})
		}
		return nil, err
	}
	return &movingConn{Conn: conn, stall: d.stall}, nil
}

// movingConn fails if no bytes move for stall. Writing extends the reader's deadline too,
// since the reader is waiting for the answer.
type movingConn struct {
	net.Conn
	stall time.Duration
}

func (c *movingConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *movingConn) Write(p []byte) (written int, err error) {
	for len(p) > 0 && err == nil {
		piece := p[:min(len(p), 256<<10)]
		if err := c.SetDeadline(time.Now().Add(c.stall)); err != nil {
			return written, err
		}
		var n int
		n, err = c.Conn.Write(piece)
		written += n
		p = p[n:]
	}
	return written, err
}
