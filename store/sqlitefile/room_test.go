package sqlitefile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestRoom has the disk get full and empty again.
func TestRoom(t *testing.T) {
	r := newRoom(filepath.Join(t.TempDir(), "x.db"))
	now := time.Now()
	full := func() {
		t.Helper()
		if err := os.Symlink("/dev/full", r.path); err != nil {
			t.Skipf("no /dev/full: %v", err)
		}
	}
	if err := r.try(now); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(r.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the probe stays: %v", err)
	}
	full()
	if err := r.try(now.Add(roomTime - 1)); err != nil {
		t.Errorf("it was tried again at once: %v", err)
	}
	now = now.Add(roomTime)
	for range 2 {
		if err := r.try(now); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("on a full disk the error is %v", err)
		}
		full()
	}
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	if err := r.try(now); err != nil {
		t.Errorf("once there is room again: %v", err)
	}
}

// TestRoomWaits asks while the disk hangs.
func TestRoomWaits(t *testing.T) {
	f := &File{room: newRoom(filepath.Join(t.TempDir(), "x.db"))}
	f.room.turn <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := f.Room(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
	<-f.room.turn
	if err := f.Room(t.Context()); err != nil {
		t.Error(err)
	}
}
