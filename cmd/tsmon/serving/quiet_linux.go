package serving

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// ignoreNew makes the system ignore new connection attempts to the listener from now on: it
// drops TCP packets with SYN and without ACK. Handshakes that have begun complete, and
// connections in the listener's queue can still be accepted.
func ignoreNew(listener net.Listener) error {
	tcp, ok := listener.(syscall.Conn)
	if !ok {
		return errors.ErrUnsupported
	}
	const flags, syn, ack = 13, 0x02, 0x10 // the flags' offset in the header, and two of them
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: flags, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: syn | ack},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: syn, SkipFalse: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: 1<<32 - 1}, // the whole packet
	})
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(program))
	for i, p := range program {
		filter[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	attached := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	})
	return errors.Join(attached, err)
}
