package recordtest

import (
	"fmt"
	"testing"
	"time"

	"tsmon/store/record"
)

// at is what was seen of a client: microseconds after noon, 0 for nothing.
type at struct {
	asked, fetched, installed, running, failed, crashed int
}

// sightings returns them, of a release.
func (a at) sightings(channel, version string, c int) record.Sightings {
	one := func(micros int) time.Time {
		if micros == 0 {
			return time.Time{}
		}
		return moment(micros)
	}
	s := tries(record.Try{Channel: channel, Version: version, Client: client(c), Asked: one(a.asked),
		Installed: one(a.installed), Running: one(a.running), Failed: one(a.failed), Crashed: one(a.crashed)})
	if a.fetched != 0 {
		s.Downloads = []record.Download{{Client: client(c), Version: version, Time: one(a.fetched)}}
	}
	return s
}

var (
	crashed = record.Progress{Crashed: 1}
	running = record.Progress{Running: 1}
	failed  = record.Progress{Failed: 1}
	stuck   = record.Progress{Kept: 1}
	waiting = record.Progress{Waiting: 1}
	offered = record.Progress{Offered: 1}
)

// outcomes makes a client of each way in which a release can end up, and asks at
// the microsecond of its time, and after it.
func outcomes(t *testing.T, s record.Store) {
	var none time.Time
	for i, c := range []struct {
		seen at
		want record.Progress
		time int
		then record.Progress // asked for after that time
	}{
		{at{asked: 1}, offered, 1, record.Progress{}},
		{at{asked: 1, fetched: 1}, waiting, 1, record.Progress{}},
		{at{asked: 1, fetched: 3}, waiting, 3, record.Progress{}},
		{at{asked: 4, installed: 3}, waiting, 3, record.Progress{}},
		{at{asked: 1, fetched: 3, installed: 5}, waiting, 5, record.Progress{}},
		{at{asked: 1, fetched: 5, installed: 3}, waiting, 5, record.Progress{}},
		// Kept, unless it said since that it waits.
		{at{asked: 4, fetched: 3}, stuck, 4, record.Progress{}},
		{at{asked: 9, fetched: 3, installed: 2}, stuck, 9, record.Progress{}},
		{at{asked: 9, fetched: 3, installed: 3}, waiting, 3, record.Progress{}},
		{at{asked: 9, fetched: 3, installed: 5}, waiting, 5, record.Progress{}},
		{at{asked: 9, fetched: 6, installed: 5}, stuck, 9, record.Progress{}},
		// The last of running, failed and kept.
		{at{asked: 1, failed: 2}, failed, 2, record.Progress{}},
		{at{asked: 1, running: 2}, running, 2, record.Progress{}},
		{at{asked: 1, running: 2, failed: 3}, failed, 3, record.Progress{}},
		{at{asked: 1, running: 3, failed: 2}, running, 3, record.Progress{}},
		{at{asked: 1, running: 2, failed: 2}, failed, 2, record.Progress{}},
		{at{asked: 4, fetched: 3, failed: 2}, stuck, 4, record.Progress{}},
		{at{asked: 4, fetched: 3, failed: 4}, failed, 4, record.Progress{}},
		{at{asked: 4, fetched: 3, failed: 5}, failed, 5, record.Progress{}},
		{at{asked: 4, fetched: 3, running: 2}, stuck, 4, record.Progress{}},
		{at{asked: 4, fetched: 3, running: 4}, stuck, 4, record.Progress{}},
		{at{asked: 4, fetched: 3, running: 5}, running, 5, record.Progress{}},
		{at{asked: 4, fetched: 3, running: 5, failed: 5}, failed, 5, record.Progress{}},
		{at{asked: 4, fetched: 3, running: 6, failed: 5}, running, 6, record.Progress{}},
		{at{asked: 6, fetched: 3, running: 4, failed: 5}, stuck, 6, record.Progress{}},
		// Whatever came after is of no account.
		{at{asked: 5, fetched: 6, installed: 7, running: 2}, running, 2, record.Progress{}},
		{at{asked: 5, fetched: 6, installed: 7, failed: 2}, failed, 2, record.Progress{}},
		{at{asked: 9, fetched: 3, installed: 5, failed: 2}, failed, 2, record.Progress{}},
		// A crash stands, as long as it counts.
		{at{asked: 1, crashed: 2}, crashed, 2, record.Progress{}},
		{at{asked: 9, crashed: 2}, crashed, 2, offered},
		{at{asked: 1, fetched: 9, crashed: 2}, crashed, 2, waiting},
		{at{asked: 1, installed: 9, crashed: 2}, crashed, 2, waiting},
		{at{asked: 1, running: 9, crashed: 2}, crashed, 2, running},
		{at{asked: 1, running: 9, failed: 1, crashed: 10}, crashed, 10, record.Progress{}},
		{at{asked: 1, failed: 9, crashed: 2}, crashed, 2, failed},
		{at{asked: 9, fetched: 8, running: 7, failed: 6, crashed: 5}, crashed, 5, stuck},
	} {
		version := fmt.Sprint(i)
		sight(t, s, c.seen.sightings(stable, version, 7))
		what := fmt.Sprintf("%+v", c.seen)
		equal(t, what, progress(t, s, stable, version, none), c.want)
		equal(t, what+" at its microsecond", progress(t, s, stable, version, moment(c.time)), c.want)
		equal(t, what+" within its microsecond", progress(t, s, stable, version, moment(c.time).Add(999)), c.want)
		equal(t, what+" a microsecond later", progress(t, s, stable, version, moment(c.time+1)), c.then)
		sight(t, s, c.seen.sightings(stable, "all", i))
	}
	equal(t, "all outcomes", progress(t, s, stable, "all", none), record.Progress{Crashed: 8, Running: 5, Failed: 8, Kept: 7, Waiting: 7, Offered: 1})
	equal(t, "outcomes in another channel", progress(t, s, beta, "all", none), record.Progress{})
}

