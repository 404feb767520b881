// Command tsmon releases a Tauri desktop application: it signs update bundles,
// publishes them to a directory or to MinIO/S3, moves the channels that
// installed applications follow, and rolls them back. It also administers the
// monitoring side: tenants, users and time series.
//
// Data goes to stdout, everything for people to stderr. Exit codes are listed in
// `tsmon help`.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"tsmon/store/object"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(newApp().run(ctx, os.Args[1:]))
}

// app is what the commands share: streams, environment, and the flags that
// every command has.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	now            func() time.Time
	openStore      func(ctx context.Context, storage string) (object.Store, error)

	configPath string
	json       bool
	quiet      bool
}

func newApp() *app {
	return &app{stdin: os.Stdin, stdout: plainWriter{os.Stdout}, stderr: plainWriter{os.Stderr}, environ: os.Environ(), now: time.Now, openStore: openStore}
}

// run executes one command and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	return a.report(err)
}
