package apitest

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"tsmon/store/object"
)

// Eventually polls a condition for a minute, then ends the test.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); !condition(); {
		select {
		case <-tick.C:
		case <-deadline:
			tb.Fatalf("not within a minute: %s", what)
		}
	}
}

// WatchedStore counts the calls of a store and can make them fail.
type WatchedStore struct {
	object.Store

	mu      sync.Mutex
	Asked   map[string]int // calls by method and key
	Running int
	Most    int // calls at once
	fault   func(ctx context.Context) error
}

// WatchObjects puts a WatchedStore in front of the world's objects.
func (w *World) WatchObjects() *WatchedStore {
	s := &WatchedStore{Store: w.Objects, Asked: map[string]int{}}
	w.Objects = s
	return s
}

// Fail makes calls fail with what fault returns; nil ends that.
func (s *WatchedStore) Fail(fault func(ctx context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Count returns how often a call was made, such as "Get stable/latest.json".
func (s *WatchedStore) Count(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Asked[call]
}

// Busy reports whether a call is running.
func (s *WatchedStore) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Running > 0
}

func (s *WatchedStore) enter(ctx context.Context, call string) error {
	s.mu.Lock()
	s.Asked[call]++
	s.Running++
	s.Most = max(s.Most, s.Running)
	fault := s.fault
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.Running--
	}()
	if fault != nil {
		return fault(ctx)
	}
	return nil
}

func (s *WatchedStore) Stat(ctx context.Context, key string) (object.Info, error) {
	if err := s.enter(ctx, "Stat "+key); err != nil {
		return object.Info{}, err
	}
	return s.Store.Stat(ctx, key)
}

func (s *WatchedStore) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	if err := s.enter(ctx, "Get "+key); err != nil {
		return nil, object.Info{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s *WatchedStore) GetRange(ctx context.Context, key, etag string, offset, length int64) (io.ReadCloser, error) {
	if err := s.enter(ctx, "GetRange "+key); err != nil {
		return nil, err
	}
	return s.Store.GetRange(ctx, key, etag, offset, length)
}

// Hang is a fault that waits until its caller gives up.
func Hang(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", object.ErrUnavailable, ctx.Err())
}

// Unavailable is a fault of a store that can't be reached.
func Unavailable(context.Context) error { return object.ErrUnavailable }
