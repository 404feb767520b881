package fleet

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsmon/store/record"
)

func idOf(i int) record.ClientID {
	sum := sha256.Sum256([]byte(fmt.Sprint(i)))
	return record.ClientID(sum[:])
}

// TestAdmit: nobody fills the records with clients that do not exist.
func TestAdmit(t *testing.T) {
	now := time.Date(2026, 3, 5, 15, 0, 0, 0, time.UTC)
	const most = 1000
	a := newAdmission(most)
	clients, tries := sampleKey{"stable", ""}, sampleKey{"stable", "1.1.0"}
	admitted := func(k sampleKey, from, to int, network func(i int) record.Network) (in, refused int) {
		for i := from; i < to; i++ {
			switch ok, no := a.admit(k, idOf(i), network(i), now); {
			case ok:
				in++
			case no:
				refused++
			}
		}
		return in, refused
	}
	one := func(int) record.Network { return 7 }
	own := func(i int) record.Network { return record.Network(i) }
	if in, refused := admitted(clients, 0, 80, one); in != most/networkPart || refused != 30 {
		t.Errorf("%d clients of one network, %d refused", in, refused)
	}
	if in, _ := admitted(clients, 0, 50, own); in != 50 {
		t.Errorf("%d of 50 clients are known when they ask from another network", in)
	}
	if in, _ := admitted(tries, 0, 80, one); in != most/networkPart {
		t.Errorf("%d tries of one network: they are apart from the clients", in)
	}
	if in, refused := admitted(clients, 0, 3*most, own); in != 2*most || refused != most {
		t.Errorf("%d clients while the records are not asked, %d refused", in, refused)
	}
	if why := a.full(clients, now); why != "there is no room for more clients" {
		t.Errorf("full: %q", why)
	}
	if len(a.due(now)) != 2 {
		t.Errorf("%v have to be bounded", a.due(now))
	}
	a.bound(clients, record.Sample{Level: 2}, now)
	a.bound(tries, record.Sample{OfNetwork: 20}, now)
	if len(a.due(now)) != 0 || a.rate(clients) != 0.25 || a.rate(sampleKey{"beta", ""}) != 1 {
		t.Errorf("%v have to be bounded again", a.due(now))
	}
	if in, refused := admitted(clients, 5000, 6000, own); in < 200 || in > 300 || refused != 0 {
		t.Errorf("%d of 1000 clients in a sample of a quarter, %d refused", in, refused)
	}
	if len(a.due(now)) != 1 {
		t.Error("many new clients are no reason to bound the sample")
	}
	if in, refused := admitted(tries, 100, 150, one); in != 0 || refused != 50 {
		t.Errorf("%d clients of a network that has more than its share", in)
	}
	if why := a.full(tries, now.Add(fullTime-1)); why != "there is room for 20 clients of each network only" {
		t.Errorf("full: %q", why)
	}
	if why := a.full(tries, now.Add(fullTime)); why != "" {
		t.Errorf("it is full later: %q", why)
	}
	now = now.Add(admitTime)
	if in, _ := admitted(tries, 1000, 1100, one); in != 20 {
		t.Errorf("%d on the next day", in)
	}
}

// TestLostNotAdmitted: a client whose sighting is lost takes nobody's room.
func TestLostNotAdmitted(t *testing.T) {
	s := NewSightings(Options{Clients: 10, Registry: prometheus.NewRegistry()})
	k, now := sampleKey{channel: "stable"}, time.Date(2026, 3, 5, 15, 0, 0, 0, time.UTC)
	if !s.admit(k, client{id: idOf(0), known: true}, now) {
		t.Error("a client is not admitted")
	}
	for i := range maxSeen {
		s.seen.install(record.Installed{Channel: "stable", Client: idOf(i), Seen: now})
	}
	if s.admit(k, client{id: idOf(1), network: 1, known: true}, now) || len(s.admission.samples[k].clients) != 1 {
		t.Errorf("%d clients are admitted", len(s.admission.samples[k].clients))
	}
}
