package recordtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tsmon/store/record"
)

// sumAges are the times after a download at which these tests count clients.
var sumAges = []time.Duration{2 * time.Microsecond, 6 * time.Microsecond}

// sums returns the outcomes of a round at microsecond 10.
func sums(t testing.TB, s record.Store, channel, version string, round uint64) record.Crowds {
	t.Helper()
	return must(s.Crowds(t.Context(), record.Round{Channel: channel, Version: version, Round: round}, moment(10), sumAges))(t)
}

// sumsOfOne returns the counts of a release that at most one client tried.
func sumsOfOne(t testing.TB, s record.Store, channel, version string, round uint64) (c record.Counts) {
	t.Helper()
	for i, crowd := range sums(t, s, channel, version, round).List {
		if i > 0 || crowd.Networks != 1 || crowd.Failed != int(crowd.Failing) {
			t.Fatalf("%+v", crowd)
		}
		c = crowd.Counts
	}
	return c
}

// counts returns the counts of one client. ages has a letter for each of sumAges, for the
// state of the client that long after its first download: w is waiting, f is failed, h is
// healthy, and 0 means that less time has passed.
func counts(stage, ages string) record.Counts {
	c := record.Counts{Ages: make([]record.AgeCounts, len(ages))}
	*map[string]*int64{"offered": &c.Offered, "waiting": &c.Waiting, "kept": &c.Kept, "healthy": &c.Healthy, "failing": &c.Failing}[stage] = 1
	for i, known := range ages {
		switch known {
		case 'w':
			c.Ages[i] = record.AgeCounts{Reached: 1, Waiting: 1}
		case 'f':
			c.Ages[i] = record.AgeCounts{Reached: 1, Failing: 1}
		case 'h':
			c.Ages[i] = record.AgeCounts{Reached: 1}
		}
	}
	return c
}

// stages tries each course that a client can take with a release. Its steps are recorded in
// one batch or in two, in both orders.
func stages(t *testing.T, s record.Store) {
	for i, c := range []struct {
		first, then at
		stage, ages string
	}{
		{at{asked: 1}, at{asked: 9}, "offered", "00"},
		{at{asked: 1, fetched: 1}, at{}, "waiting", "ww"},
		{at{asked: 1, fetched: 9}, at{}, "waiting", "00"},
		{at{asked: 1, fetched: 8}, at{}, "waiting", "w0"},
		{at{asked: 1, fetched: 4}, at{}, "waiting", "ww"},
		{at{asked: 1, installed: 4}, at{installed: 9}, "waiting", "ww"},
		{at{asked: 1, fetched: 4}, at{fetched: 9}, "waiting", "ww"}, // counted from the first download
		{at{asked: 1, fetched: 2}, at{asked: 3}, "kept", "ww"},
		{at{asked: 1, fetched: 2, installed: 3}, at{asked: 4}, "waiting", "ww"},
		{at{asked: 1, running: 2}, at{}, "healthy", "00"}, // no download was seen
		{at{asked: 1, fetched: 1, running: 2}, at{running: 9}, "healthy", "hh"},
		{at{asked: 1, fetched: 1, running: 3}, at{}, "healthy", "hh"},
		{at{asked: 1, fetched: 1, running: 4}, at{running: 10}, "healthy", "wh"},
		{at{asked: 1, fetched: 1, running: 8}, at{}, "healthy", "ww"},
		{at{asked: 1, fetched: 9, running: 2}, at{}, "healthy", "00"},
		{at{asked: 1, fetched: 4, running: 2}, at{}, "healthy", "hh"},
		{at{asked: 1, failed: 2}, at{}, "failing", "00"},
		{at{asked: 1, fetched: 1, failed: 3}, at{failed: 9}, "failing", "ff"},
		{at{asked: 1, fetched: 1, failed: 4}, at{}, "failing", "wf"},
		{at{asked: 1, fetched: 1, failed: 2}, at{running: 3}, "healthy", "hh"}, // the update worked in the end
		{at{asked: 1, fetched: 1, running: 2}, at{failed: 3}, "failing", "ff"},
		{at{asked: 1, fetched: 1, running: 2}, at{failed: 9}, "failing", "hh"},
		{at{asked: 1, fetched: 1, crashed: 2}, at{running: 9}, "failing", "ff"}, // a crash stands
		{at{asked: 1, fetched: 1, running: 2}, at{crashed: 4}, "failing", "hf"},
		{at{asked: 1, fetched: 1, failed: 2, running: 3}, at{crashed: 9}, "failing", "ff"},
	} {
		for _, reversed := range []bool{false, true} {
			version := fmt.Sprint(i, reversed)
			sight(t, s, ask(1).sightings(stable, version, 7))
			parts := []record.Sightings{c.first.sightings(stable, version, 7), c.then.sightings(stable, version, 7)}
			if reversed {
				parts[0], parts[1] = parts[1], parts[0]
			}
			sight(t, s, parts[0], parts[1], parts[0])
			equal(t, fmt.Sprintf("%+v, then %+v, reversed %v", c.first, c.then, reversed), sumsOfOne(t, s, stable, version, 0), counts(c.stage, c.ages))
			equal(t, "in another channel", sums(t, s, beta, version, 0), record.Crowds{})
			equal(t, "in a round to come", sums(t, s, stable, version, 1), record.Crowds{})
		}
	}
}

