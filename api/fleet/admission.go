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

// Bounds on the clients that are recorded, so that nobody can fill the records with clients
// that do not exist. Clients beyond the bounds are answered but not recorded.
const (
	admitTime     = 24 * time.Hour
	networkPart   = 20               // one network may add at most this fraction of a sample in that time
	boundPart     = 10               // a sample is bounded after this fraction of new clients,
	boundEvery    = time.Minute      // or after this time
	fullTime      = 10 * time.Minute // how long a rollout counts as full after a client was refused
	maxClientDays = 30               // after which a client that was not seen is forgotten
)

// sampleKey names a sample of clients: those of a channel or, with a version, those that were
// offered that version.
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

// sample is what this server knows about one sample.
type sample struct {
	record.Sample
	ahead    bool         // this server made it smaller than it is in the records
	stored   record.Level // in the records
	since    time.Time    // when the clients were last forgotten
	clients  map[record.ClientID]record.Network
	networks map[record.Network]int // clients from each
	wanted   bool                   // a client was seen running the release since then
	fresh    int                    // clients since it was last bounded
	bounded  time.Time
	refused  time.Time // when the last client found no room
}

func newAdmission(most int) *admission {
	return &admission{most: most, samples: map[sampleKey]*sample{}}
}

// of returns the sample of a key, a new one if there is none. The caller holds mu.
func (a *admission) of(k sampleKey, now time.Time) *sample {
	s := a.samples[k]
	if s == nil {
		s = &sample{fresh: 1} // so that the records are asked what other servers know
		a.samples[k] = s
	}
	if age := now.Sub(s.since); s.clients == nil || age < 0 || age >= admitTime {
		s.since, s.clients, s.networks = now, map[record.ClientID]record.Network{}, map[record.Network]int{}
	}
	return s
}

// runs reports whether to record that a client runs a release, which is recorded for clients
// that were offered it. While the release is being rolled out that may be any client of the
// sample. For another release, such as one that a fleet already had, perhaps no client was
// offered it, and checking each of its clients would keep the records busy.
func (a *admission) runs(k sampleKey, id record.ClientID, rolling bool, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.of(k, now)
	s.wanted = true
	return s.Holds(id) && (rolling || s.bounded.IsZero() || s.Rows > 0 || len(s.clients) > 0)
}

// admitted is the decision about a client.
type admitted struct {
	in      bool // it may be recorded
	refused bool // the sample contains it, but has no room
	smaller bool // the sample was made smaller
}

// admit decides whether a client may be recorded in a sample.
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

// shrink makes a sample smaller, by the rule that the records use.
func (s *sample) shrink(k sampleKey, most int) {
	var sizes []int
	if k.version != "" {
		sizes = slices.Collect(maps.Values(s.networks))
	}
	s.ahead = true
	s.become(s.Smaller(sizes, most))
}

// become replaces the sample by a subset of it. If a network has too many clients, those with
// the lowest IDs are kept.
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

// unsettled returns the samples that differ from the records: those made smaller here, and
// those whose state in the records is unknown.
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

// due returns the samples whose size must be checked.
func (a *admission) due(now time.Time) (keys []sampleKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, s := range a.samples {
		age := now.Sub(s.bounded)
		if s.ahead || s.fresh > a.most/boundPart || (s.fresh > 0 || s.wanted && s.Rows == 0) && (age < 0 || age >= boundEvery) {
			keys = append(keys, k)
		} else if s.fresh == 0 && age >= 2*admitTime {
			delete(a.samples, k) // no client asks for that release any more
		}
	}
	return keys
}

// bound takes over a sample from the records, and reports whether it is a smaller share of the
// clients than before.
func (a *admission) bound(k sampleKey, found record.Sample, now time.Time) (smaller bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.of(k, now)
	next := s.Within(found) // this server may have made it smaller in the meantime
	s.ahead = next.Level != found.Level || next.OfNetwork != found.OfNetwork
	if next.Level != s.Level || next.OfNetwork != s.OfNetwork {
		s.become(next)
	}
	smaller = found.Level > s.stored
	s.Rows, s.stored, s.wanted, s.fresh, s.bounded = found.Rows, found.Level, false, 0, now
	return smaller
}

// full returns the reason why clients of a sample are not recorded, empty if they are, and when a
// client last found no room, zero for never.
func (a *admission) full(k sampleKey, now time.Time) (why string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.samples[k]
	switch {
	case s == nil:
		return "", time.Time{}
	case now.Sub(s.refused) >= fullTime:
	case s.OfNetwork > 0:
		why = fmt.Sprintf("there is room for %d clients of each network only", s.OfNetwork)
	default:
		why = "there is no room for more clients"
	}
	return why, s.refused
}
