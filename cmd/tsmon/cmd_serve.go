package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"tsmon/api"
)

func (a *app) serveCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the updates of the store read-only under /updates/",
		Long: `Serve the updates of the store read-only, at the paths that the store has:
/updates/CHANNEL/latest.json and /updates/releases/VERSION/BUNDLE. The address is
written to stderr once the server answers; port 0 takes a free one. SIGINT and
SIGTERM end it, after running requests.`,
		Example: `  tsmon serve --listen 127.0.0.1:8080`,
		Args:    exactly(0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runServe(cmd.Context(), listen) },
	}
	cmd.Flags().StringVar(&listen, "listen", "", "`ADDRESS` to listen on (default server.listen, 127.0.0.1:8080)")
	return cmd
}

// drain is how long running requests may take after a signal.
const drain = 10 * time.Second

func (a *app) runServe(ctx context.Context, listen string) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	if listen == "" {
		listen = c.Server.Listen
	}
	store, err := a.openStore(ctx, c.Storage)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(a.stderr, nil))
	server := &http.Server{
		Handler:           (&api.Server{Objects: store, Log: log}).Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return &hinted{err, "choose another address with --listen"}
	}
	a.say("serving http://%s/updates/", listener.Addr())
	return serveUntil(ctx, server, listener)
}

// serveUntil serves until the context ends, then lets running requests finish.
func serveUntil(ctx context.Context, server *http.Server, listener net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := server.Shutdown(ending)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	<-failed
	return err
}
