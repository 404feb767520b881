package fleet

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsmon/store/record"
)

func idOf(i int) record.ClientID {
	sum := sha256.Sum256([]byte(fmt.Sprint(i)))
	return record.ClientID(sum[:])
}

// TestAdmit: made-up clients can't fill the records.
func TestAdmit(t *testing.T) {
	now := time.Date(2026, 3, 5, 15, 0, 0, 0, time.UTC)
	const most = 1000
	a := newAdmission(most)
	clients, tries := sampleKey{"stable", ""}, sampleKey{"stable", "1.1.0"}
	admitted := func(k sampleKey, from, to int, network func(i int) record.Network) (in, refused int) {
		for i := from; i < to; i++ {
			switch d := a.admit(k, idOf(i), network(i), now); {
			case d.in:
				in++
			case d.refused:
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
	if in, refused := admitted(clients, 0, 3*most, own); in < most || refused != 0 {
		t.Errorf("%d clients while the records are not asked, %d refused", in, refused)
	}
	if s := a.samples[clients]; s.Level != 2 || len(s.clients) < most/2 || len(s.clients) > most || !s.ahead {
		t.Errorf("%d clients are kept while the records are not asked, at level %d", len(s.clients), s.Level)
	}
	if why, _ := a.full(clients, now); why != "" {
		t.Errorf("full: %q", why)
	}
	if len(a.due(now)) != 2 {
		t.Errorf("%v have to be bounded", a.due(now))
	}
	if a.bound(clients, record.Sample{Level: 1}, now); a.sample(clients).Level != 2 || len(a.unsettled()) != 2 {
		t.Errorf("the records, which are behind, make it %+v", a.sample(clients))
	}
	a.bound(clients, record.Sample{Level: 2}, now)
	a.bound(tries, record.Sample{OfNetwork: 20}, now)
	if len(a.due(now)) != 0 || len(a.unsettled()) != 0 || a.sample(sampleKey{"beta", ""}) != (record.Sample{}) {
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
	if why, _ := a.full(tries, now.Add(fullTime-1)); why != "there is room for 20 clients of each network only" {
		t.Errorf("full: %q", why)
	}
	if why, _ := a.full(tries, now.Add(fullTime)); why != "" {
		t.Errorf("it is full later: %q", why)
	}
	now = now.Add(admitTime)
	if in, _ := admitted(tries, 1000, 1100, one); in != 20 {
		t.Errorf("%d on the next day", in)
	}
}

// TestAdmitRunning: if clients run a release that none of them was offered, the records are not
// searched for each of them.
func TestAdmitRunning(t *testing.T) {
	now := time.Date(2026, 3, 5, 15, 0, 0, 0, time.UTC)
	a, k := newAdmission(1000), sampleKey{"stable", "1.1.0"}
	runs := func(what string, rolling, want bool) {
		t.Helper()
		if got := a.runs(k, idOf(1), rolling, now); got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	runs("before the records are asked", false, true)
	a.bound(k, record.Sample{}, now)
	runs("while the records have nobody", false, false)
	runs("while it is let out", true, true)
	if now = now.Add(boundEvery); len(a.due(now)) != 1 {
		t.Error("the records are not asked again")
	}
	a.bound(k, record.Sample{Rows: 1}, now)
	runs("once the records have somebody", false, true)
	if now = now.Add(boundEvery); len(a.due(now)) != 0 {
		t.Error("the records are asked again though they have somebody")
	}
	a.bound(k, record.Sample{}, now)
	a.admit(k, idOf(2), 7, now)
	runs("once this server offered it to somebody", false, true)
	a.bound(k, record.Sample{Level: record.MaxLevel, Rows: 1}, now)
	runs("of a sample without the client", true, false)
}

// TestAdmitCrowded: if a few networks made up most clients of a release, the clients of other
// networks stay. The few networks keep room for a few clients each.
func TestAdmitCrowded(t *testing.T) {
	now := time.Date(2026, 3, 5, 15, 0, 0, 0, time.UTC)
	const most, few, own = 1000, 40, 80
	a, tries := newAdmission(most), sampleKey{"stable", "1.1.0"}
	for i := range own {
		a.admit(tries, idOf(-i-1), record.Network(1000+i), now)
	}
	refused := 0
	for i := range 20 * most {
		if a.admit(tries, idOf(i), record.Network(i%few), now).refused {
			refused++
		}
	}
	s := a.samples[tries]
	if s.Level != 0 || s.OfNetwork != (most/2-own)/few || refused < 18*most || len(s.clients) != own+few*s.OfNetwork {
		t.Errorf("%+v of %d clients, %d refused", s.Sample, len(s.clients), refused)
	}
	for network, n := range s.networks {
		if n > s.OfNetwork {
			t.Errorf("%d clients of network %d", n, network)
		}
	}
	for i := range own {
		if !a.admit(tries, idOf(-i-1), record.Network(1000+i), now).in {
			t.Fatal("a client of another network is no longer recorded")
		}
	}
	if why, _ := a.full(tries, now); !strings.HasPrefix(why, "there is room for 10 clients of each network only") {
		t.Errorf("full: %q", why)
	}
}

// TestLostNotAdmitted: a client whose sighting was lost takes no room.
func TestLostNotAdmitted(t *testing.T) {
	s := NewSightings(Options{Clients: 10, Registry: prometheus.NewRegistry()})
	k, now := sampleKey{channel: "stable"}, time.Date(2026, 3, 5, 15, 0, 0, 0, time.UTC)
	if !s.admit(k, client{id: idOf(0), known: true}, now) {
		t.Error("a client is not admitted")
	}
	for i := range s.seen.most {
		s.seen.install(record.Installed{Channel: "stable", Client: idOf(i), Seen: now})
	}
	if s.admit(k, client{id: idOf(1), network: 1, known: true}, now) || len(s.admission.samples[k].clients) != 1 {
		t.Errorf("%d clients are admitted", len(s.admission.samples[k].clients))
	}
}
