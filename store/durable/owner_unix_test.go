//go:build unix

package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestReplaceKeepsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 4242, 4243)); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, 0o600, []byte("x")); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if owner := fi.Sys().(*syscall.Stat_t); owner.Uid != 4242 || owner.Gid != 4243 {
		t.Errorf("the owner is %d:%d", owner.Uid, owner.Gid)
	}
}

// TestReplaceOnlyFiles wants that root can't replace a device by a file, nor a link to one.
func TestReplaceOnlyFiles(t *testing.T) {
	folder := t.TempDir()
	pipe, link := filepath.Join(folder, "pipe"), filepath.Join(folder, "link")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("pipe", link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link} {
		if err := Replace(path, 0o600, []byte("x")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: the error is %v", path, err)
		}
	}
	if fi, err := os.Stat(pipe); err != nil || fi.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("the pipe is %v, %v", fi, err)
	}
}

func TestReplaceFollowsLinks(t *testing.T) {
	folder := t.TempDir()
	file, link := filepath.Join(folder, "file"), filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	if err := Replace(link, 0o600, []byte("new")); err != nil {
		t.Fatal(err)
	}
	wantFile(t, file, "new", 0o600)
	if fi, err := os.Lstat(link); err != nil || fi.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", fi, err)
	}
}
