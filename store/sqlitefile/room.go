package sqlitefile

import (
	"errors"
	"io/fs"
	"os"
)

const roomBytes = 64 << 10

// Room returns an error if the disk of the file is full or read-only. It writes a file of
// 64 KiB beside it, and removes it.
func (f *File) Room() error {
	err := os.WriteFile(f.probe, make([]byte, roomBytes), 0o600)
	if removed := os.Remove(f.probe); !errors.Is(removed, fs.ErrNotExist) { // another process may be faster
		err = errors.Join(err, removed)
	}
	return err
}
