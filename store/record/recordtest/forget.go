package recordtest

import (
	"fmt"
	"testing"
	"time"

	"tsmon/store/record"
)

func forget(t *testing.T, s record.Store, before time.Time, want int) {
	t.Helper()
	equal(t, "rows", must(s.ForgetClients(t.Context(), before))(t), int64(want))
}

func forgetClients(t *testing.T, s record.Store) {
	var none time.Time
	sight(t, s, record.Sightings{
		Installed: []record.Installed{has(stable, 1, "1", "", 5), has(stable, 2, "1", "", 6), has(beta, 1, "1", "", 4)},
		Tries: []record.Try{{Channel: stable, Client: client(1), Version: "2", Asked: moment(5), Running: moment(5)},
			{Channel: stable, Client: client(2), Version: "2", Asked: moment(6), Failed: moment(1)}, {Channel: beta, Client: client(1), Version: "2", Asked: moment(3)}},
	})
	forget(t, s, none, 0)
	forget(t, s, moment(3), 0)
	forget(t, s, moment(5).Add(999), 2)
	equal(t, "clients of beta", len(clients(t, s, beta, none)), 0)
	equal(t, "tries of beta", progress(t, s, beta, "2"), record.Progress{})
	equal(t, "clients of stable", clients(t, s, stable, none), []record.ClientCount{counted("1", target, "", 2)})
	forget(t, s, moment(6), 2)
	equal(t, "clients of stable", clients(t, s, stable, none), []record.ClientCount{counted("1", target, "", 1)})
	equal(t, "tries of stable", progress(t, s, stable, "2"), failed)
	sight(t, s, tries(record.Try{Channel: stable, Client: client(1), Version: "2", Running: moment(9)}))
	equal(t, "what comes after", progress(t, s, stable, "2"), failed)
	forget(t, s, moment(1000), 2)
	forget(t, s, moment(1000), 0)
}

// forgetByLatest checks that a try is as old as its latest step, whichever step that is.
func forgetByLatest(t *testing.T, s record.Store) {
	all := []at{{asked: 9}, {asked: 1, fetched: 9}, {asked: 1, installed: 9}, {asked: 1, running: 9}, {asked: 1, failed: 9}, {asked: 1, crashed: 9},
		{asked: 9, fetched: 1, installed: 1, running: 1, failed: 1, crashed: 1}, {asked: 7, fetched: 6, installed: 5, running: 9, failed: 3, crashed: 2}}
	for i, seen := range all {
		sight(t, s, seen.sightings(stable, "2", i))
	}
	sight(t, s, at{asked: 8, fetched: 7, installed: 6, running: 5, failed: 4, crashed: 3}.sightings(beta, "2", 100))
	forget(t, s, moment(8), 0)
	forget(t, s, moment(9), 1)
	equal(t, "tries of beta", progress(t, s, beta, "2"), record.Progress{})
	forget(t, s, moment(10), len(all))
}

// forgetMany forgets many clients and few tries, and the reverse. That takes several
// transactions. All others must stay.
func forgetMany(t *testing.T, s record.Store) {
	few, many := 10, SightingsSize+10
	if testing.Short() {
		many /= 10
	}
	seen := crowd(0, many)
	for i, c := range []record.Sightings{{Tries: seen.Tries, Installed: seen.Installed[:few]}, {Tries: seen.Tries[:few], Installed: seen.Installed}} {
		for n := range few {
			c.Tries[n].Asked, c.Installed[n].Seen = moment(9), moment(9)
		}
		sight(t, s, c)
		forget(t, s, moment(9), many-few)
		equal(t, fmt.Sprint("clients that stay ", i), clients(t, s, stable, time.Time{}), []record.ClientCount{counted("1", target, "", few)})
		equal(t, fmt.Sprint("tries that stay ", i), progress(t, s, stable, "2"), record.Progress{Failed: few})
	}
}
