package sqlitefile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRoom has the disk get full and empty again.
func TestRoom(t *testing.T) {
	f := &File{probe: filepath.Join(t.TempDir(), "x.db.probe")}
	if err := f.Room(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(f.probe); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the probe stays: %v", err)
	}
	if err := os.Symlink("/dev/full", f.probe); err != nil {
		t.Skipf("no /dev/full: %v", err)
	}
	if err := f.Room(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("on a full disk the error is %v", err)
	}
	if err := f.Room(); err != nil {
		t.Errorf("once there is room again: %v", err)
	}
}
