package recordtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tsmon/store/record"
)

// SightingsSize is how many entries of each kind the largest batch has.
const SightingsSize = 10_000

// crowd returns sightings of the clients numbered from to to-1. Each has version 1, and was
// offered and fetched version 2.
func crowd(from, to int) record.Sightings {
	var s record.Sightings
	for i := from; i < to; i++ {
		c := client(i * 7919 % (1<<31 - 1)) // in no order
		s.Installed = append(s.Installed, record.Installed{Channel: stable, Client: c, Version: "1", Target: target, Seen: moment(1)})
		s.Tries = append(s.Tries, record.Try{Channel: stable, Client: c, Version: "2", Asked: moment(1), Failed: moment(3)})
		s.Downloads = append(s.Downloads, record.Download{Client: c, Version: "2", Time: moment(2)})
	}
	return s
}

// demandCrowd checks that n clients of a crowd are stored, and no others.
func demandCrowd(t testing.TB, s record.Store, n int) {
	t.Helper()
	var want []record.ClientCount
	if n > 0 {
		want = []record.ClientCount{{Version: "1", Target: target, Clients: n}}
	}
	equal(t, "clients", clients(t, s, stable, time.Time{}), want)
	equal(t, "progress", progress(t, s, stable, "2"), record.Progress{Failed: n})
}

// Sightings returns sightings of n clients of every kind.
func Sightings(n int) record.Sightings { return crowd(0, n) }

// Sighted checks that a store without clients can record some.
func Sighted(t *testing.T, s record.Store) {
	t.Helper()
	sight(t, s, Sightings(3))
	demandCrowd(t, s, 3)
}

func manySightings(t *testing.T, s record.Store) {
	size := SightingsSize
	if testing.Short() {
		size /= 10
	}
	seen := crowd(0, size)
	sight(t, s, seen, seen)
	demandCrowd(t, s, size)
	forget(t, s, moment(3), size)
	equal(t, "clients", len(clients(t, s, stable, time.Time{})), 0)
	forget(t, s, moment(4), size)
	demandCrowd(t, s, 0)
}

// sightCancelledInside cancels calls at random moments. Either all or none of the entries of a
// kind must be stored, and all must be if the call returns no error. A database may still
// commit after the caller has given up.
func sightCancelledInside(t *testing.T, s record.Store) {
	const rounds, size = 20, 400
	begun := time.Now()
	sight(t, s, crowd(0, size))
	usual := time.Since(begun)
	for i := range rounds {
		seen, channel := crowd((i+1)*size, (i+2)*size), fmt.Sprint(i)
		for n := range size {
			seen.Installed[n].Channel, seen.Tries[n].Channel = channel, channel
		}
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(usual*time.Duration(i)/rounds, cancel)
		err := s.Sight(ctx, seen)
		timer.Stop()
		cancel()
		there, tried := clients(t, s, channel, time.Time{}), progress(t, s, channel, "2")
		if len(there) == 0 || tried == (record.Progress{}) {
			demand(t, err, context.Canceled, "sight")
		}
		if len(there) > 0 {
			equal(t, "clients", there, []record.ClientCount{counted("1", target, "", size)})
		}
		if tried != (record.Progress{}) {
			equal(t, "progress", tried, record.Progress{Failed: size})
		}
	}
}

func sightRace(t *testing.T, s record.Store) { SightRace(t, s) }

const (
	sighters   = 8
	sighted    = 300 // clients
	sightRound = 120 // entries of each kind
)

// SightRace has many goroutines record the same clients in different orders. They use several
// stores on one database without clients, and also count clients and delete old ones. No call
// may fail, and nothing may be lost.
func SightRace(t *testing.T, stores ...record.Store) {
	t.Helper()
	raceAll(t, sighters, func(i int) error {
		return sightOften(t.Context(), stores[i%len(stores)], i)
	})
	for _, s := range stores {
		demandCrowd(t, s, sighted)
		fetched := int64(0)
		for _, c := range sums(t, s, stable, "2", 0).List {
			fetched += c.Ages[0].Reached
		}
		equal(t, "clients that fetched", fetched, int64(sighted))
		equal(t, "clients seen later", len(clients(t, s, stable, moment(2))), 0)
	}
}

// sightOften records clients of one half and downloads of the other, each download earlier
// than the last, so that goroutines write the same rows in different orders. In the end it
// records all clients and downloads.
func sightOften(ctx context.Context, s record.Store, i int) error {
	own, other := crowd(0, sighted/2), crowd(sighted/2, sighted)
	if i%2 == 1 {
		own, other = other, own
	}
	for round := range 6 {
		seed := round*sighters + i
		seen := pick(own, sightRound, seed)
		seen.Downloads = pick(other, sightRound, seed).Downloads
		for n := range seen.Downloads {
			seen.Downloads[n].Time = moment(100 - seed)
		}
		if err := s.Sight(ctx, seen); err != nil {
			return fmt.Errorf("sight: %w", err)
		}
		if n, err := s.ForgetClients(ctx, moment(1)); n != 0 || err != nil {
			return fmt.Errorf("%d clients that were just seen were forgotten: %w", n, err)
		}
		if list, err := s.Clients(ctx, stable, time.Time{}); err != nil || len(list) != 1 {
			return fmt.Errorf("clients are %v: %w", list, err)
		}
	}
	return s.Sight(ctx, pick(crowd(0, sighted), sighted, i))
}

// pick returns n entries of each kind, chosen and ordered by the seed. Each kind may have
// other clients.
func pick(s record.Sightings, n, seed int) record.Sightings {
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	var some record.Sightings
	for _, at := range random.Perm(len(s.Installed))[:n] {
		some.Installed = append(some.Installed, s.Installed[at])
	}
	for _, at := range random.Perm(len(s.Tries))[:n] {
		some.Tries = append(some.Tries, s.Tries[at])
	}
	for _, at := range random.Perm(len(s.Downloads))[:min(n, len(s.Downloads))] {
		some.Downloads = append(some.Downloads, s.Downloads[at])
	}
	return some
}
