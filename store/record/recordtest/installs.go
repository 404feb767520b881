package recordtest

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"tsmon/store/record"
)

const stable, beta, target = "stable", "beta", "linux-x86_64"

// moment returns the time some microseconds after noon.
func moment(micros int) time.Time {
	return time.Date(2026, 3, 5, 12, 0, 0, micros*1000, time.UTC)
}

func client(i int) (c record.ClientID) {
	binary.BigEndian.PutUint64(c[8:], uint64(i))
	return c
}

func sight(t testing.TB, s record.Store, all ...record.Sightings) {
	t.Helper()
	for _, seen := range all {
		check(t, s.Sight(t.Context(), seen))
	}
}

func tries(list ...record.Try) record.Sightings { return record.Sightings{Tries: list} }

func downloads(list ...record.Download) record.Sightings { return record.Sightings{Downloads: list} }

func installed(list ...record.Installed) record.Sightings {
	return record.Sightings{Installed: list}
}

// has returns the version of a client, at some microseconds after noon.
func has(channel string, c int, version, cohort string, micros int) record.Installed {
	return record.Installed{Channel: channel, Client: client(c), Version: version, Target: target, Cohort: cohort, Seen: moment(micros)}
}

func counted(version, target, cohort string, n int) record.ClientCount {
	return record.ClientCount{Version: version, Target: target, Cohort: cohort, Clients: n}
}

func clients(t testing.TB, s record.Store, channel string, since time.Time) []record.ClientCount {
	t.Helper()
	return must(s.Clients(t.Context(), channel, since))(t)
}

// progress counts the tries of a release.
func progress(t testing.TB, s record.Store, channel, version string) record.Progress {
	t.Helper()
	return must(s.Progress(t.Context(), channel, version))(t)
}

func clientCounts(t *testing.T, s record.Store) {
	var none time.Time
	equal(t, "clients of nothing", len(clients(t, s, stable, none)), 0)
	sight(t, s, record.Sightings{}, installed(
		has(stable, 1, "1.10.0", "", 10),
		has(stable, 2, "1.9.0", "", 11),
		has(stable, 3, "1.9.0", "b", 12),
		record.Installed{Channel: stable, Client: client(4), Version: "1.9.0", Target: "Windows", Seen: moment(13)},
		has(stable, 5, "1.9.0", "", 14),
		has(beta, 1, "2.0.0-ñ", "", 15),
		has(stable, 2, "1.10.0", "", 20), // updates
		has(stable, 3, "1.8.0", "", 9),   // is late
	))
	want := []record.ClientCount{counted("1.10.0", target, "", 2), counted("1.9.0", "Windows", "", 1), counted("1.9.0", target, "", 1), counted("1.9.0", target, "b", 1)}
	equal(t, "all clients", clients(t, s, stable, none), want)
	equal(t, "clients at the microsecond", clients(t, s, stable, moment(10)), want)
	equal(t, "clients within the microsecond", clients(t, s, stable, moment(10).Add(999)), want)
	want[0].Clients = 1
	equal(t, "clients a microsecond later", clients(t, s, stable, moment(11)), want)
	equal(t, "clients of another channel", clients(t, s, beta, none), []record.ClientCount{counted("2.0.0-ñ", target, "", 1)})
	sight(t, s, installed(
		has(stable, 1, "1.8.0", "", 9),
		has(stable, 2, "1.9.0", "", 19),
		record.Installed{Channel: stable, Client: client(4), Version: "1.10.0", Target: target, Cohort: "b", Seen: moment(13).Add(time.Microsecond).In(time.FixedZone("x", 3600))},
	))
	equal(t, "clients after others came late", clients(t, s, stable, none),
		[]record.ClientCount{counted("1.10.0", target, "", 2), counted("1.10.0", target, "b", 1), counted("1.9.0", target, "", 1), counted("1.9.0", target, "b", 1)})
}

