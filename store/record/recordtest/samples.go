package recordtest

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"tsmon/store/record"
)

// digest returns an ID in the form of clients' IDs.
func digest(i int) record.ClientID {
	sum := sha256.Sum256([]byte(fmt.Sprint(i)))
	return record.ClientID(sum[:])
}

// populate returns sightings of the clients numbered from to to-1, on a channel that offers
// version 2.
func populate(channel string, from, to int, network func(i int) record.Network) record.Sightings {
	var s record.Sightings
	for i := from; i < to; i++ {
		s.Installed = append(s.Installed, record.Installed{Channel: channel, Client: digest(i), Version: "1", Target: target, Seen: moment(1)})
		s.Tries = append(s.Tries, record.Try{Channel: channel, Client: digest(i), Version: "2", Asked: moment(1), Network: network(i)})
	}
	return s
}

func ownNetwork(i int) record.Network { return record.Network(i) }

func bound(t *testing.T, s record.Store, channel, version string, most int) record.Sample {
	t.Helper()
	return must(s.Bound(t.Context(), channel, version, most, record.Sample{}))(t)
}

func sweep(t *testing.T, s record.Store, channel, version string) {
	t.Helper()
	check(t, s.Sweep(t.Context(), channel, version))
}

func sampled(t *testing.T, s record.Store, channel, version string) record.Sample {
	t.Helper()
	return must(s.Sample(t.Context(), channel, version))(t)
}

// holding counts the clients below n that a sample contains.
func holding(level record.Level, n int) (rows int) {
	for i := range n {
		if level.Holds(digest(i)) {
			rows++
		}
	}
	return rows
}

// boundClients checks that a channel with too many clients keeps a sample, which never grows
// again.
func boundClients(t *testing.T, s record.Store) {
	const n = 1000
	equal(t, "the sample of nobody", bound(t, s, stable, "", 400), record.Sample{})
	sight(t, s, populate(stable, 0, n, ownNetwork), populate(beta, 0, n, ownNetwork))
	equal(t, "a sample of all", bound(t, s, stable, "", n), record.Sample{Rows: n})
	want := record.Sample{Level: 2, Rows: holding(2, n)}
	for range 2 {
		equal(t, "the sample", bound(t, s, stable, "", 400), want)
		equal(t, "the sample again", sampled(t, s, stable, ""), want)
		equal(t, "the clients in it", clients(t, s, stable, time.Time{}), []record.ClientCount{{Version: "1", Target: target, Clients: want.Rows, Level: 2}})
		sight(t, s, populate(stable, 0, n, ownNetwork)) // from a server that doesn't know the sample
		equal(t, "the clients in it after others came", clients(t, s, stable, time.Time{})[0].Clients, want.Rows)
	}
	sweep(t, s, stable, "")
	equal(t, "the tries beside them", progress(t, s, stable, "2"), record.Progress{Offered: n})
	equal(t, "the clients of another channel", clients(t, s, beta, time.Time{}), []record.ClientCount{counted("1", target, "", n)})
	forget(t, s, moment(2), want.Rows+3*n) // clients outside the sample are already deleted
	equal(t, "the sample without clients", bound(t, s, stable, "", 400), record.Sample{Level: 2})
	for _, most := range []int{0, -1} {
		demand(t, errorOf(s.Bound(t.Context(), stable, "", most, record.Sample{})), record.ErrInvalid, "Bound")
	}
	demand(t, errorOf(s.Bound(t.Context(), "a\x00", "", 1, record.Sample{})), record.ErrInvalid, "Bound")
	sweep(t, s, "a\x00", "")
}