// latestStands sees everything at three times, in every order.
func latestStands(t *testing.T, s record.Store) {
	for kind, c := range []struct {
		seen func(micros int) at
		want record.Progress
	}{
		{func(micros int) at { return at{asked: micros} }, offered},
		{func(micros int) at { return at{fetched: micros} }, waiting},
		{func(micros int) at { return at{installed: micros} }, waiting},
		{func(micros int) at { return at{running: micros} }, running},
		{func(micros int) at { return at{failed: micros} }, failed},
		{func(micros int) at { return at{crashed: micros} }, crashed},
	} {
		for i, order := range [][]int{{3, 5, 7}, {3, 7, 5}, {5, 3, 7}, {5, 7, 3}, {7, 3, 5}, {7, 5, 3}} {
			version := fmt.Sprint(kind, i)
			sight(t, s, ask(1).sightings(stable, version, 1))
			for _, micros := range order {
				sight(t, s, c.seen(micros).sightings(stable, version, 1))
			}
			what := fmt.Sprintf("%+v, %v", c.want, order)
			equal(t, what, progress(t, s, stable, version, moment(7)), c.want)
			equal(t, what+" after it", progress(t, s, stable, version, moment(8)), record.Progress{})
		}
	}
}

// keptCase is what a release comes to whose asks and downloads are merged one
// after the other.
type keptCase struct {
	steps      []at
	kept, from int // 0: it is not kept
	otherwise  record.Progress
	time       int // of otherwise: what it is if the download does not count
}

func ask(micros int) at   { return at{asked: micros} }
func fetch(micros int) at { return at{fetched: micros} }

// kept asks what becomes of a client that is offered again what it fetched.
func kept(t *testing.T, s record.Store) {
	for i, c := range []keptCase{
		{[]at{ask(1)}, 0, 0, offered, 1},
		{[]at{ask(1), fetch(2)}, 0, 0, waiting, 2},
		{[]at{ask(1), fetch(2), ask(2)}, 0, 0, waiting, 2},
		{[]at{ask(2), fetch(2)}, 0, 0, waiting, 2},
		{[]at{ask(1), fetch(2), ask(3)}, 3, 2, waiting, 2},
		{[]at{{asked: 3, fetched: 2}}, 3, 2, waiting, 2},
		{[]at{ask(1), {asked: 3, fetched: 2}}, 3, 2, waiting, 2},
		// It is fetched again.
		{[]at{ask(1), fetch(2), ask(3), fetch(4)}, 3, 2, waiting, 4},
		{[]at{ask(1), fetch(2), ask(3), fetch(3)}, 3, 2, waiting, 3},
		{[]at{ask(1), fetch(2), ask(3), fetch(4), ask(5)}, 5, 4, waiting, 4},
		{[]at{{asked: 3, fetched: 2}, {asked: 5, fetched: 4}}, 5, 4, waiting, 4},
		{[]at{ask(1), fetch(2), ask(3), fetch(4), ask(5), fetch(6)}, 5, 4, waiting, 6},
		{[]at{ask(1), fetch(2), ask(3), ask(5), fetch(6)}, 5, 2, waiting, 6},
		{[]at{ask(1), fetch(2), ask(3), {asked: 5, fetched: 6}}, 5, 2, waiting, 6},
		// Something comes late.
		{[]at{ask(1), fetch(2), ask(5), ask(3)}, 5, 2, waiting, 2},
		{[]at{ask(1), fetch(2), ask(5), ask(1)}, 5, 2, waiting, 2},
		{[]at{ask(5), fetch(2), fetch(3)}, 5, 3, waiting, 3},
		{[]at{ask(5), fetch(3), fetch(2)}, 5, 3, waiting, 3},
		{[]at{ask(5), fetch(6), fetch(2)}, 5, 2, waiting, 6},
		{[]at{ask(2), fetch(2), ask(2), fetch(1)}, 2, 1, waiting, 2},
		{[]at{ask(1), fetch(2), ask(3), fetch(6), ask(5), fetch(4)}, 5, 4, waiting, 6},
		// What else is merged changes nothing of it.
		{[]at{ask(1), fetch(2), ask(3), {installed: 1}}, 3, 2, waiting, 2},
		{[]at{ask(1), fetch(2), ask(3), fetch(4), {installed: 1}}, 3, 2, waiting, 4},
	} {
		version := fmt.Sprint(i)
		for _, step := range c.steps {
			seen := step.sightings(stable, version, 1)
			seen.Tries = append(seen.Tries, step.sightings(beta, version, 1).Tries...)
			sight(t, s, seen, seen)
		}
		c.demand(t, s, stable, version)
		c.demand(t, s, beta, version)
	}
}

