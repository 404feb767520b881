package mqtt

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
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

type endpoint struct {
	address  string      // host:port
	tls      *tls.Config // nil for plain TCP
	user     string
	password string
}

var errURL = errors.New("the MQTT broker's URL is not of the form mqtt://host:port or mqtts://host:port")

// CheckURL returns an error unless a text is the URL of a broker, as Options has it. The error
// repeats no part of it, which may be a misplaced secret.
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}

// parseURL parses a broker's URL. Its errors are those of CheckURL.
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
	dial := new(net.Dialer).DialContext
	if e.tls != nil {
		dial = (&tls.Dialer{Config: e.tls}).DialContext
	}
	c, err := dial(ctx, "tcp", e.address)
	if err != nil {
		return nil, err
	}
	return newConn(c, timeout), nil
}

// conn is a connection to a broker. A write that the broker does not read in time
// fails and closes the connection. Reading a packet larger than maxAnswer fails at its
// header. Writers hold the lock for a whole packet.
type conn struct {
	net.Conn
	sync.Mutex // of writers; Lock sets the deadline too
	timeout    time.Duration
	in         *bufio.Reader
	left       int // bytes of the packet being read
}

func newConn(c net.Conn, timeout time.Duration) *conn {
	return &conn{Conn: c, timeout: timeout, in: bufio.NewReader(c)}
}

var errAnswer = fmt.Errorf("the broker sent a packet of more than %d bytes", maxAnswer)

// Lock begins a packet, which Unlock ends.
func (c *conn) Lock() {
	c.Mutex.Lock()
	_ = c.SetWriteDeadline(time.Now().Add(c.timeout)) // on a closed connection the write fails
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.Close() // half a packet can't be completed
	}
	return n, err
}

func (c *conn) Read(p []byte) (int, error) {
	if c.left == 0 {
		var err error
		if c.left, err = c.next(); err != nil {
			return 0, err
		}
	}
	n, err := c.in.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// next returns the size of the next packet. Its header is a byte for the type, then the
// length of the rest as a variable byte integer of up to four bytes.
func (c *conn) next() (size int, err error) {
	for size := 2; size <= 5; size++ {
		header, err := c.in.Peek(size)
		if err != nil {
			return 0, err
		}
		length, n := binary.Uvarint(header[1:])
		if length > maxAnswer {
			break
		}
		if n > 0 {
			return size + int(length), nil
		}
	}
	return 0, errAnswer
}
