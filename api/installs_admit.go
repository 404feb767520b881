package api

import (
	"net/netip"
	"sync"
	"time"

	"tsmon/store/record"
)

// Bounds of the clients that are recorded, so that nobody fills the records with
// clients that do not exist. Whoever is beyond them is answered all the same.
const (
	admitTime     = 24 * time.Hour
	maxAdmitted   = 200_000 // in that time
	maxOfNetwork  = 5_000   // of them from one network address
	maxClientDays = 30      // that a client is remembered for without being seen
)

// admitted are the clients that were recorded lately.
type admitted struct {
	mu       sync.Mutex
	since    time.Time
	clients  map[record.ClientID]struct{}
	networks map[string]int // how many came from each
}

// admit reports whether a client may be recorded.
func (a *admitted) admit(id record.ClientID, address string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if age := now.Sub(a.since); age < 0 || age >= admitTime {
		a.since, a.clients, a.networks = now, map[record.ClientID]struct{}{}, map[string]int{}
	}
	if _, ok := a.clients[id]; ok {
		return true
	}
	network := networkOf(address, 48)
	if len(a.clients) >= maxAdmitted || a.networks[network] >= maxOfNetwork {
		return false
	}
	a.clients[id] = struct{}{}
	a.networks[network]++
	return true
}

// networkOf is the address itself, or the network of so many bits of an IPv6
// address, since a machine has as many of those as it likes.
func networkOf(address string, bits int) string {
	if a, err := netip.ParseAddr(address); err == nil && a.Is6() && !a.Is4In6() {
		if network, err := a.Prefix(bits); err == nil {
			return network.String()
		}
	}
	return address
}
