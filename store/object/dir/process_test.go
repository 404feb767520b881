package dir_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"tsmon/store/object"
	"tsmon/store/object/dir"
)

// roles are what a child process of these tests does with a store. Each writes
// what it achieved to stdout, line by line.
var roles = map[string]func(context.Context, *dir.Store) error{
	"create": createKeys,
	"count":  count,
	"write":  writeForever,
}

const (
	roleEnv  = "TSMON_TEST_DIR_ROLE"
	rootEnv  = "TSMON_TEST_DIR_ROOT"
	keys     = 40 // that each process tries to create
	steps    = 25 // that each process counts
	children = 4
)

// TestMain lets the test binary be its own racing writers.
func TestMain(m *testing.M) {
	role, ok := roles[os.Getenv(roleEnv)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// play opens the store, says so, and acts as soon as its stdin is closed.
func play(role func(context.Context, *dir.Store) error) error {
	s, err := dir.Open(os.Getenv(rootEnv))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return role(context.Background(), s)
}

func createKeys(ctx context.Context, s *dir.Store) error {
	mine := strconv.Itoa(os.Getpid())
	for i := range keys {
		key := fmt.Sprintf("log/%d/entry", i)
		_, err := s.Create(ctx, key, strings.NewReader(mine), int64(len(mine)), object.Attributes{})
		if err == nil {
			fmt.Println(key, mine)
		} else if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func count(ctx context.Context, s *dir.Store) error {
	for done := 0; done < steps; {
		n, etag, err := number(ctx, s)
		if err != nil {
			return err
		}
		_, err = s.Swap(ctx, "counter", etag, []byte(strconv.Itoa(n+1)), object.Attributes{})
		if err == nil {
			done++
		} else if !errors.Is(err, object.ErrChanged) {
			return err
		}
	}
	return nil
}

func number(ctx context.Context, s *dir.Store) (n int, etag string, err error) {
	r, info, err := s.Get(ctx, "counter")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, "", nil
	}
	if err != nil {
		return 0, "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return 0, "", err
	}
	n, err = strconv.Atoi(string(data))
	return n, info.ETag, err
}

// writeForever writes objects that hold one repeated byte until it is killed.
func writeForever(ctx context.Context, s *dir.Store) error {
	etag := ""
	if info, err := s.Stat(ctx, "swapped"); err == nil {
		etag = info.ETag
	}
	for i := 0; ; i++ {
		data := bytes.Repeat([]byte{byte('a' + i%26)}, 300_000)
		key := fmt.Sprintf("created/%d-%d", os.Getpid(), i)
		if _, err := s.Create(ctx, key, bytes.NewReader(data), int64(len(data)), object.Attributes{}); err != nil {
			return err
		}
		info, err := s.Swap(ctx, "swapped", etag, data, object.Attributes{})
		if err != nil {
			return err
		}
		etag = info.ETag
		fmt.Println(key)
	}
}

type child struct {
	cmd   *exec.Cmd
	start io.Closer
	lines *bufio.Scanner
	errs  bytes.Buffer
}

// spawn starts a child and waits until it has opened the store.
func spawn(t *testing.T, role, root string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), roleEnv+"="+role, rootEnv+"="+root)
	c.cmd.Stderr = &c.errs
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cmd.Process.Kill(); c.cmd.Wait() })
	c.start, c.lines = in, bufio.NewScanner(out)
	if !c.lines.Scan() || c.lines.Text() != "ready" {
		t.Fatalf("the child is not ready: %s", c.errs.String())
	}
	return c
}

// runAll runs children of one role at once and returns what they wrote.
func runAll(t *testing.T, role, root string) (lines []string) {
	t.Helper()
	var all []*child
	for range children {
		all = append(all, spawn(t, role, root))
	}
	for _, c := range all {
		c.start.Close()
	}
	for _, c := range all {
		for c.lines.Scan() {
			lines = append(lines, c.lines.Text())
		}
		if err := c.cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, c.errs.String())
		}
	}
	return lines
}

func TestProcessesCreate(t *testing.T) {
	root := t.TempDir()
	winners := map[string]string{}
	for _, line := range runAll(t, "create", root) {
		key, winner, _ := strings.Cut(line, " ")
		if other, taken := winners[key]; taken {
			t.Errorf("both %s and %s created %s", other, winner, key)
		}
		winners[key] = winner
	}
	if len(winners) != keys {
		t.Errorf("%d keys have a winner instead of %d", len(winners), keys)
	}
	s := open(t, root)
	for key, winner := range winners {
		if got := slurp(t, s, key); string(got) != winner {
			t.Errorf("%s holds %q, its winner is %s", key, got, winner)
		}
	}
}

func TestProcessesSwap(t *testing.T) {
	root := t.TempDir()
	runAll(t, "count", root)
	n, _, err := number(t.Context(), open(t, root))
	if err != nil || n != children*steps {
		t.Errorf("they counted to %d instead of %d: %v", n, children*steps, err)
	}
}

// TestKilled kills writers in the middle of their work. The objects must be whole, and no lock
// may remain.
func TestKilled(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	for round := range 8 {
		c := spawn(t, "write", root)
		c.start.Close()
		for range 1 + round%3 {
			if !c.lines.Scan() {
				t.Fatalf("the writer ended: %v %s", c.cmd.Wait(), c.errs.String())
			}
		}
		c.cmd.Process.Kill()
		c.cmd.Wait()
	}
	n := 0
	for info, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		data := slurp(t, s, info.Key)
		if len(data) != 300_000 || len(bytes.Trim(data, string(data[:1]))) > 0 {
			t.Errorf("%s is not whole", info.Key)
		}
		n++
	}
	if n < 9 {
		t.Errorf("only %d objects are there", n)
	}
}

func slurp(t *testing.T, s *dir.Store, key string) []byte {
	t.Helper()
	r, _, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
