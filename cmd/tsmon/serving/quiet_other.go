//go:build !linux

package serving

import "net"

// ignoreNew does nothing, because the system can't ignore new connections.
func ignoreNew(net.Listener) error { return nil }
