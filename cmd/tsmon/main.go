// Command tsmon releases a Tauri desktop application: it signs update bundles,
// publishes them to a directory or to MinIO/S3, moves the channels from which
// installed applications update, and rolls them back. It also serves and administers
// the monitoring side: tenants, users and time series.
//
// This package joins the commands of its subpackages; package cli holds what they
// share.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"tsmon/cmd/tsmon/cli"
)

func main() { os.Exit(run(cli.New())) }

// run runs the command of the process until a signal ends it, and returns the exit code.
func run(app *cli.App) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		received := <-signals
		signal.Reset() // a second signal ends the process at once
		if received == syscall.SIGTERM {
			cancel(cli.ErrTerminated)
		}
		cancel(nil)
	}()
	return app.Run(ctx, rootCommand(app), os.Args[1:])
}
