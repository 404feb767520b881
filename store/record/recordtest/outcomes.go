package recordtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tsmon/store/record"
)

// at holds when each step of a client was seen, in microseconds after noon. 0 means never.
type at struct {
	asked, fetched, installed, running, failed, crashed int
}

// sightings returns the steps as sightings of client c.
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

// outcomes tries every outcome of a release.
func outcomes(t *testing.T, s record.Store) {
	for i, c := range []struct {
		seen at
		want record.Progress
	}{
		{at{asked: 1}, offered},
		{at{asked: 1, fetched: 1}, waiting},
		{at{asked: 1, fetched: 3}, waiting},
		{at{asked: 4, installed: 3}, waiting},
		{at{asked: 1, fetched: 3, installed: 5}, waiting},
		{at{asked: 1, fetched: 5, installed: 3}, waiting},
		// Kept, unless the client has reported an installation since the download.
		{at{asked: 4, fetched: 3}, stuck},
		{at{asked: 9, fetched: 3, installed: 2}, stuck},
		{at{asked: 9, fetched: 3, installed: 3}, waiting},
		{at{asked: 9, fetched: 3, installed: 5}, waiting},
		{at{asked: 9, fetched: 6, installed: 5}, stuck},
		// The latest of running, failed and kept.
		{at{asked: 1, failed: 2}, failed},
		{at{asked: 1, running: 2}, running},
		{at{asked: 1, running: 2, failed: 3}, failed},
		{at{asked: 1, running: 3, failed: 2}, running},
		{at{asked: 1, running: 2, failed: 2}, failed},
		{at{asked: 4, fetched: 3, failed: 2}, stuck},
		{at{asked: 4, fetched: 3, failed: 4}, failed},
		{at{asked: 4, fetched: 3, failed: 5}, failed},
		{at{asked: 4, fetched: 3, running: 2}, stuck},
		{at{asked: 4, fetched: 3, running: 4}, stuck},
		{at{asked: 4, fetched: 3, running: 5}, running},
		{at{asked: 4, fetched: 3, running: 5, failed: 5}, failed},
		{at{asked: 4, fetched: 3, running: 6, failed: 5}, running},
		{at{asked: 6, fetched: 3, running: 4, failed: 5}, stuck},
		// Later offers, downloads and installations don't count.
		{at{asked: 5, fetched: 6, installed: 7, running: 2}, running},
		{at{asked: 5, fetched: 6, installed: 7, failed: 2}, failed},
		{at{asked: 9, fetched: 3, installed: 5, failed: 2}, failed},
		// A crash outweighs the rest.
		{at{asked: 1, crashed: 2}, crashed},
		{at{asked: 9, crashed: 2}, crashed},
		{at{asked: 1, fetched: 9, crashed: 2}, crashed},
		{at{asked: 1, installed: 9, crashed: 2}, crashed},
		{at{asked: 1, running: 9, crashed: 2}, crashed},
		{at{asked: 1, running: 9, failed: 1, crashed: 10}, crashed},
		{at{asked: 1, failed: 9, crashed: 2}, crashed},
		{at{asked: 9, fetched: 8, running: 7, failed: 6, crashed: 5}, crashed},
	} {
		version := fmt.Sprint(i)
		sight(t, s, c.seen.sightings(stable, version, 7))
		equal(t, fmt.Sprintf("%+v", c.seen), progress(t, s, stable, version), c.want)
		sight(t, s, c.seen.sightings(stable, "all", i))
	}
	equal(t, "all outcomes", progress(t, s, stable, "all"), record.Progress{Crashed: 8, Running: 5, Failed: 8, Kept: 7, Waiting: 7, Offered: 1})
	equal(t, "outcomes in another channel", progress(t, s, beta, "all"), record.Progress{})
}

// latestStands records each step at three times, in every order, and checks that the latest
// counts.
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
			equal(t, fmt.Sprintf("%+v, %v", c.want, order), progress(t, s, stable, version), c.want)
		}
	}
	forget(t, s, moment(7), 0)
	forget(t, s, moment(8), 36)
}

// keptCase is a sequence of steps that are merged one after the other, and the outcome.
type keptCase struct {
	steps      []at
	kept, from int             // when the client was offered the release again, and when it had fetched it; 0 if the outcome is not Kept
	otherwise  record.Progress // the outcome if it is not Kept, or no longer
}

func ask(micros int) at   { return at{asked: micros} }
func fetch(micros int) at { return at{fetched: micros} }

