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

// connectTimeout is how long a connection may take to be made, and the broker's
// first answer after that.
const connectTimeout = 10 * time.Second

// maxAnswer is the largest packet that a broker may send to a client that has
// subscribed to nothing.
const maxAnswer = 64 << 10

// endpoint is where a broker is found.
type endpoint struct {
	address  string      // host:port
	tls      *tls.Config // nil for plain TCP
	user     string
	password string
}

var errURL = errors.New("the MQTT broker's URL is not of the form mqtt://host:port or mqtts://host:port")

// parseURL reads a broker's URL. Its errors repeat no part of it: what stands in
// the wrong place may be a secret.
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

// dial connects. Writing a packet to the connection may take up to timeout.
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

// conn is a connection to a broker. Where the broker stops reading, a write
// fails in time, and then the connection is closed. A packet that is larger
// than maxAnswer fails before it is read.
//
// It is locked while a packet is written, by who writes it.
type conn struct {
	net.Conn
	timeout time.Duration
	writing sync.Mutex

	// Of the packet that is read:
	body   int  // bytes that are still to come; 0 in its header
	typed  bool // the first byte of its header is read
	length int  // what is known of its length
	shift  int  // bits of length that are known
}

var errAnswer = fmt.Errorf("the broker sends a packet of more than %d bytes", maxAnswer)

// Lock begins a packet.
func (c *conn) Lock() {
	c.writing.Lock()
	c.SetWriteDeadline(time.Now().Add(c.timeout))
}

// Unlock ends a packet.
func (c *conn) Unlock() { c.writing.Unlock() }

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.Close() // what is half written can't be completed
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
		return 0, err // beside a byte it would be lost
	}
	return n, err
}

// header takes a byte of a packet's header: its type, and then its length in up
// to four times seven bits, the lowest first.
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
