//go:build unix

package servertest

import "syscall"

// Freeze suspends the process. Its connections stay open, but it does not answer.
func (p *Process) Freeze() {
	p.tb.Helper()
	err := p.process.Signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if err == nil {
		_, err = syscall.Wait4(p.process.Pid, &status, syscall.WUNTRACED, nil)
	}
	if err != nil || !status.Stopped() {
		p.tb.Fatalf("freeze: %v, status %#x", err, status)
	}
}

// Thaw lets a frozen process continue.
func (p *Process) Thaw() {
	p.tb.Helper()
	if err := p.process.Signal(syscall.SIGCONT); err != nil {
		p.tb.Fatal(err)
	}
}
