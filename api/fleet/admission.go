package fleet

import (
	"fmt"
	"sync"
	"time"

	"tsmon/store/record"
)

// Bounds of the clients that are recorded, so that nobody fills the records with
// clients that do not exist. Others are answered all the same.
const (
	admitTime     = 24 * time.Hour
	networkPart   = 20               // one network has at most this part of a sample in that time
	boundPart     = 10               // new clients, as a part of a sample, after which it is bounded
	boundEvery    = time.Minute      // or the time
	fullTime      = 10 * time.Minute // that a rollout counts as full after a client was refused
	maxClientDays = 30               // for which a client that is not seen is remembered
)

// sampleKey is a sample of clients: those of a channel, or with a version those that
// were offered it.
type sampleKey struct{ channel, version string }

// admission decides which clients are recorded: those in the sample of the channel and,
// apart from that, of the release.
type admission struct {
	most    int // clients of a sample
	mu      sync.Mutex
	samples map[sampleKey]*sample
}

// sample is what this server knows of one.
type sample struct {
	record.Sample
	since    time.Time // when the clients were last forgotten
	clients  map[record.ClientID]record.Network
	networks map[record.Network]int // clients from each
	fresh    int                    // clients since it was last bounded
	bounded  time.Time
	refused  time.Time // when the last client found no room
}

func newAdmission(most int) *admission {
	return &admission{most: most, samples: map[sampleKey]*sample{}}
}

// of returns a sample. The caller holds mu.
func (a *admission) of(k sampleKey, now time.Time) *sample {
	s := a.samples[k]
	if s == nil {
		s = &sample{fresh: 1} // what is known of it elsewhere has to be looked up
		a.samples[k] = s
	}
	if age := now.Sub(s.since); s.clients == nil || age < 0 || age >= admitTime {
		s.since, s.clients, s.networks = now, map[record.ClientID]record.Network{}, map[record.Network]int{}
	}
	return s
}

// holds reports whether a sample contains a client, recorded or not.
func (a *admission) holds(k sampleKey, id record.ClientID, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of(k, now).Holds(id)
}

// admit reports whether a client may be recorded in a sample, and whether it is
// refused although the sample contains it.
func (a *admission) admit(k sampleKey, id record.ClientID, network record.Network, now time.Time) (in, refused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.of(k, now)
	if !s.Holds(id) {
		return false, false
	}
	if _, ok := s.clients[id]; ok {
		return true, false
	}
	if s.OfNetwork > 0 && s.networks[network] >= s.OfNetwork || len(s.clients) >= 2*a.most {
		s.refused = now
		return false, true
	}
	if s.networks[network] >= max(1, a.most/networkPart) {
		return false, true
	}
	s.clients[id] = network
	s.networks[network]++
	s.fresh++
	return true, false
}

// due returns the samples that have to be bounded.
func (a *admission) due(now time.Time) (keys []sampleKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, s := range a.samples {
		age := now.Sub(s.bounded)
		if s.fresh > a.most/boundPart || s.fresh > 0 && (age < 0 || age >= boundEvery) {
			keys = append(keys, k)
		} else if s.fresh == 0 && age >= 2*admitTime {
			delete(a.samples, k) // nobody asks for that release any more
		}
	}
	return keys
}

// bound takes over what the records say of a sample.
func (a *admission) bound(k sampleKey, found record.Sample, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.of(k, now)
	if found.Level != s.Level {
		for id, network := range s.clients {
			if !found.Holds(id) {
				delete(s.clients, id)
				s.networks[network]--
			}
		}
	}
	s.Sample, s.fresh, s.bounded = found, 0, now
}

// rate returns the share of clients that a sample contains.
func (a *admission) rate(k sampleKey) float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.samples[k]; s != nil {
		return s.Rate()
	}
	return 1
}

// full says why clients that a sample contains are not recorded, empty if they are.
func (a *admission) full(k sampleKey, now time.Time) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.samples[k]
	if s == nil || s.refused.IsZero() || now.Sub(s.refused) >= fullTime {
		return ""
	}
	if s.OfNetwork > 0 {
		return fmt.Sprintf("there is room for %d clients of each network only", s.OfNetwork)
	}
	return "there is no room for more clients"
}

// refusedAt returns when a client last found no room in a sample, zero for never.
func (a *admission) refusedAt(k sampleKey) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.samples[k]; s != nil {
		return s.refused
	}
	return time.Time{}
}