// clientTargets checks that a client has the target of its last request. A target that it
// reported counts only until it asks. The order of merging must not matter.
func clientTargets(t *testing.T, s record.Store) {
	asked := func(version, key string, micros int) record.Installed {
		i := has(stable, 1, version, "", micros)
		i.Target, i.Asked = key, i.Seen
		return i
	}
	reported := func(version string, micros int) record.Installed { return has(stable, 1, version, "", micros) }
	all := []record.Installed{
		reported("1.0.0", 1), asked("1.0.0", target+"-rpm", 2), asked("1.0.0", target+"-deb", 3), reported("1.1.0", 4),
		asked("1.0.0", target+"-appimage", 3),
	}
	want := []record.ClientCount{counted("1.1.0", target+"-deb", "", 1)}
	for turn := range 2 * len(all) { // each rotation of the list, as one batch and one by one
		channel := fmt.Sprint("channel-", turn)
		var order []record.Installed
		for n := range all {
			i := all[(n+turn)%len(all)]
			i.Channel = channel
			order = append(order, i)
		}
		if turn < len(all) {
			sight(t, s, installed(order...))
		} else {
			for _, i := range order {
				sight(t, s, installed(i))
			}
		}
		equal(t, "targets in "+channel, clients(t, s, channel, time.Time{}), want)
	}
	later := has(stable, 2, "1", "", 2)
	later.Target = "darwin-aarch64"
	sight(t, s, installed(later), installed(has(stable, 2, "1", "", 1)))
	equal(t, "never asked", clients(t, s, stable, time.Time{}), []record.ClientCount{counted("1", "darwin-aarch64", "", 1)})
	sight(t, s, installed(has(stable, 2, "1", "", 3)))
	equal(t, "reported later", clients(t, s, stable, time.Time{}), []record.ClientCount{counted("1", target, "", 1)})
}

// notOffered records reports about releases that were not offered.
func notOffered(t *testing.T, s record.Store) {
	all := func(version string) record.Try {
		return record.Try{Channel: stable, Client: client(1), Version: version, Installed: moment(2), Running: moment(3), Failed: moment(4), Crashed: moment(5)}
	}
	asked := func(version string) record.Try {
		return record.Try{Channel: stable, Client: client(1), Version: version, Asked: moment(1)}
	}
	sight(t, s, tries(all("1"), all("2"), all("2")), downloads(record.Download{Client: client(1), Version: "1", Time: moment(1)}))
	sight(t, s, tries(asked("1")))
	equal(t, "offered afterwards", progress(t, s, stable, "1"), record.Progress{Offered: 1})
	equal(t, "never offered", progress(t, s, stable, "2"), record.Progress{})
	sight(t, s, tries(all("1")))
	equal(t, "offered before", progress(t, s, stable, "1"), record.Progress{Crashed: 1})
	sight(t, s, tries(all("3"), asked("3")), tries(asked("4"), all("4")))
	for _, version := range []string{"3", "4"} {
		equal(t, "offered in the same sightings "+version, progress(t, s, stable, version), record.Progress{Crashed: 1})
	}
	for _, other := range []record.Try{{Channel: beta, Client: client(1), Version: "5"}, {Channel: stable, Client: client(2), Version: "5"}, {Channel: stable, Client: client(1), Version: "6"}} {
		other.Running = moment(1)
		sight(t, s, tries(asked("5")), tries(other))
	}
	equal(t, "others running", progress(t, s, stable, "5"), record.Progress{Offered: 1})
}

