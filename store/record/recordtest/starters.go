package recordtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"testing"

	"tsmon/store/record"
)

// OpenFunc opens the store at a path or URL.
type OpenFunc func(ctx context.Context, at string) (record.Store, error)

const atEnv = "TSMON_TEST_RECORDS_AT"

const (
	processes = 4
	openers   = 3 // in each process
)

// Main is the TestMain of an adapter that calls Starters. Starters runs the test binary again,
// and Main makes that run one of its processes.
func Main(m *testing.M, open OpenFunc) {
	at := os.Getenv(atEnv)
	if at == "" {
		os.Exit(m.Run())
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	if err == nil {
		err = startMany(context.Background(), open, at, fmt.Sprintf("process_%d", os.Getpid()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// startMany opens one database several times concurrently, as several servers would.
func startMany(ctx context.Context, open OpenFunc, at, own string) error {
	for _, err := range race(openers, func(i int) error {
		return startOne(ctx, open, at, fmt.Sprintf("%s_%d", own, i))
	}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// startOne opens a database and creates tenants. All callers create one of them.
func startOne(ctx context.Context, open OpenFunc, at, own string) error {
	s, err := open(ctx, at)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, name := range []string{"common", own} {
		if err := s.CreateTenant(ctx, record.Tenant{Schema: name, TsName: "x"}); err != nil {
			return err
		}
		if err := s.Import(ctx, name, sample()); err != nil {
			return err
		}
		c, err := s.Export(ctx, name)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(c, sample()) {
			return fmt.Errorf("%s holds %s", name, show(c))
		}
	}
	return nil
}

// Starters has several processes and goroutines open the same empty database at once and
// create tenants in it.
func Starters(t *testing.T, open OpenFunc, at string) {
	t.Helper()
	var children []*child
	for range processes {
		children = append(children, spawn(t, at))
	}
	for _, c := range children {
		check(t, c.start.Close())
	}
	own := startMany(t.Context(), open, at, "own")
	for _, c := range children {
		if err := c.cmd.Wait(); err != nil {
			t.Errorf("a process failed: %v\n%s", err, c.errs.String())
		}
	}
	check(t, own)
	s, err := open(t.Context(), at)
	check(t, err)
	defer s.Close()
	equal(t, "number of tenants", len(must(s.Tenants(t.Context()))(t)), 1+openers*(processes+1))
}

type child struct {
	cmd   *exec.Cmd
	start io.Closer
	errs  bytes.Buffer
}

// spawn starts a process that waits until its standard input is closed.
func spawn(t *testing.T, at string) *child {
	t.Helper()
	c := &child{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	c.cmd.Env = append(os.Environ(), atEnv+"="+at)
	c.cmd.Stderr = &c.errs
	c.start = must(c.cmd.StdinPipe())(t)
	out := must(c.cmd.StdoutPipe())(t)
	check(t, c.cmd.Start())
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatalf("a process did not start: %v", err)
	}
	return c
}
