//go:build unix

package token

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives f the owner of the file at path, if there is one, so that a server
// can read what an administrator rotated.
func keepOwner(f *os.File, path string) error {
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	owner, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}
