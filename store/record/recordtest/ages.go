package recordtest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"tsmon/store/longtest"
	"tsmon/store/record"
)

// Ages simulates a small fleet with a release a day, which keeps clients for 30 days. It
// checks that the tables of clients don't grow after day 60, and logs how long a pass of the
// guard takes on that day and on the last. bytes returns the size of the tables after the
// database has cleaned up, as it does by itself within a day. A normal run simulates 120 days.
// A long run simulates 10,000 if its share includes the case with this number.
func Ages(t *testing.T, number int, s record.Store, bytes func() int64) {
	t.Helper()
	const first, kept, fleet, looks = 60, 30, 100, 20
	days := 120
	if share, long := longtest.Chosen(t); long {
		share.Needs(t, number)
		days = 10_000
	}
	var size int64
	for day := 1; day <= days; day++ {
		liveDay(t, s, day, fleet, kept)
		if day != first && day != days {
			if day%kept == 0 {
				bytes()
			}
			continue
		}
		pass := time.Duration(0) // the shortest time: other load affects it least
		for n := range looks {
			begun := time.Now()
			judgeDay(t, s, day, fleet)
			if d := time.Since(begun); n == 0 || d < pass {
				pass = d
			}
		}
		now := bytes()
		t.Logf("day %d: %d bytes, a pass takes %s", day, now, pass)
		if day == first {
			size = now
			continue
		}
		if now > size*3/2 {
			t.Errorf("the tables of clients grew from %d to %d bytes in %d days", size, now, days-first)
		}
	}
}

func noonOf(day int) time.Time { return moment(0).AddDate(0, 0, day) }

// liveDay records a day on which all clients update to the day's release.
func liveDay(t *testing.T, s record.Store, day, fleet, kept int) {
	t.Helper()
	now, before, version := noonOf(day), fmt.Sprint(day-1), fmt.Sprint(day)
	var asked, runs record.Sightings
	for i := range fleet {
		c := digest(i)
		asked.Installed = append(asked.Installed, record.Installed{Channel: stable, Client: c, Version: before, Target: target, Seen: now})
		asked.Tries = append(asked.Tries, record.Try{Channel: stable, Client: c, Version: version, Asked: now, Network: record.Network(i), Round: uint64(day)})
		asked.Downloads = append(asked.Downloads, record.Download{Client: c, Version: version, Time: now})
		runs.Installed = append(runs.Installed, record.Installed{Channel: stable, Client: c, Version: version, Target: target, Seen: now.Add(time.Hour)})
		runs.Tries = append(runs.Tries, record.Try{Channel: stable, Client: c, Version: version, Running: now.Add(time.Hour), Round: uint64(day)})
	}
	sight(t, s, asked, runs)
	check(t, s.Refuse(t.Context(), stable, version, now))
	for _, of := range []string{"", version} {
		equal(t, "the sample", bound(t, s, stable, of, fleet), record.Sample{Rows: fleet})
		sweep(t, s, stable, of)
	}
	judgeDay(t, s, day, fleet)
	must(s.ForgetClients(t.Context(), now.AddDate(0, 0, -kept)))(t)
}

// judgeDay makes the calls of a guard's pass.
func judgeDay(t *testing.T, s record.Store, day, fleet int) {
	t.Helper()
	now, version := noonOf(day).Add(2*time.Hour), fmt.Sprint(day)
	if day > 1 {
		must(s.Summary(t.Context(), stable, fmt.Sprint(day-1)))(t)
	}
	found := must(s.Crowds(t.Context(), record.Round{Channel: stable, Version: version, Round: uint64(day)}, now, sumAges))(t)
	equal(t, "crowds", len(found.List), 1)
	equal(t, "healthy clients", found.List[0].Healthy, int64(fleet))
	equal(t, "clients", clients(t, s, stable, now.AddDate(0, 0, -1)), []record.ClientCount{counted(version, target, "", fleet)})
	check(t, s.KeepSummary(t.Context(), record.Summary{Channel: stable, Version: version, Clients: int64(fleet), Counted: now, Sums: json.RawMessage(`{}`)}))
}