func fetched(t *testing.T, s record.Store) {
	asked := func(channel string, c int, version string) record.Try {
		return record.Try{Channel: channel, Client: client(c), Version: version, Asked: moment(5)}
	}
	sight(t, s, tries(asked(stable, 1, "1"), asked(beta, 1, "1"), asked(stable, 2, "1"), asked(stable, 1, "2")),
		downloads(record.Download{Client: client(1), Version: "1", Time: moment(7)}, record.Download{Client: client(1), Version: "1", Time: moment(6)},
			record.Download{Client: client(3), Version: "1", Time: moment(6)}, record.Download{Client: client(2), Version: "2", Time: moment(6)}))
	equal(t, "one of two", progress(t, s, stable, "1"), record.Progress{Waiting: 1, Offered: 1})
	equal(t, "in the other channel", progress(t, s, beta, "1"), record.Progress{Waiting: 1})
	equal(t, "another version", progress(t, s, stable, "2"), record.Progress{Offered: 1})
	for _, c := range []struct {
		then at
		want record.Progress
	}{{ask(7), waiting}, {ask(8), stuck}, {fetch(9), stuck}, {fetch(5), stuck}, {at{installed: 8}, waiting}, {ask(9), waiting}, {ask(10), stuck}, {at{installed: 9}, waiting}} {
		sight(t, s, c.then.sightings(beta, "1", 1)) // the latest download is of 7, then of 9
		equal(t, fmt.Sprintf("then %+v", c.then), progress(t, s, beta, "1"), c.want)
	}
}

func hostileSightings(t *testing.T, s record.Store) {
	var none time.Time
	good := []string{"", " ", "a'b\"c", "'; DROP TABLE clients; --", `"; DROP SCHEMA tsmon CASCADE; --`, "%", "$1", "?", "{schema}", `\`, "{a,NULL}", "NULL", "ñ\u200b\n", strings.Repeat("x", 256)}
	for i, text := range good {
		sight(t, s, record.Sightings{
			Installed: []record.Installed{{Channel: text, Client: client(i), Version: text, Target: text, Cohort: text, Seen: moment(1)}},
			Tries:     []record.Try{{Channel: text, Client: client(i), Version: text, Asked: moment(1)}},
			Downloads: []record.Download{{Client: client(i), Version: text, Time: moment(2)}},
		})
	}
	for _, text := range good {
		equal(t, "clients of "+text, clients(t, s, text, none), []record.ClientCount{counted(text, text, text, 1)})
		equal(t, "progress of "+text, progress(t, s, text, text), record.Progress{Waiting: 1})
	}
	for _, text := range []string{"a\x00", "\xff", "a\xc3", strings.Repeat("x", 257), strings.Repeat("x", 1<<20)} {
		first := record.Installed{Channel: "first", Client: client(0), Seen: moment(1)}
		for _, bad := range []record.Sightings{
			installed(first, record.Installed{Channel: text, Seen: moment(1)}), installed(first, record.Installed{Cohort: text, Seen: moment(1)}),
			{Installed: []record.Installed{first}, Tries: []record.Try{{Version: text, Asked: moment(1)}}},
			{Installed: []record.Installed{first}, Downloads: []record.Download{{Version: text, Time: moment(1)}}},
		} {
			demand(t, s.Sight(t.Context(), bad), record.ErrInvalid, "sight")
		}
		equal(t, "clients of what can't be stored", len(clients(t, s, text, none)), 0)
		equal(t, "progress of what can't be stored", progress(t, s, text, ""), record.Progress{})
		equal(t, "progress of a version that can't be stored", progress(t, s, "", text), record.Progress{})
	}
	equal(t, "what stood beside it", len(clients(t, s, "first", none)), 0)
}

// installsCancelled makes calls with contexts that were cancelled before.
func installsCancelled(t *testing.T, s record.Store) {
	seen := crowd(0, 1)
	sight(t, s, seen)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for ctx, kind := range map[context.Context]error{ctx: context.Canceled, past: record.ErrUnavailable} {
		demand(t, s.Sight(ctx, crowd(1, 2)), kind, "Sight")
		demand(t, errorOf(s.Clients(ctx, stable, time.Time{})), kind, "Clients")
		demand(t, errorOf(s.Progress(ctx, stable, "2")), kind, "Progress")
		n, err := s.ForgetClients(ctx, moment(1000))
		demand(t, err, kind, "ForgetClients")
		equal(t, "rows", n, int64(0))
	}
	demandCrowd(t, s, 1)
}
