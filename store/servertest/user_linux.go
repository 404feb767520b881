package servertest

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
	"testing"
)

// credential returns the user postgres if the test runs as root, else nil.
func credential(tb testing.TB) *syscall.Credential {
	tb.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		tb.Fatalf("postgresql does not run as root: %v", err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// chown gives files to the user that PostgreSQL runs as.
func chown(tb testing.TB, names ...string) {
	tb.Helper()
	c := credential(tb)
	for _, name := range names {
		if c == nil {
			continue
		}
		if err := os.Chown(name, int(c.Uid), int(c.Gid)); err != nil {
			tb.Fatal(err)
		}
	}
}

// attributes run a process as PostgreSQL's user, and end it when the test binary ends.
func attributes(tb testing.TB) *syscall.SysProcAttr {
	tb.Helper()
	return &syscall.SysProcAttr{Credential: credential(tb), Pdeathsig: syscall.SIGQUIT}
}