// rounds releases a version three times. Sightings of an earlier round must not count.
func rounds(t *testing.T, s record.Store) {
	in := func(round uint64, a at) record.Sightings {
		seen := a.sightings(stable, "2", 7)
		for i := range seen.Tries {
			seen.Tries[i].Round = round
		}
		return seen
	}
	want := func(what string, round uint64, want record.Counts) {
		t.Helper()
		equal(t, what, sumsOfOne(t, s, stable, "2", round), want)
	}
	sight(t, s, in(3, at{asked: 1, fetched: 1, crashed: 2}))
	want("crashed", 3, counts("failing", "ff"))
	sight(t, s, in(5, at{asked: 3}))
	want("offered again", 5, counts("offered", "00"))
	want("of any round", 0, counts("offered", "00"))
	sight(t, s, in(3, at{asked: 1, crashed: 2})) // again, from a server that is behind
	want("after a late sighting", 5, counts("offered", "00"))
	sight(t, s, in(5, at{asked: 4, fetched: 4}))
	want("fetched again", 5, counts("waiting", "ww"))
	sight(t, s, in(5, at{running: 6}))
	want("running", 5, counts("healthy", "hh"))
	sight(t, s, in(8, at{running: 9}))
	want("still running", 8, counts("healthy", "00"))
	sight(t, s, in(8, at{failed: 10}))
	want("failing after all", 8, counts("failing", "00"))
	sight(t, s, record.Sightings{Tries: append(in(9, at{running: 10}).Tries, in(8, at{crashed: 10}).Tries...)})
	want("two rounds at once", 9, counts("healthy", "00"))
	equal(t, "the round before", sumsOfOne(t, s, stable, "2", 8), counts("healthy", "00"))
	equal(t, "the next one", sums(t, s, stable, "2", 10), record.Crowds{})
}

