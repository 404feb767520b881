package mqtt

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/listeners"
)

// writeTimeout is how long a packet to a client may take.
const writeTimeout = 2 * time.Second

// listener accepts the clients of a Broker. It bounds what the broker's own
// listeners don't: the number of connections, the time until a client
// introduces itself, the time that a write takes, and what a packet that makes
// the decoder panic can do. Close waits for all of it.
type listener struct {
	socket   net.Listener
	log      *sparseLog
	greeting time.Duration // until a client has said who it is
	closed   chan struct{}

	mu    sync.Mutex
	conns map[*clientConn]struct{}

	running sync.WaitGroup
}

func newListener(socket net.Listener, log *sparseLog) *listener {
	l := &listener{
		socket: socket, log: log, greeting: 10 * time.Second,
		closed: make(chan struct{}), conns: map[*clientConn]struct{}{},
	}
	l.running.Add(1) // Serve
	return l
}

// Init does nothing: the socket is open.
func (l *listener) Init(*slog.Logger) error { return nil }

// ID names the listener.
func (l *listener) ID() string { return "tcp" }

// Protocol names the network.
func (l *listener) Protocol() string { return "tcp" }

// Address returns host:port.
func (l *listener) Address() string { return l.socket.Addr().String() }

// Serve accepts clients until Close.
func (l *listener) Serve(establish listeners.EstablishFn) {
	defer l.running.Done()
	for {
		c, err := l.socket.Accept()
		switch {
		case err == nil:
			l.take(&clientConn{c}, establish)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			l.log.warn("the MQTT broker can't accept a client", "error", err)
			l.pause()
		}
	}
}

// pause lets files be closed where too many are open.
func (l *listener) pause() {
	select {
	case <-l.closed:
	case <-time.After(100 * time.Millisecond):
	}
}

// take serves a connection, or ends it where there are too many.
func (l *listener) take(c *clientConn, establish listeners.EstablishFn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		c.Close()
		return
	default:
	}
	if len(l.conns) >= maxClients {
		l.log.warn("the MQTT broker has too many clients", "clients", len(l.conns))
		c.Close()
		return
	}
	l.conns[c] = struct{}{}
	l.running.Go(func() { l.serve(c, establish) })
}

// serve handles a connection until it ends. Some truncated packets make the
// decoder panic; that ends the connection of who sent them.
func (l *listener) serve(c *clientConn, establish listeners.EstablishFn) {
	defer func() {
		if reason := recover(); reason != nil {
			l.log.warn("an MQTT client sent a broken packet", "client", c.RemoteAddr().String(), "panic", reason)
		}
		c.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, c)
	}()
	c.SetDeadline(time.Now().Add(l.greeting))
	_ = establish(l.ID(), c) // how a client's connection ends is of no interest
}

// Close disconnects all clients, those that have not introduced themselves too.
func (l *listener) Close(disconnect listeners.CloseFn) {
	close(l.closed)
	l.socket.Close()
	force := time.AfterFunc(writeTimeout, l.closeConns)
	disconnect(l.ID())
	force.Stop()
	l.closeConns()
	l.running.Wait()
}

func (l *listener) closeConns() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.Close()
	}
}

// clientConn is a connection that a write does not hold up for long. Where one
// fails, the connection is closed.
type clientConn struct {
	net.Conn
}

func (c *clientConn) Write(p []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(writeTimeout))
	n, err := c.Conn.Write(p)
	if err != nil {
		c.Close()
	}
	return n, err
}

// SetDeadline bounds reading alone: it is what the keep-alive is for.
func (c *clientConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }
