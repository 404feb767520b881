//go:build unix

package durable

import (
	"errors"
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
