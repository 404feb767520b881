//go:build unix

package mqtttest

import "syscall"

// Freeze stops the server's process in its tracks: connections to it stay and
// nothing is answered.
func (s *Server) Freeze() {
	s.tb.Helper()
	err := s.process.Signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if err == nil {
		_, err = syscall.Wait4(s.process.Pid, &status, syscall.WUNTRACED, nil)
	}
	if err != nil || !status.Stopped() {
		s.tb.Fatalf("freeze mosquitto: %v, status %#x", err, status)
	}
}

// Thaw lets a frozen server go on.
func (s *Server) Thaw() {
	s.tb.Helper()
	if err := s.process.Signal(syscall.SIGCONT); err != nil {
		s.tb.Fatal(err)
	}
}
