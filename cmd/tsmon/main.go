// Command tsmon releases a Tauri desktop application: it signs update bundles,
// publishes them to a directory or to MinIO/S3, moves the channels that
// installed applications follow, and rolls them back. It also administers the
// monitoring side: tenants, users and time series.
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	app := cli.New()
	os.Exit(app.Run(ctx, rootCommand(app), os.Args[1:]))
}
