//go:build !unix

package servertest

// Freeze fails the test.
func (p *Process) Freeze() {
	p.tb.Helper()
	p.tb.Fatal("processes can't be suspended on this system")
}

// Thaw does nothing.
func (*Process) Thaw() {}
