// Package cli holds what the commands of tsmon share: streams, common flags, the configuration
// with its stores and keys, results on stdout, messages on stderr, and the exit codes and hints
// of errors.
//
// stdout carries data only; everything for people goes to stderr. With --json,
// results, errors and warnings are JSON.
package cli

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tsmon/release/bundle"
	"tsmon/store/object"
)

// App is the environment of one run of the program.
type App struct {
	Stdin           io.Reader
	Stdout, Stderr  io.Writer
	Environ         []string // NAME=value
	Now             func() time.Time
	Version, Commit string // version and commit of the build; empty if unknown
	// OpenStore opens the object store of a storage setting.
	OpenStore func(ctx context.Context, storage string) (object.Store, error)

	// Set by the flags of every command.
	ConfigPath  string
	JSON, Quiet bool

	progress *Progress // nil once the command prints its result
}

// New returns an App on the streams and the environment of the process.
func New() *App {
	return &App{
		Stdin: os.Stdin, Stdout: PlainWriter{os.Stdout}, Stderr: PlainWriter{os.Stderr},
		Environ: os.Environ(), Now: time.Now, OpenStore: OpenStore,
	}
}

// Run executes the command in args and returns the exit code. It fails if the result can't be
// written to stdout.
func (a *App) Run(ctx context.Context, root *cobra.Command, args []string) int {
	out := &checkedWriter{Writer: a.Stdout}
	a.Stdout = out
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	err := root.ExecuteContext(ctx)
	a.EndProgress()
	if err == nil && out.err != nil {
		err = unwritten(out.err)
	}
	if err == nil {
		return ExitDone
	}
	a.JSON = a.JSON || slices.Contains(args, "--json") // in case parsing failed before it
	return a.report(err)
}

// Who returns the name for a channel's log: the actor of a CI run, or else USER@HOST.
func (a *App) Who() string {
	for _, name := range []string{"GITHUB_ACTOR", "GITLAB_USER_LOGIN"} {
		if actor := a.Variable(name); actor != "" {
			return actor + " (CI)"
		}
	}
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}

// Variable returns an environment variable, empty if it is not set.
func (a *App) Variable(name string) string {
	for _, pair := range a.Environ {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// RandomText returns 256 random bits as URL-safe text.
func RandomText() string {
	random := make([]byte, 32)
	rand.Read(random) // never fails
	return base64.RawURLEncoding.EncodeToString(random)
}

// OpenInput opens a file, or stdin for "-". Reading a file advances p, unless it
// is nil.
func (a *App) OpenInput(path string, p *Progress) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(a.Stdin), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, Given(err)
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = Usagef("%s is a folder", path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if p == nil {
		return file, nil
	}
	return struct {
		io.Reader
		io.Closer
	}{bundle.Counted(file, path, info.Size(), p.Transferred), file}, nil
}

// ReadInput reads at most the first most bytes of a file, or of stdin for "-".
func (a *App) ReadInput(path string, most int64) ([]byte, error) {
	input, err := a.OpenInput(path, nil)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	return io.ReadAll(io.LimitReader(input, most))
}

// ReadSmall reads a file of at most 64 KiB, such as a key.
func ReadSmall(path string) ([]byte, error) {
	const most = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return nil, Given(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("%s: larger than 64 KiB", path)
	}
	return data, err
}

func unwritten(err error) error {
	return WithHint(fmt.Errorf("the result could not be written: %w", err), "the command itself was carried out; only its output is lost")
}
