package recordtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tsmon/store/record"
)

var storyVersions = []string{"1", "2", "3", "4"}

// anyOrder records the same sightings of three clients in batches, twice and in several
// orders. The result must be the same as that of a single batch.
func anyOrder(t *testing.T, s record.Store) {
	random := rand.New(rand.NewPCG(7, 7))
	offers, story := randomStory(random)
	end := ending(offers, story)
	worlds := 4
	if testing.Short() {
		worlds = 1
	}
	for world := range worlds {
		sight(t, s, inWorld(world, tries(offers...)))
		for range 2 {
			for _, part := range parts(random, story) {
				sight(t, s, inWorld(world, part))
			}
		}
		demandStory(t, s, world, end)
	}
	for micros := range 14 { // each try and client is as old as its latest sighting
		forgotten := 0
		for i := range end.Tries {
			if at := lastSeen(end, end.Tries[i]); at.Equal(moment(micros - 1)) {
				forgotten++
			}
		}
		for i := range end.Installed {
			if end.Installed[i].Seen.Equal(moment(micros - 1)) {
				forgotten++
			}
		}
		forget(t, s, moment(micros), worlds*forgotten)
	}
	for _, channel := range []string{stable, beta} {
		equal(t, "clients left", len(clients(t, s, channelIn(0, channel), time.Time{})), 0)
	}
}

// lastSeen returns the latest time of a try and its downloads, in merged sightings.
func lastSeen(end record.Sightings, try record.Try) time.Time {
	return slices.MaxFunc([]time.Time{try.Asked, try.Installed, try.Running, try.Failed, try.Crashed, fetchedAt(end, try)}, time.Time.Compare)
}

// fetchedAt returns when the client of a try last fetched the release, in merged sightings.
func fetchedAt(end record.Sightings, try record.Try) time.Time {
	for _, d := range end.Downloads {
		if d.Client == try.Client && d.Version == try.Version {
			return d.Time
		}
	}
	return time.Time{}
}

// inWorld returns a copy of sightings. Each world has its own channels and clients.
func inWorld(world int, s record.Sightings) record.Sightings {
	s = record.Sightings{Installed: slices.Clone(s.Installed), Tries: slices.Clone(s.Tries), Downloads: slices.Clone(s.Downloads)}
	for i := range s.Installed {
		s.Installed[i].Channel, s.Installed[i].Client[0] = channelIn(world, s.Installed[i].Channel), byte(world)
	}
	for i := range s.Tries {
		s.Tries[i].Channel, s.Tries[i].Client[0] = channelIn(world, s.Tries[i].Channel), byte(world)
	}
	for i := range s.Downloads {
		s.Downloads[i].Client[0] = byte(world)
	}
	return s
}

func channelIn(world int, channel string) string { return fmt.Sprintf("%s of %d", channel, world) }

// randomStory returns the first offer of each try, and the later sightings in random order.
func randomStory(random *rand.Rand) (offers []record.Try, story record.Sightings) {
	for _, channel := range []string{stable, beta} {
		for c := range 3 {
			for _, version := range storyVersions {
				try := record.Try{Channel: channel, Client: client(c), Version: version}
				story.Tries = append(story.Tries, randomTries(random, try)...)
				story.Installed = append(story.Installed, has(channel, c, version, "", 1+random.IntN(3)))
				try.Asked = moment(1)
				offers = append(offers, try)
			}
		}
	}
	for c := range 3 {
		for _, version := range storyVersions {
			for _, micros := range randomDownloads(random) {
				story.Downloads = append(story.Downloads, record.Download{Client: client(c), Version: version, Time: moment(micros)})
			}
		}
	}
	return offers, story
}