// demand asks since when a client is kept, and of which download.
func (c keptCase) demand(t *testing.T, s record.Store, channel, version string) {
	t.Helper()
	var none time.Time
	what := fmt.Sprintf("%s, %+v", channel, c.steps)
	if c.kept != 0 {
		equal(t, what+" when it is kept", progressOf(t, s, channel, version, moment(c.kept), moment(c.from)), stuck)
		equal(t, what+" after it is kept", progressOf(t, s, channel, version, moment(c.kept+1), moment(c.from)), record.Progress{})
		equal(t, what+" decided within the microsecond", progressOf(t, s, channel, version, none, moment(c.from).Add(999)), stuck)
	}
	decided := moment(c.from + 1)
	equal(t, what+" decided later", progressOf(t, s, channel, version, none, decided), c.otherwise)
	equal(t, what+" decided later, at its time", progressOf(t, s, channel, version, moment(c.time), decided), c.otherwise)
	equal(t, what+" decided later, after it", progressOf(t, s, channel, version, moment(c.time+1), decided), record.Progress{})
}

// keptInAnyOrder merges an ask and a download, the former after the latter, in
// both orders, before and after other clients' and releases'.
func keptInAnyOrder(t *testing.T, s record.Store) {
	for _, first := range []at{{}, ask(1), ask(4), ask(5)} {
		for i, order := range [][]at{{ask(5), fetch(4)}, {fetch(4), ask(5)}} {
			if first == (at{}) && i == 1 {
				continue // nothing to merge the download into
			}
			c := keptCase{append([]at{first}, order...), 5, 4, waiting, 4}
			version := fmt.Sprint(first, i)
			for _, step := range c.steps {
				sight(t, s, step.sightings(stable, version, 1))
				sight(t, s, at{asked: 3, fetched: 7}.sightings(stable, version+"'", 1), at{asked: 9, fetched: 8}.sightings(beta, version, 2))
			}
			c.demand(t, s, stable, version)
		}
	}
}

// keptRepeated tells what was merged in order of time again, in that order and the
// other.
func keptRepeated(t *testing.T, s record.Store) {
	steps := []at{ask(1), fetch(2), ask(3), ask(4), fetch(5), fetch(6), ask(7), {installed: 8, running: 8}, fetch(9)}
	for i, step := range steps {
		sight(t, s, step.sightings(stable, "2", 1))
		want := everyProgress(t, s)
		for n := range i + 1 {
			sight(t, s, steps[n].sightings(stable, "2", 1))
		}
		for n := range i + 1 {
			sight(t, s, steps[i-n].sightings(stable, "2", 1))
		}
		equal(t, fmt.Sprintf("%+v", steps[:i+1]), everyProgress(t, s), want)
	}
}

// everyProgress returns what release 2 came to since every microsecond, and
// decided on at every one.
func everyProgress(t *testing.T, s record.Store) (list []record.Progress) {
	t.Helper()
	for micros := range 10 {
		list = append(list, progress(t, s, stable, "2", moment(micros)), progressOf(t, s, stable, "2", moment(1), moment(micros)))
	}
	return list
}
