package mqtt

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// connectTimeout bounds making a connection, and then the wait for the broker's first
// answer.
const connectTimeout = 10 * time.Second

// maxAnswer is the largest packet, in bytes, that a broker may send: the client has no
// subscriptions.
const maxAnswer = 64 << 10

// endpoint is the address of a broker.
type endpoint struct {
	address  string      // host:port
	tls      *tls.Config // nil for plain TCP
	user     string
	password string
}

var errURL = errors.New("the MQTT broker's URL is not of the form mqtt://host:port or mqtts://host:port")

// parseURL parses a broker's URL. Its errors repeat no part of it, which may be a
// misplaced secret.
func parseURL(raw string) (endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return endpoint{}, errURL
	}
	e := endpoint{user: u.User.Username()}
	e.password, _ = u.User.Password()
	port := u.Port()
	switch u.Scheme {
	case "mqtt", "tcp":
		port = cmp.Or(port, "1883")
	case "mqtts", "ssl":
		port = cmp.Or(port, "8883")
		e.tls = &tls.Config{ServerName: u.Hostname()}
	default:
		return endpoint{}, errURL
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return endpoint{}, errors.New("the port in the MQTT broker's URL is not between 1 and 65535")
	}
	e.address = net.JoinHostPort(u.Hostname(), port)
	return e, nil
}

// dial connects. timeout bounds the writing of each packet.
func (e endpoint) dial(ctx context.Context, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	if e.tls != nil {
		dialer = &tls.Dialer{Config: e.tls}
	}
	c, err := dialer.DialContext(ctx, "tcp", e.address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, timeout: timeout}, nil
}

// conn is a connection to a broker. A write that the broker does not read in time
// fails and closes the connection. Reading a packet larger than maxAnswer fails at its
// header. Writers hold the lock for a whole packet.
type conn struct {
	net.Conn
	timeout time.Duration
	writing sync.Mutex

	// State of the packet being read.
	body   int  // bytes still to come; 0 within the header
	typed  bool // the first byte of the header is read
	length int  // as far as it is decoded
	shift  int  // decoded bits of length
}

var errAnswer = fmt.Errorf("the broker sent a packet of more than %d bytes", maxAnswer)

// Lock begins a packet.
func (c *conn) Lock() {
	c.writing.Lock()
	_ = c.SetWriteDeadline(time.Now().Add(c.timeout)) // on a closed connection the write fails
}

// Unlock ends a packet.
func (c *conn) Unlock() { c.writing.Unlock() }

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.Close() // half a packet can't be completed
	}
	return n, err
}

func (c *conn) Read(p []byte) (int, error) {
	if c.body > 0 {
		n, err := c.Conn.Read(p[:min(len(p), c.body)])
		c.body -= n
		return n, err
	}
	n, err := c.Conn.Read(p[:min(len(p), 1)])
	if n == 0 {
		return 0, err
	}
	if err := c.header(p[0]); err != nil {
		return 0, err // returned with n > 0, the caller would lose it
	}
	return n, err
}

// header decodes a byte of a packet's header: the type, then the length as a variable
// byte integer.
func (c *conn) header(b byte) error {
	if !c.typed {
		c.typed, c.length, c.shift = true, 0, 0
		return nil
	}
	c.length |= int(b&0x7f) << c.shift
	c.shift += 7
	more := b >= 0x80
	if c.length > maxAnswer || more && c.shift == 28 {
		return errAnswer
	}
	if !more {
		c.typed, c.body = false, c.length
	}
	return nil
}
