//go:build unix

package dir_test

import (
	"errors"
	"io"
	"syscall"
	"testing"
)

// TestSendable checks that the kernel can send a body by itself, from the beginning of the
// part.
func TestSendable(t *testing.T) {
	s := open(t, t.TempDir())
	info := mustCreate(t, s, "a/b", "0123456789")
	r, err := s.GetRange(t.Context(), "a/b", info.ETag, 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	at := int64(-1)
	conn, err := r.(syscall.Conn).SyscallConn()
	if err == nil {
		err = errors.Join(conn.Control(func(fd uintptr) { at, err = syscall.Seek(int(fd), 0, io.SeekCurrent) }), err)
	}
	if err != nil || at != 3 {
		t.Errorf("the file stands at %d, %v", at, err)
	}
}
