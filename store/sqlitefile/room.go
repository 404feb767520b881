package sqlitefile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"
)

const (
	roomTime  = 10 * time.Second // how long a disk that took a write is believed to take another
	roomBytes = 64 << 10
)

// room tries whether the disk of a file takes a write.
type room struct {
	path string        // of the file that is written, and removed again
	turn chan struct{} // holds a value while somebody tries
	good time.Time     // when the disk last took a write
}

func newRoom(path string) *room { return &room{path: path + ".probe", turn: make(chan struct{}, 1)} }

// Room returns an error if the disk of the file takes no write, because it is full or
// read-only. It writes 64 KiB beside the file, at most once in ten seconds while that
// succeeds. A disk that hangs is left to one goroutine.
func (f *File) Room(ctx context.Context) error {
	r := f.room
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-r.turn }()
		done <- r.try(time.Now())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// try writes unless a write succeeded lately.
func (r *room) try(now time.Time) error {
	if age := now.Sub(r.good); age >= 0 && age < roomTime {
		return nil
	}
	err := os.WriteFile(r.path, make([]byte, roomBytes), 0o600)
	if removed := os.Remove(r.path); !errors.Is(removed, fs.ErrNotExist) { // another process may be faster
		err = errors.Join(err, removed)
	}
	if err == nil {
		r.good = now
	}
	return err
}
