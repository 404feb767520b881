package main

import (
	"bytes"
	"context"
	"io"
	"iter"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tsmon/cmd/tsmon/cli"
	"tsmon/store/object"
	"tsmon/store/servertest"
)

func TestMain(m *testing.M) {
	testscript.Main(sharing{m}, map[string]func(){
		"tsmon":        main,
		"tsmon-killed": killedMain,
		"tsmon-later":  laterMain,
	})
}

// sharing ends the servers that tests share after them.
type sharing struct{ *testing.M }

func (s sharing) Run() int {
	defer servertest.EndShared()
	return s.M.Run()
}

// laterMain is tsmon whose clock is ahead by the duration LATER.
func laterMain() {
	ahead, err := time.ParseDuration(os.Getenv("LATER"))
	if err != nil {
		panic(err)
	}
	app := cli.New()
	app.Now = func() time.Time { return time.Now().Add(ahead) }
	os.Exit(app.Run(context.Background(), rootCommand(app), os.Args[1:]))
}

// killedMain is tsmon, with a clock that may be ahead by LATER, on a store that kills the
// process at the moment with the number TSMON_TEST_KILL. Each operation of the store has two moments, counted from
// 1: before it (for an upload, in the middle of its bytes) and after it.
func killedMain() {
	at, err := strconv.ParseInt(os.Getenv("TSMON_TEST_KILL"), 10, 64)
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	app := cli.New()
	if ahead, err := time.ParseDuration(os.Getenv("LATER")); err == nil {
		app.Now = func() time.Time { return time.Now().Add(ahead) }
	}
	app.OpenStore = func(ctx context.Context, storage string) (object.Store, error) {
		s, err := cli.OpenStore(ctx, storage)
		return &killing{Store: s, at: at}, err
	}
	os.Exit(app.Run(ctx, rootCommand(app), os.Args[1:]))
}

// killing kills the process at a moment.
type killing struct {
	object.Store
	at    int64
	count atomic.Int64
}

// moment kills the process if it is the chosen one.
func (k *killing) moment() {
	if k.count.Add(1) == k.at {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {}
	}
}

func (k *killing) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	k.moment()
	defer k.moment()
	return k.Store.Get(ctx, key)
}

func (k *killing) Stat(ctx context.Context, key string) (object.Info, error) {
	k.moment()
	defer k.moment()
	return k.Store.Stat(ctx, key)
}

func (k *killing) Checksum(ctx context.Context, key string) (uint64, error) {
	k.moment()
	defer k.moment()
	return k.Store.Checksum(ctx, key)
}

func (k *killing) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	defer k.moment()
	half := io.LimitReader(r, size/2)
	return k.Store.Create(ctx, key, io.MultiReader(half, momentReader{k}, r), size, attrs)
}

func (k *killing) Swap(ctx context.Context, key, etag string, data []byte, attrs object.Attributes) (object.Info, error) {
	k.moment()
	defer k.moment()
	return k.Store.Swap(ctx, key, etag, data, attrs)
}

func (k *killing) Delete(ctx context.Context, keys ...string) error {
	k.moment()
	for _, key := range keys {
		if err := k.Store.Delete(ctx, key); err != nil {
			return err
		}
		k.moment()
	}
	return nil
}

func (k *killing) List(ctx context.Context, prefix, after string) iter.Seq2[object.Info, error] {
	k.moment()
	return k.Store.List(ctx, prefix, after)
}

// momentReader is an empty reader with a moment.
type momentReader struct{ k *killing }

func (m momentReader) Read([]byte) (int, error) {
	m.k.moment()
	return 0, io.EOF
}

// command runs a command of this test binary in a clean environment plus env. It
// returns the output and the exit code, -1 if it was killed.
func command(t testing.TB, env []string, name string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "AWS_EC2_METADATA_DISABLED=true"}, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
