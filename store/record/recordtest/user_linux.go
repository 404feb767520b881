package recordtest

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// credential is that of the user postgres for root, else nil.
func (s *Server) credential() *syscall.Credential {
	s.tb.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		s.tb.Fatalf("postgresql does not run as root: %v", err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// handOver gives files to the server's user.
func (s *Server) handOver(names ...string) error {
	c := s.credential()
	if c == nil {
		return nil
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, os.Chown(name, int(c.Uid), int(c.Gid)))
	}
	return errors.Join(errs...)
}

// attributes make a process the server's user's, and end it with the test
// binary, however that ends.
func (s *Server) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: s.credential(), Pdeathsig: syscall.SIGQUIT}
}