// kept tries clients that are offered a release again after they have fetched it.
func kept(t *testing.T, s record.Store) {
	for i, c := range []keptCase{
		{[]at{ask(1)}, 0, 0, offered},
		{[]at{ask(1), fetch(2)}, 0, 0, waiting},
		{[]at{ask(1), fetch(2), ask(2)}, 0, 0, waiting},
		{[]at{ask(2), fetch(2)}, 0, 0, waiting},
		{[]at{ask(1), fetch(2), ask(3)}, 3, 2, waiting},
		{[]at{{asked: 3, fetched: 2}}, 3, 2, waiting},
		{[]at{ask(1), {asked: 3, fetched: 2}}, 3, 2, waiting},
		// The client fetches the release again.
		{[]at{ask(1), fetch(2), ask(3), fetch(4)}, 3, 2, waiting},
		{[]at{ask(1), fetch(2), ask(3), fetch(3)}, 3, 2, waiting},
		{[]at{ask(1), fetch(2), ask(3), fetch(4), ask(5)}, 5, 4, waiting},
		{[]at{{asked: 3, fetched: 2}, {asked: 5, fetched: 4}}, 5, 4, waiting},
		{[]at{ask(1), fetch(2), ask(3), fetch(4), ask(5), fetch(6)}, 5, 4, waiting},
		{[]at{ask(1), fetch(2), ask(3), ask(5), fetch(6)}, 5, 2, waiting},
		{[]at{ask(1), fetch(2), ask(3), {asked: 5, fetched: 6}}, 5, 2, waiting},
		// Steps arrive out of order.
		{[]at{ask(1), fetch(2), ask(5), ask(3)}, 5, 2, waiting},
		{[]at{ask(1), fetch(2), ask(5), ask(1)}, 5, 2, waiting},
		{[]at{ask(5), fetch(2), fetch(3)}, 5, 3, waiting},
		{[]at{ask(5), fetch(3), fetch(2)}, 5, 3, waiting},
		{[]at{ask(5), fetch(6), fetch(2)}, 5, 2, waiting},
		{[]at{ask(2), fetch(2), ask(2), fetch(1)}, 2, 1, waiting},
		{[]at{ask(1), fetch(2), ask(3), fetch(6), ask(5), fetch(4)}, 5, 4, waiting},
		// Other steps don't change the outcome.
		{[]at{ask(1), fetch(2), ask(3), {installed: 1}}, 3, 2, waiting},
		{[]at{ask(1), fetch(2), ask(3), fetch(4), {installed: 1}}, 3, 2, waiting},
	} {
		version := fmt.Sprint(i)
		for _, step := range c.steps {
			seen := step.sightings(stable, version, 1)
			seen.Tries = append(seen.Tries, step.sightings(beta, version, 1).Tries...)
			sight(t, s, seen, seen)
		}
		c.demand(t, s, version)
	}
}

// demand checks the outcome for client 1 on both channels. If the outcome is Kept, it then
// merges steps that would give another outcome if kept or from were stored wrongly.
func (c keptCase) demand(t *testing.T, s record.Store, version string) {
	t.Helper()
	if c.kept == 0 {
		for _, channel := range []string{stable, beta} {
			equal(t, fmt.Sprintf("%s, %+v", channel, c.steps), progress(t, s, channel, version), c.otherwise)
		}
		return
	}
	for _, then := range []struct {
		channel string
		at
		want record.Progress
	}{
		{stable, at{}, stuck}, {stable, at{running: c.kept}, stuck}, {stable, at{running: c.kept + 1}, running},
		{beta, at{}, stuck}, {beta, at{installed: c.from - 1}, stuck}, {beta, at{installed: c.from}, c.otherwise},
	} {
		sight(t, s, then.sightings(then.channel, version, 1))
		equal(t, fmt.Sprintf("%s, %+v, then %+v", then.channel, c.steps, then.at), progress(t, s, then.channel, version), then.want)
	}
}

// keptInAnyOrder merges a download and a later request in both orders, between steps of other
// clients and releases.
func keptInAnyOrder(t *testing.T, s record.Store) {
	for _, first := range []at{{}, ask(1), ask(4), ask(5)} {
		for i, order := range [][]at{{ask(5), fetch(4)}, {fetch(4), ask(5)}} {
			if first == (at{}) && i == 1 {
				continue // nothing to merge the download into
			}
			c := keptCase{append([]at{first}, order...), 5, 4, waiting}
			version := fmt.Sprint(first, i)
			for _, step := range c.steps {
				sight(t, s, step.sightings(stable, version, 1), step.sightings(beta, version, 1))
				sight(t, s, at{asked: 3, fetched: 7}.sightings(stable, version+"'", 1), at{asked: 9, fetched: 8}.sightings("other", version, 2))
			}
			c.demand(t, s, version)
		}
	}
}

// keptRepeated merges the same steps several times, in order and backwards.
func keptRepeated(t *testing.T, s record.Store) {
	steps := []at{ask(1), fetch(2), ask(3), ask(4), fetch(5), fetch(6), ask(7), {installed: 8}, fetch(9), ask(10)}
	cases := []keptCase{{nil, 0, 0, offered}, {nil, 0, 0, waiting}, {nil, 3, 2, waiting}, {nil, 4, 2, waiting}, {nil, 4, 2, waiting},
		{nil, 4, 2, waiting}, {nil, 7, 6, waiting}, {nil, 0, 0, waiting}, {nil, 0, 0, waiting}, {nil, 10, 9, waiting}}
	for i, c := range cases {
		version, told := fmt.Sprint(i), steps[:i+1]
		backwards := slices.Clone(told)
		slices.Reverse(backwards)
		c.steps = slices.Concat(told, told, backwards)
		for _, step := range c.steps {
			sight(t, s, step.sightings(stable, version, 1), step.sightings(beta, version, 1))
		}
		c.demand(t, s, version)
	}
}
