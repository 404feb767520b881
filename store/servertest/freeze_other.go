//go:build !unix

package servertest

// Freeze fails the test: processes can't be suspended on this system.
func (p *Process) Freeze() {
	p.tb.Helper()
	p.tb.Fatal("processes can't be suspended on this system")
}

// Thaw has nothing to do.
func (*Process) Thaw() {}
