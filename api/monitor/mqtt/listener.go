package mqtt

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/listeners"
)

// writeTimeout bounds the writing of a packet to a client.
const writeTimeout = 2 * time.Second

// listener accepts the clients of a Broker. Unlike mochi's own listeners it bounds the
// number of connections, the time until a CONNECT packet and the time of a write, and
// it confines panics of the packet decoder to their connection.
type listener struct {
	socket   net.Listener
	log      *sparseLog
	greeting time.Duration // until the CONNECT packet
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

func (l *listener) Init(*slog.Logger) error { return nil } // the socket is open
func (l *listener) ID() string              { return "tcp" }
func (l *listener) Protocol() string        { return "tcp" }
func (l *listener) Address() string         { return l.socket.Addr().String() }

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
			select { // until files may have been closed, where too many were open
			case <-l.closed:
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
}

// take serves a connection, or closes it if there are too many.
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

// serve handles a connection until it ends. Some truncated packets make mochi's decoder
// panic, which ends this connection alone.
func (l *listener) serve(c *clientConn, establish listeners.EstablishFn) {
	defer func() {
		if reason := recover(); reason != nil {
			l.log.warn("an MQTT client sent a malformed packet", "client", c.RemoteAddr().String(), "panic", reason)
		}
		c.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, c)
	}()
	_ = c.SetDeadline(time.Now().Add(l.greeting)) // on a closed connection the read fails
	_ = establish(l.ID(), c)                      // why a client's connection ended does not matter
}

// Close disconnects all clients and waits, also for those without a CONNECT packet.
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

// clientConn bounds the time of writes. A write that fails closes the connection.
type clientConn struct {
	net.Conn
}

func (c *clientConn) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout)) // on a closed connection the write fails
	n, err := c.Conn.Write(p)
	if err != nil {
		c.Close()
	}
	return n, err
}

// SetDeadline sets the read deadline alone, for the keep-alive.
func (c *clientConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }
