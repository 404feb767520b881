package api

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/store/object"
)

// eventually polls a condition for twenty seconds.
func eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(20 * time.Second); !condition(); {
		select {
		case <-tick.C:
		case <-deadline:
			tb.Fatalf("not within twenty seconds: %s", what)
		}
	}
}

// watchedStore counts what is asked of a store, and fails while it is told to.
type watchedStore struct {
	object.Store

	mu      sync.Mutex
	asked   map[string]int // by method and key
	running int
	most    int // that ran at once
	fault   func(ctx context.Context) error
}

func (w *world) watched() *watchedStore {
	s := &watchedStore{Store: w.Objects, asked: map[string]int{}}
	w.Objects = s
	return s
}

func (s *watchedStore) fail(fault func(ctx context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func (s *watchedStore) count(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[call]
}

func (s *watchedStore) enter(ctx context.Context, call string) error {
	s.mu.Lock()
	s.asked[call]++
	s.running++
	s.most = max(s.most, s.running)
	fault := s.fault
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	}()
	if fault != nil {
		return fault(ctx)
	}
	return nil
}

func (s *watchedStore) Stat(ctx context.Context, key string) (object.Info, error) {
	if err := s.enter(ctx, "Stat "+key); err != nil {
		return object.Info{}, err
	}
	return s.Store.Stat(ctx, key)
}

func (s *watchedStore) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	if err := s.enter(ctx, "Get "+key); err != nil {
		return nil, object.Info{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s *watchedStore) GetRange(ctx context.Context, key, etag string, offset, length int64) (io.ReadCloser, error) {
	if err := s.enter(ctx, "GetRange "+key); err != nil {
		return nil, err
	}
	return s.Store.GetRange(ctx, key, etag, offset, length)
}

// hang waits until the caller has had enough.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", object.ErrUnavailable, ctx.Err())
}

func away(context.Context) error { return object.ErrUnavailable }

// metric is the value of a line of /metrics, empty if there is none.
func (c client) metric(name string) string {
	c.tb.Helper()
	for line := range strings.Lines(string(c.get("/metrics").body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