// boundKnown checks that a sample shrinks to the one that the caller knows, and never grows
// again.
func boundKnown(t *testing.T, s record.Store) {
	const n = 1000
	sight(t, s, populate(stable, 0, n, func(i int) record.Network { return record.Network(i % 4) }))
	for _, version := range []string{"", "2"} {
		for _, c := range []struct {
			most        int
			known, want record.Level
		}{{n, 1, 1}, {400, 0, 2}, {n, 1, 2}, {100, 3, 4}} {
			sample := must(s.Bound(t.Context(), stable, version, c.most, record.Sample{Level: c.known, OfNetwork: 1 << 20, Rows: 7}))(t)
			if version == "" {
				equal(t, "the sample", sample, record.Sample{Level: c.want, OfNetwork: 1 << 20, Rows: holding(c.want, n)})
			} else if sample.Level < c.known || sample.Rows > c.most {
				t.Errorf("at most %d, known %d: %+v", c.most, c.known, sample)
			}
			equal(t, "the sample that others see", sampled(t, s, stable, version), sample)
			sweep(t, s, stable, version)
			equal(t, "the sample when it is swept", sampled(t, s, stable, version), sample)
		}
	}
	sight(t, s, populate(beta, 0, n, func(i int) record.Network { return record.Network(i % 4) }))
	equal(t, "the tries of each network", must(s.Bound(t.Context(), beta, "2", n, record.Sample{OfNetwork: 50}))(t), record.Sample{OfNetwork: 50, Rows: 200})
	sweep(t, s, beta, "2")
	equal(t, "the tries that stay", progress(t, s, beta, "2"), record.Progress{Offered: 200})
}

// boundTries checks that the tries of the largest networks are dropped first, so that made-up
// clients can't displace real ones.
func boundTries(t *testing.T, s record.Store) {
	const own, few, each = 120, 3, 300
	network := func(i int) record.Network {
		if i < own {
			return record.Network(i + few)
		}
		return record.Network(i % few)
	}
	all := populate(stable, 0, own+few*each, network)
	sight(t, s, all)
	want := record.Sample{OfNetwork: (250 - own) / few, Rows: own + few*((250-own)/few)}
	for range 2 {
		equal(t, "the sample", bound(t, s, stable, "2", 500), want)
		equal(t, "the sample again", sampled(t, s, stable, "2"), want)
		sweep(t, s, stable, "2")
		equal(t, "the tries in it", progress(t, s, stable, "2"), record.Progress{Offered: want.Rows})
	}
	for i := range all.Tries {
		all.Tries[i].Asked, all.Tries[i].Failed = time.Time{}, moment(2)
	}
	sight(t, s, record.Sightings{Tries: all.Tries[:own]})
	equal(t, "those of the other networks", progress(t, s, stable, "2"), record.Progress{Failed: own, Offered: want.Rows - own})
	equal(t, "the clients beside them", bound(t, s, stable, "", 5000).Rows, own+few*each)

	sight(t, s, populate(beta, 0, 1000, ownNetwork))
	want = record.Sample{Level: 2, Rows: holding(2, 1000)}
	equal(t, "the sample where networks have one each", bound(t, s, beta, "2", 400), want)
	sight(t, s, populate(beta, 0, 1000, ownNetwork)) // from a server that doesn't know the sample
	equal(t, "the tries in it after others came", progress(t, s, beta, "2"), record.Progress{Offered: want.Rows})
	equal(t, "the sample of nobody", sampled(t, s, "a\x00", "2"), record.Sample{})
}

// BoundRace has several servers record and bound clients concurrently. In the end all must
// have the same sample.
func BoundRace(t *testing.T, stores ...record.Store) {
	t.Helper()
	const n, most = 600, 200
	raceAll(t, sighters, func(i int) error {
		s := stores[i%len(stores)]
		for round := range 4 {
			seen := pick(populate(stable, 0, n, ownNetwork), n/2, i*10+round)
			if err := s.Sight(t.Context(), seen); err != nil {
				return fmt.Errorf("sight: %w", err)
			}
			for _, version := range []string{"", "2"} {
				if _, err := s.Bound(t.Context(), stable, version, most, record.Sample{}); err != nil {
					return err
				}
				if err := s.Sweep(t.Context(), stable, version); err != nil {
					return err
				}
			}
		}
		return s.Sight(t.Context(), populate(stable, 0, n, ownNetwork))
	})
	for _, s := range stores {
		for _, version := range []string{"", "2"} {
			sample := bound(t, s, stable, version, most)
			equal(t, "the clients of version "+version, sample, record.Sample{Level: sample.Level, Rows: holding(sample.Level, n)})
			if sample.Rows > most || sample.Level < 2 || sample.Level > 3 {
				t.Errorf("%+v", sample)
			}
		}
	}
}

func boundRace(t *testing.T, s record.Store) { BoundRace(t, s) }
