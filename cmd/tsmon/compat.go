package main

import (
	"context"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"tsmon/api/monitor"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/signing"
	"tsmon/store/object"
)

// This file gives the commands that still lie in this package the names that
// they know package cli by. It goes when they have moved to packages of their own.

// app is cli.App with the fields that the commands of this package use.
type app struct {
	*cli.App
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	now            func() time.Time
	openStore      func(ctx context.Context, storage string) (object.Store, error)
	json, quiet    bool
}

func newApp() *app {
	c := cli.New()
	return &app{App: c, stdin: c.Stdin, stdout: c.Stdout, stderr: c.Stderr, environ: c.Environ, now: c.Now, openStore: c.OpenStore}
}

func (a *app) run(ctx context.Context, args []string) int {
	a.OpenStore = a.openStore
	return a.Run(ctx, a.rootCommand(), args)
}

// afterFlags takes over what the flags set.
func (a *app) afterFlags() { a.stdout, a.json, a.quiet = a.Stdout, a.JSON, a.Quiet }

func (a *app) load() (*config.Config, error) {
	a.Environ = a.environ
	return a.Load()
}

func (a *app) print(result any, plain func()) error {
	return a.Print(result, func(io.Writer) { plain() })
}

func (a *app) say(format string, args ...any) { a.Say(format, args...) }
func (a *app) warn(warnings []string)         { a.Warn(warnings) }
func (a *app) who() string                    { return a.Who() }
func (a *app) variable(name string) string    { return a.Variable(name) }

func (a *app) password(ctx context.Context, c *config.Config, prompt string) (string, error) {
	return a.Password(ctx, c, prompt)
}

func (a *app) lockedKey(ctx context.Context, c *config.Config, file string) (func() (signing.PrivateKey, error), error) {
	return a.LockedKey(ctx, c, file)
}

func (a *app) locked(ctx context.Context, c *config.Config, text string) (func() (signing.PrivateKey, error), error) {
	return a.Unlocker(ctx, c, text)
}

type plainWriter = cli.PlainWriter

type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return cli.Usage(e.err) }

type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return cli.WithHint(e.error, e.hint) }

type refused struct{ error }

func (e *refused) Unwrap() error { return cli.Refuse(e.error) }

type silent struct{ error }

func (e *silent) Unwrap() error { return cli.Printed(e.error) }

const (
	exitDone     = cli.ExitDone
	exitFailed   = cli.ExitFailed
	exitUsage    = cli.ExitUsage
	exitRefused  = cli.ExitRefused
	exitConflict = cli.ExitConflict
	exitTrust    = cli.ExitTrust
)

func usagef(format string, args ...any) error { return cli.Usagef(format, args...) }
func exitCode(err error) int                  { return cli.ExitCode(err) }
func hintFor(err error) string                { return cli.HintFor(err) }
func bytesText(n int64) string                { return cli.Size(n) }
func table(w io.Writer, rows [][]string)      { cli.Table(w, rows) }
func noKey() error                            { return cli.ErrNoKey }

func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	return cli.Group(use, short, commands...)
}

func exactly(n int, what string) cobra.PositionalArgs { return cli.Args(n, n, what) }
func atLeast(n int, what string) cobra.PositionalArgs { return cli.Args(n, -1, what) }
func atMost(n int, what string) cobra.PositionalArgs  { return cli.Args(0, n, what) }

func writeFile(path string, mode fs.FileMode, content []byte) error {
	return cli.WriteFile(path, mode, content)
}
func createFile(path string, content []byte) error             { return cli.CreateFile(path, content) }
func textOrFile(text string) (string, error)                   { return cli.TextOrFile(text) }
func keyring(lines []string) (signing.Keyring, error)          { return cli.Keyring(lines) }
func openPresigner(c *config.Config) (object.Presigner, error) { return cli.OpenPresigner(c) }

func openStore(ctx context.Context, storage string) (object.Store, error) {
	return cli.OpenStore(ctx, storage)
}

func newToken() (token string, digest []byte) {
	token = cli.RandomText()
	return token, monitor.TokenDigest(token)
}
