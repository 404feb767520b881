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

// anyOrder tells one story of three clients in batches of several orders, and
// twice, and demands that it ends as one batch of it says.
func anyOrder(t *testing.T, s record.Store) {
	random := rand.New(rand.NewPCG(7, 7))
	offers, story := randomStory(random)
	end := ending(offers, story)
	for world := range 4 {
		sight(t, s, inWorld(world, tries(offers...)))
		for range 2 {
			for _, part := range parts(random, story) {
				sight(t, s, inWorld(world, part))
			}
		}
		demandStory(t, s, world, end)
	}
}

// inWorld returns a copy of sightings of channels and clients of a world's own.
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

// randomStory returns a first offer of each try, and what follows in no order.
func randomStory(random *rand.Rand) (offers []record.Try, story record.Sightings) {
	for _, channel := range []string{stable, beta} {
		for c := range 3 {
			for _, version := range storyVersions {
				try := record.Try{Channel: channel, Client: client(c), Version: version}
				story.Tries = append(story.Tries, randomTries(random, try)...)
				story.Installed = append(story.Installed, has(channel, c, version, "", 1+random.IntN(3)))
				if random.IntN(4) == 0 {
					story.Downloads = append(story.Downloads, record.Download{Client: client(c), Version: version, Time: moment(1 + random.IntN(12))})
				}
				try.Asked = moment(1)
				offers = append(offers, try)
			}
		}
	}
	return offers, story
}

// randomTries returns tries of one key, each of some of the times. All come to
// one outcome, if to any, so that its earliest time is what counts.
func randomTries(random *rand.Rand, key record.Try) []record.Try {
	some := func() time.Time {
		if random.IntN(2) > 0 {
			return time.Time{}
		}
		return moment(1 + random.IntN(12))
	}
	list, outcome := make([]record.Try, random.IntN(8)), random.IntN(5)
	for i := range list {
		list[i] = key
		list[i].Asked, list[i].Downloaded, list[i].Installed = some(), some(), some()
		switch outcome {
		case 0:
			list[i].Running = some()
		case 1:
			list[i].Failed = some()
		case 2:
			list[i].Crashed = some()
		}
	}
	return list
}

// ending returns what a story comes to: with its downloads as tries, merged.
func ending(offers []record.Try, story record.Sightings) record.Sightings {
	end := record.Sightings{Installed: story.Installed, Tries: slices.Concat(offers, story.Tries)}
	for _, o := range offers {
		for _, d := range story.Downloads {
			if o.Version == d.Version && o.Client == d.Client {
				end.Tries = append(end.Tries, record.Try{Channel: o.Channel, Client: o.Client, Version: o.Version, Downloaded: d.Time})
			}
		}
	}
	return end.Merge()
}

// parts deals a story out to several batches.
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

// demandStory asks since each microsecond for what a story came to.
func demandStory(t *testing.T, s record.Store, world int, end record.Sightings) {
	t.Helper()
	for _, channel := range []string{stable, beta} {
		for micros := range 15 {
			since := moment(micros)
			var counts []record.ClientCount
			for _, version := range storyVersions {
				what := fmt.Sprintf("version %s in %s since %d", version, channelIn(world, channel), micros)
				want, n := expect(end, channel, version, since)
				equal(t, what, progress(t, s, channelIn(world, channel), version, since), want)
				if n > 0 {
					counts = append(counts, counted(version, target, "", n))
				}
			}
			equal(t, "clients", clients(t, s, channelIn(world, channel), since), counts)
		}
	}
}

// expect counts the tries and clients of a version in merged sightings.
func expect(end record.Sightings, channel, version string, since time.Time) (p record.Progress, clients int) {
	for _, try := range end.Tries {
		if try.Channel == channel && try.Version == version {
			p = count(p, try, since)
		}
	}
	for _, i := range end.Installed {
		if i.Channel == channel && i.Version == version && !i.Seen.Before(since) {
			clients++
		}
	}
	return p, clients
}

// count adds a try to a progress, as the contract says.
func count(p record.Progress, try record.Try, since time.Time) record.Progress {
	later := try.Downloaded
	if try.Installed.After(later) {
		later = try.Installed
	}
	n, at := &p.Offered, try.Asked
	switch {
	case !try.Crashed.IsZero():
		n, at = &p.Crashed, try.Crashed
	case !try.Running.IsZero():
		n, at = &p.Running, try.Running
	case !try.Failed.IsZero():
		n, at = &p.Failed, try.Failed
	case !try.Downloaded.IsZero() && try.Asked.After(try.Downloaded) && try.Installed.IsZero():
		n = &p.Kept
	case !later.IsZero():
		n, at = &p.Waiting, later
	}
	if !at.Before(since) {
		*n++
	}
	return p
}
