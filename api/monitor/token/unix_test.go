//go:build unix

package token_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"tsmon/api/monitor/token"
)

// TestRotateKeepsOwner rotates another user's file where the test may make one:
// run by root, as an administrator would.
func TestRotateKeepsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	open(t, path)
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid, gid = 12345, 23456
	}
	if err := os.Chown(path, uid, gid); err != nil {
		t.Fatal(err)
	}
	rotate(t, path)
	checkMode(t, path, 0o600)
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if owner := fi.Sys().(*syscall.Stat_t); int(owner.Uid) != uid || int(owner.Gid) != gid {
		t.Errorf("owner %d:%d, want %d:%d", owner.Uid, owner.Gid, uid, gid)
	}
}

func TestOthersMayNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	write(t, path, keyFile())
	for _, mode := range []fs.FileMode{0o644, 0o660, 0o604, 0o620, 0o610, 0o601, 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		checkBad(t, mode.String(), path, "chmod 600 "+path)
		if _, err := token.Rotate(t.Context(), path); err == nil {
			t.Errorf("%v: rotated", mode)
		}
	}
	for _, mode := range []fs.FileMode{0o600, 0o400, 0o440, 0o640} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		open(t, path)
	}
}
