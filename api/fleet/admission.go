package fleet

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
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

// admission decides which clients are recorded: those in the sample of their channel, and
// those in the sample of the release. If this server alone has seen more clients than a
// sample may hold, it makes the sample smaller at once, before the records do. So the memory
// for clients that wait to be recorded is bounded by the sample, not by how fast clients ask.
type admission struct {
	most    int // clients of a sample
	mu      sync.Mutex
	samples map[sampleKey]*sample
}

// sample is what this server knows of one.
type sample struct {
	record.Sample
	ahead    bool         // it is smaller than in the records
	stored   record.Level // in the records
	since    time.Time    // when the clients were last forgotten
	clients  map[record.ClientID]record.Network
	networks map[record.Network]int // clients from each
	wanted   bool                   // somebody was seen to run the release since then
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

// runs reports whether it is to be recorded that a client runs a release, which is kept
// of clients that were offered it. While a release is let out that may be any of the
// sample. Of another one nobody in it may have been offered it, as of what a fleet had
// before; to look for each of its clients would keep the records busy.
func (a *admission) runs(k sampleKey, id record.ClientID, rolling bool, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.of(k, now)
	s.wanted = true
	return s.Holds(id) && (rolling || s.bounded.IsZero() || s.Rows > 0 || len(s.clients) > 0)
}

// admitted is what becomes of a client in a sample.
type admitted struct {
	in      bool // it may be recorded
	refused bool // it may not, although the sample contains it
	smaller bool // the sample was made smaller for it
}

// admit decides on a client.
func (a *admission) admit(k sampleKey, id record.ClientID, network record.Network, now time.Time) (d admitted) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.of(k, now)
	if _, ok := s.clients[id]; ok {
		return admitted{in: true}
	}
	for s.Holds(id) {
		switch full := len(s.clients) >= a.most; {
		case s.OfNetwork > 0 && s.networks[network] >= s.OfNetwork || full && s.Level == record.MaxLevel:
			s.refused = now
			d.refused = true
			return d
		case s.networks[network] >= max(1, a.most/networkPart):
			d.refused = true
			return d
		case full:
			s.shrink(k, a.most)
			d.smaller = true
		default:
			s.clients[id] = network
			s.networks[network]++
			s.fresh++
			d.in = true
			return d
		}
	}
	return d
}

// shrink makes a sample smaller, as the records would.
func (s *sample) shrink(k sampleKey, most int) {
	var sizes []int
	if k.version != "" {
		sizes = slices.Collect(maps.Values(s.networks))
	}
	s.ahead = true
	s.become(s.Smaller(sizes, most))
}

// become takes over a sample that is part of the present one. Of a network that has too
// many clients those with the least IDs stay.
func (s *sample) become(smaller record.Sample) {
	kept := make(map[record.ClientID]record.Network, len(s.clients))
	clear(s.networks)
	ids := slices.Collect(maps.Keys(s.clients))
	slices.SortFunc(ids, func(a, b record.ClientID) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range ids {
		network := s.clients[id]
		if smaller.Holds(id) && (smaller.OfNetwork == 0 || s.networks[network] < smaller.OfNetwork) {
			kept[id] = network
			s.networks[network]++
		}
	}
	s.Sample, s.clients = smaller, kept
}

// unsettled returns the samples that are smaller than the records know, and those that
// nothing is known of yet.
func (a *admission) unsettled() (keys []sampleKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, s := range a.samples {
		if s.ahead || s.bounded.IsZero() {
			keys = append(keys, k)
		}
	}
	return keys
}

// sample returns a sample.
func (a *admission) sample(k sampleKey) record.Sample {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.samples[k]; s != nil {
		return s.Sample
	}
	return record.Sample{}
}

// prune drops clients that are not in the samples from a batch.
func (a *admission) prune(batch *record.Sightings) {
	batch.Installed = slices.DeleteFunc(batch.Installed, func(i record.Installed) bool {
		return !a.sample(sampleKey{channel: i.Channel}).Holds(i.Client)
	})
	batch.Tries = slices.DeleteFunc(batch.Tries, func(t record.Try) bool {
		return !a.sample(sampleKey{t.Channel, t.Version}).Holds(t.Client)
	})
}

// due returns the samples that have to be bounded.
func (a *admission) due(now time.Time) (keys []sampleKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, s := range a.samples {
		age := now.Sub(s.bounded)
		if s.ahead || s.fresh > a.most/boundPart || (s.fresh > 0 || s.wanted && s.Rows == 0) && (age < 0 || age >= boundEvery) {
			keys = append(keys, k)
		} else if s.fresh == 0 && age >= 2*admitTime {
			delete(a.samples, k) // nobody asks for that release any more
		}
	}
	return keys
}

// bound takes over what the records say of a sample, and reports whether that is a
// smaller share of the clients than they said before.
func (a *admission) bound(k sampleKey, found record.Sample, now time.Time) (smaller bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.of(k, now)
	next := s.Within(found) // this server may have made it smaller meanwhile
	s.ahead = next.Level != found.Level || next.OfNetwork != found.OfNetwork
	if next.Level != s.Level || next.OfNetwork != s.OfNetwork {
		s.become(next)
	}
	smaller = found.Level > s.stored
	s.Rows, s.stored, s.wanted, s.fresh, s.bounded = found.Rows, found.Level, false, 0, now
	return smaller
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