// crowdsOfNetworks checks that networks of the same size are added up.
func crowdsOfNetworks(t *testing.T, s record.Store) {
	random := rand.New(rand.NewPCG(1, 2))
	n := 0
	want := map[int64]*record.Crowd{}
	var all record.Sightings
	for network := range 60 {
		size, counts := random.IntN(5), record.Counts{}
		for range size + random.IntN(3) {
			n++
			seen := at{asked: 1}
			switch {
			case size == 0:
				counts.Offered++
			case random.IntN(4) == 0:
				seen.failed = 2
				counts.Failing++
			case random.IntN(3) == 0:
				seen.fetched = 2
				counts.Waiting++
			default:
				seen.running = 2
				counts.Healthy++
			}
			one := seen.sightings(stable, "2", n)
			one.Tries[0].Network, one.Tries[0].Client = record.Network(network*1000), digest(n)
			for i := range one.Downloads {
				one.Downloads[i].Client = digest(n)
			}
			all.Tries, all.Downloads = append(all.Tries, one.Tries...), append(all.Downloads, one.Downloads...)
		}
		if counts.Offered+counts.Waiting+counts.Healthy+counts.Failing == 0 {
			continue
		}
		handed := counts.Waiting + counts.Healthy + counts.Failing
		c := want[handed]
		if c == nil {
			c = &record.Crowd{}
			want[handed] = c
		}
		c.Networks++
		if counts.Failing > 0 {
			c.Failed++
		}
		c.Offered += counts.Offered
		c.Waiting += counts.Waiting
		c.Healthy += counts.Healthy
		c.Failing += counts.Failing
	}
	sight(t, s, all)
	found := must(s.Crowds(t.Context(), record.Round{Channel: stable, Version: "2"}, moment(10), nil))(t)
	var list []record.Crowd
	for handed := range int64(8) {
		if c := want[handed]; c != nil {
			c.Ages = []record.AgeCounts{}
			list = append(list, *c)
		}
	}
	equal(t, "the crowds", found.List, list)
	sample := bound(t, s, stable, "2", 50)
	found = must(s.Crowds(t.Context(), record.Round{Channel: stable, Version: "2"}, moment(10), nil))(t)
	rows := 0
	for _, c := range found.List {
		rows += int(c.Offered + c.Waiting + c.Healthy + c.Failing)
	}
	sample.Rows -= rows
	equal(t, "the crowds of a sample", found.Sample, sample)
	if sample.Rows != 0 || rows > 50 {
		t.Errorf("%d clients are counted, the sample is %+v", rows, sample)
	}
}

// groups counts clients by target and cohort. Clients of which only a try is known form a
// group of their own.
func groups(t *testing.T, s record.Store) {
	for i, a := range []at{{asked: 1, crashed: 2}, {asked: 1, running: 2}, {asked: 1, running: 2}, {asked: 1, fetched: 2}, {asked: 1}} {
		sight(t, s, a.sightings(stable, "2", i))
	}
	sight(t, s, at{asked: 1}.sightings(beta, "2", 0), installed(has(stable, 0, "1", "", 1), has(stable, 1, "2", "b", 1), has(stable, 2, "2", "", 1),
		record.Installed{Channel: stable, Client: client(3), Version: "1", Target: "darwin-aarch64", Cohort: "b", Seen: moment(1)}, has(beta, 4, "1", "", 1)))
	equal(t, "the groups", must(s.Groups(t.Context(), record.Round{Channel: stable, Version: "2"}))(t), []record.Group{
		{Counts: record.Counts{Offered: 1}}, {Target: "darwin-aarch64", Cohort: "b", Counts: record.Counts{Waiting: 1}},
		{Target: target, Counts: record.Counts{Healthy: 1, Failing: 1}}, {Target: target, Cohort: "b", Counts: record.Counts{Healthy: 1}},
	})
	for _, r := range []record.Round{{Channel: stable, Version: "2", Round: 1}, {Channel: "a\x00", Version: "2"}, {Channel: stable, Version: "'; --"}} {
		equal(t, "the groups of nothing", len(must(s.Groups(t.Context(), r))(t)), 0)
	}
}

