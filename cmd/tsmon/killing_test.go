package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/cmd/tsmon/cli"
	"tsmon/store/object"
)

// killedMain is tsmon on a store that kills the process at the moment numbered TSMON_TEST_KILL. Its
// clocks are ahead by LATER.
func killedMain() {
	at, err := strconv.ParseInt(os.Getenv("TSMON_TEST_KILL"), 10, 64)
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	app := cli.New()
	app.OpenStore = func(ctx context.Context, storage string) (object.Store, error) {
		s, err := cli.OpenStore(ctx, storage)
		return &killing{Store: s, at: at, kill: func() {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
			select {}
		}}, err
	}
	moveClocks(app, os.Getenv("LATER"), "")
	os.Exit(app.Run(ctx, rootCommand(app), os.Args[1:]))
}

// dies runs a command in this process, with a clock that is ahead, on a store that does nothing from
// a given moment on. The store then holds what a killed process would leave, in a hundredth of the
// time. dies returns the command's stderr, and whether it finished before that moment.
func (k *kit) dies(t *testing.T, moment int, ahead time.Duration, args ...string) (stderr string, code int, finished bool) {
	t.Helper()
	store := &killing{Store: k.store, at: int64(moment)}
	var out, errs bytes.Buffer
	app := &cli.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Environ: k.env,
		Now: func() time.Time { return time.Now().Add(ahead) }}
	app.OpenStore = func(context.Context, string) (object.Store, error) { return timedStore(store, app.Now), nil }
	code = app.Run(t.Context(), rootCommand(app), args)
	return errs.String(), code, store.count.Load() < store.at
}

// killing kills a command at a moment. Each operation of the store has two moments,
// counted from 1: before it (for an upload, in the middle of its bytes) and after it.
type killing struct {
	object.Store
	at    int64
	kill  func() // does not return; nil: from then on every operation fails instead
	count atomic.Int64
}

var errKilled = errors.New("killed")

// moment kills the command if it is the chosen one.
func (k *killing) moment() error {
	n := k.count.Add(1)
	switch {
	case k.kill == nil && n >= k.at:
		return errKilled
	case n == k.at:
		k.kill()
	}
	return nil
}

func (k *killing) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	if err := k.moment(); err != nil {
		return nil, object.Info{}, err
	}
	r, info, err := k.Store.Get(ctx, key)
	if killed := k.moment(); killed != nil && err == nil {
		r.Close()
		return nil, object.Info{}, killed
	}
	return r, info, err
}

func (k *killing) GetRange(ctx context.Context, key, etag string, offset, length int64) (io.ReadCloser, error) {
	if err := k.moment(); err != nil {
		return nil, err
	}
	return k.Store.GetRange(ctx, key, etag, offset, length)
}

func (k *killing) Stat(ctx context.Context, key string) (object.Info, error) {
	if err := k.moment(); err != nil {
		return object.Info{}, err
	}
	info, err := k.Store.Stat(ctx, key)
	return info, errors.Join(err, k.moment())
}

func (k *killing) Checksum(ctx context.Context, key string) (uint64, error) {
	if err := k.moment(); err != nil {
		return 0, err
	}
	sum, err := k.Store.Checksum(ctx, key)
	return sum, errors.Join(err, k.moment())
}

func (k *killing) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	half := io.LimitReader(r, size/2)
	info, err := k.Store.Create(ctx, key, io.MultiReader(half, momentReader{k}, r), size, attrs)
	return info, errors.Join(err, k.moment())
}

func (k *killing) Swap(ctx context.Context, key, etag string, data []byte, attrs object.Attributes) (object.Info, error) {
	if err := k.moment(); err != nil {
		return object.Info{}, err
	}
	info, err := k.Store.Swap(ctx, key, etag, data, attrs)
	return info, errors.Join(err, k.moment())
}

func (k *killing) Delete(ctx context.Context, keys ...string) error {
	err := k.moment()
	for _, key := range keys {
		if err != nil {
			break
		}
		err = errors.Join(k.Store.Delete(ctx, key), k.moment())
	}
	return err
}

func (k *killing) List(ctx context.Context, prefix, after string) iter.Seq2[object.Info, error] {
	if err := k.moment(); err != nil {
		return func(yield func(object.Info, error) bool) { yield(object.Info{}, err) }
	}
	return k.Store.List(ctx, prefix, after)
}

// Unfinished finds nothing if the store cleans up unfinished uploads itself.
func (k *killing) Unfinished(ctx context.Context, prefix string) ([]object.Upload, error) {
	if err := k.moment(); err != nil {
		return nil, err
	}
	store, ok := k.Store.(object.Uploads)
	if !ok {
		return nil, nil
	}
	found, err := store.Unfinished(ctx, prefix)
	return found, errors.Join(err, k.moment())
}

func (k *killing) Abort(ctx context.Context, uploads ...object.Upload) error {
	err := k.moment()
	for _, u := range uploads {
		if err != nil {
			break
		}
		err = errors.Join(k.Store.(object.Uploads).Abort(ctx, u), k.moment())
	}
	return err
}

// momentReader is an empty reader with a moment.
type momentReader struct{ k *killing }

func (m momentReader) Read([]byte) (int, error) {
	if err := m.k.moment(); err != nil {
		return 0, err
	}
	return 0, io.EOF
}
