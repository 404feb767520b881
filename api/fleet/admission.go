package fleet

import (
	"sync"
	"time"

	"tsmon/store/record"
)

// Bounds of the clients that are recorded, so that nobody fills the records with
// clients that do not exist. Clients beyond them are answered all the same.
const (
	admitTime     = 24 * time.Hour
	maxAdmitted   = 200_000 // in that time
	maxOfNetwork  = 5_000   // of them from one network
	maxClientDays = 30      // for which a client that is not seen is remembered
)

// admitted are the clients that were recorded lately.
type admitted struct {
	mu       sync.Mutex
	since    time.Time
	clients  map[record.ClientID]struct{}
	networks map[string]int // clients from each
}

// admit reports whether a client may be recorded.
func (a *admitted) admit(id record.ClientID, network string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if age := now.Sub(a.since); age < 0 || age >= admitTime {
		a.since, a.clients, a.networks = now, map[record.ClientID]struct{}{}, map[string]int{}
	}
	if _, ok := a.clients[id]; ok {
		return true
	}
	if len(a.clients) >= maxAdmitted || a.networks[network] >= maxOfNetwork {
		return false
	}
	a.clients[id] = struct{}{}
	a.networks[network]++
	return true
}