// randomTries returns tries with one key, each with a random subset of times. Requests lie
// after microsecond 3 and before 10.
func randomTries(random *rand.Rand, key record.Try) []record.Try {
	usual := 1 + random.IntN(6)
	some := func(from, to int) time.Time {
		if random.IntN(usual) > 0 {
			return time.Time{}
		}
		return moment(from + random.IntN(to-from))
	}
	list := make([]record.Try, random.IntN(8))
	for i := range list {
		list[i] = key
		list[i].Asked, list[i].Installed = some(4, 10), some(1, 13)
		list[i].Running, list[i].Failed = some(1, 13), some(1, 13)
		if random.IntN(3) == 0 {
			list[i].Crashed = some(1, 13)
		}
	}
	return list
}

// randomDownloads returns when a release was fetched: never, once at any time, twice before
// all requests, or twice after them. In these cases the order of merging doesn't matter.
func randomDownloads(random *rand.Rand) []int {
	switch random.IntN(4) {
	case 0:
		return []int{1 + random.IntN(12)}
	case 1:
		return []int{2 + random.IntN(2), 2 + random.IntN(2)}
	case 2:
		return []int{10 + random.IntN(3), 10 + random.IntN(3)}
	}
	return nil
}

// ending returns the merged sightings of a story.
func ending(offers []record.Try, story record.Sightings) record.Sightings {
	return record.Sightings{Installed: story.Installed, Tries: slices.Concat(offers, story.Tries), Downloads: story.Downloads}.Merge()
}

// parts splits a story into random batches.
func parts(random *rand.Rand, story record.Sightings) []record.Sightings {
	list := make([]record.Sightings, 1+random.IntN(9))
	one := func() *record.Sightings { return &list[random.IntN(len(list))] }
	for _, at := range random.Perm(len(story.Installed)) {
		part := one()
		part.Installed = append(part.Installed, story.Installed[at])
	}
	for _, at := range random.Perm(len(story.Tries)) {
		part := one()
		part.Tries = append(part.Tries, story.Tries[at])
	}
	for _, at := range random.Perm(len(story.Downloads)) {
		part := one()
		part.Downloads = append(part.Downloads, story.Downloads[at])
	}
	return list
}

// demandStory checks the outcomes of a story, and which clients were seen since each moment.
func demandStory(t *testing.T, s record.Store, world int, end record.Sightings) {
	t.Helper()
	for _, channel := range []string{stable, beta} {
		for _, version := range storyVersions {
			what := fmt.Sprintf("version %s in %s", version, channelIn(world, channel))
			equal(t, what, progress(t, s, channelIn(world, channel), version), expect(end, channel, version))
		}
		for micros := range 5 {
			since := moment(micros)
			var counts []record.ClientCount
			for _, version := range storyVersions {
				if n := having(end, channel, version, since); n > 0 {
					counts = append(counts, counted(version, target, "", n))
				}
			}
			equal(t, "clients", clients(t, s, channelIn(world, channel), since), counts)
		}
	}
}

// having counts the clients with a version, in merged sightings.
func having(end record.Sightings, channel, version string, since time.Time) (n int) {
	for _, i := range end.Installed {
		if i.Channel == channel && i.Version == version && !i.Seen.Before(since) {
			n++
		}
	}
	return n
}

// expect counts the tries of a version in merged sightings.
func expect(end record.Sightings, channel, version string) (p record.Progress) {
	for _, try := range end.Tries {
		if try.Channel == channel && try.Version == version {
			*outcome(&p, try, fetchedAt(end, try))++
		}
	}
	return p
}

// outcome returns the counter of a try, by the rules of record.Progress.
func outcome(p *record.Progress, try record.Try, fetched time.Time) *int {
	if !try.Crashed.IsZero() {
		return &p.Crashed
	}
	var n *int
	var last time.Time
	if !try.Running.IsZero() {
		n, last = &p.Running, try.Running
	}
	if !fetched.IsZero() && try.Asked.After(fetched) && try.Installed.Before(fetched) && !try.Asked.Before(last) {
		n, last = &p.Kept, try.Asked
	}
	switch {
	case !try.Failed.IsZero() && !try.Failed.Before(last):
		return &p.Failed
	case n != nil:
		return n
	case fetched.IsZero() && try.Installed.IsZero():
		return &p.Offered
	}
	return &p.Waiting
}
