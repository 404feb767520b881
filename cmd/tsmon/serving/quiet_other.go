//go:build !linux

package serving

import "net"

// ignoreNew has nothing to do where the system can't ignore new connections.
func ignoreNew(net.Listener) error { return nil }
