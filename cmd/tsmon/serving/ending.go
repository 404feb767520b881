package serving

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"tsmon/cmd/tsmon/cli"
)

// ending shuts a server down without failing requests, if they finish in time.
type ending struct {
	server    *http.Server
	tcp       net.Listener  // what serve listens with, below TLS
	begin     func()        // makes /readyz fail
	drain     time.Duration // how long requests are still accepted after SIGTERM
	downloads time.Duration // how long running requests may then take
	log       *slog.Logger

	draining atomic.Bool
	running  sync.WaitGroup // requests
}

// listen returns a listener without Multipath TCP, because ignoreNew needs a socket filter, which
// such listeners refuse.
func listen(ctx context.Context, address string) (net.Listener, error) {
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	return c.Listen(ctx, "tcp", address)
}

// logTime is the time for logging requests that were cut off.
const logTime = 2 * time.Second

// quietTime is the last part of the drain, in which new connections are ignored. If a client
// connects but is not accepted before the listener closes, its request is lost and perhaps
// can't be repeated. A client that is ignored tries again after a second, is refused, and loses
// nothing.
const quietTime = 500 * time.Millisecond

// serve serves until the context ends, drains and lets running requests finish.
func (e *ending) serve(ctx context.Context, listener net.Listener) error {
	handler := e.server.Handler
	e.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.running.Add(1)
		defer e.running.Done()
		if e.draining.Load() {
			w.Header().Set("Connection", "close") // the next request goes elsewhere
		}
		handler.ServeHTTP(w, r)
	})
	failed := make(chan error, 1)
	go func() { failed <- e.server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drain := time.Duration(0)
	if errors.Is(context.Cause(ctx), cli.ErrTerminated) {
		drain = e.drain
	}
	e.log.Info("shutting down", "drain", drain.String(), "downloads", e.downloads.String())
	e.begin()
	e.draining.Store(true)
	wait := func(d time.Duration) error {
		select {
		case err := <-failed:
			return err
		case <-time.After(d):
			return nil
		}
	}
	quiet := min(drain, quietTime)
	if err := wait(drain - quiet); err != nil {
		return err
	}
	if quiet > 0 {
		if err := ignoreNew(e.tcp); err != nil {
			e.log.Warn("new connections are still accepted until the listener closes", "error", err)
		}
	}
	if err := wait(quiet); err != nil {
		return err
	}
	err := e.shutDown(context.WithoutCancel(ctx))
	if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// shutDown closes the listener, waits for requests, and closes the connections that are left.
func (e *ending) shutDown(ctx context.Context) error {
	inTime, cancel := context.WithTimeout(ctx, e.downloads)
	defer cancel()
	err := e.server.Shutdown(inTime)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	err = e.server.Close()
	logged := make(chan struct{})
	go func() { e.running.Wait(); close(logged) }()
	select {
	case <-logged:
	case <-time.After(logTime):
	}
	return err
}