// refusals checks that the time is kept at which a client last found no room in the sample.
func refusals(t *testing.T, s record.Store) {
	sight(t, s, populate(stable, 0, 40, ownNetwork))
	for _, micros := range []int{5, 7, 6} {
		check(t, s.Refuse(t.Context(), stable, "2", moment(micros)))
	}
	found := sums(t, s, stable, "2", 0)
	equal(t, "the time", found.Refused, moment(7))
	equal(t, "the sample of all", bound(t, s, stable, "2", 40), record.Sample{Rows: 40})
	sample := bound(t, s, stable, "2", 20)
	check(t, s.Refuse(t.Context(), stable, "2", moment(8)))
	equal(t, "the sample", sampled(t, s, stable, "2"), sample)
	equal(t, "the time later", sums(t, s, stable, "2", 0).Refused, moment(8))
	equal(t, "the time of another channel", sums(t, s, beta, "2", 0).Refused, time.Time{})
	demand(t, s.Refuse(t.Context(), "a\x00", "2", moment(1)), record.ErrInvalid, "a bad name")
	demand(t, s.Refuse(t.Context(), stable, "2", time.Time{}), record.ErrInvalid, "no time")
}

func hostileCrowds(t *testing.T, s record.Store) {
	for _, text := range []string{"a\x00", "\xff", strings.Repeat("x", 1<<20), "'; DROP TABLE tries; --", "{schema}", "$1"} {
		equal(t, "crowds of "+text, sums(t, s, text, "2", 0), record.Crowds{})
		equal(t, "crowds of a version", sums(t, s, stable, text, 1<<62), record.Crowds{})
	}
}

// summaries keeps the results of releases. Of several summaries the one with the most clients
// is kept.
func summaries(t *testing.T, s record.Store) {
	of := func(channel, version string, clients int64, micros int, sums string) record.Summary {
		return record.Summary{Channel: channel, Version: version, Clients: clients, Counted: moment(micros), Sums: json.RawMessage(sums)}
	}
	want := func(what string, want record.Summary) {
		t.Helper()
		equal(t, what, must(s.Summary(t.Context(), want.Channel, want.Version))(t), want)
	}
	demand(t, errorOf(s.Summary(t.Context(), stable, "2")), record.ErrNotFound, "no summary")
	first := of(stable, "2", 10, 5, `{"healthy": 10}`)
	check(t, s.KeepSummary(t.Context(), first))
	want("the first", first)
	check(t, s.KeepSummary(t.Context(), of(stable, "2", 9, 6, `{}`)))
	check(t, s.KeepSummary(t.Context(), of(stable, "2", 10, 5, `{}`)))
	check(t, s.KeepSummary(t.Context(), of(stable, "2", 10, 4, `{}`)))
	want("fewer clients, and earlier", first)
	later := of(stable, "2", 10, 6, `{"healthy":9,"failing":1}`)
	check(t, s.KeepSummary(t.Context(), later))
	want("later", later)
	more := of(stable, "2", 11, 1, `{"ñ":[1, 2]}`)
	check(t, s.KeepSummary(t.Context(), more))
	want("more clients", more)
	for _, other := range []record.Summary{of(beta, "2", 1, 1, `null`), of(stable, "'; --", 0, 1, `"`+strings.Repeat("x", record.MaxSums-2)+`"`)} {
		check(t, s.KeepSummary(t.Context(), other))
		want("another", other)
	}
	forget(t, s, moment(1000), 0)
	want("after all clients are forgotten", more)
	for what, bad := range map[string]record.Summary{
		"no JSON": of(stable, "3", 1, 1, `{`), "nothing": of(stable, "3", 1, 1, ``), "too much": of(stable, "3", 1, 1, `"`+strings.Repeat("x", record.MaxSums)+`"`),
		"below zero": of(stable, "3", -1, 1, `{}`), "no time": {Channel: stable, Version: "3", Sums: json.RawMessage(`{}`)},
		"a bad name": of("a\x00", "3", 1, 1, `{}`), "a long name": of(stable, strings.Repeat("3", 257), 1, 1, `{}`),
	} {
		demand(t, s.KeepSummary(t.Context(), bad), record.ErrInvalid, what)
		demand(t, errorOf(s.Summary(t.Context(), bad.Channel, bad.Version)), record.ErrNotFound, what)
	}
}
