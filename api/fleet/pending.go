package fleet

import (
	"maps"
	"slices"

	"tsmon/store/record"
)

// maxSeen bounds the clients that wait to be recorded. For larger samples the bound is twice
// the sample.
const maxSeen = 50_000

// pending holds sightings that are not in the records yet.
type pending struct {
	most      int // clients, half of the tries, and downloads
	installed map[clientKey]record.Installed
	tries     map[tryKey]record.Try
	downloads map[downloadKey]record.Download
	counts    map[countKey]counts
	lost      int // sightings that did not fit
}

type clientKey struct {
	channel string
	client  record.ClientID
}

type tryKey struct {
	clientKey
	version string
}

type downloadKey struct {
	client  record.ClientID
	version string
}

// countKey distinguishes counts. All of its texts come from a channel's log.
type countKey struct{ channel, version, target, cohort string }

type counts [events]int64

func newPending(clients int) pending {
	return pending{
		most: max(maxSeen, 2*clients), installed: map[clientKey]record.Installed{}, tries: map[tryKey]record.Try{}, downloads: map[downloadKey]record.Download{},
		counts: map[countKey]counts{},
	}
}

func (p *pending) count(k countKey, n int64, happened ...event) {
	c := p.counts[k]
	for _, e := range happened {
		c[e] += n
	}
	p.counts[k] = c
}

// try merges an observation of a client with a release.
func (p *pending) try(t record.Try) {
	key := tryKey{clientKey{t.Channel, t.Client}, t.Version}
	if before, ok := p.tries[key]; ok {
		t = before.Merge(t)
	}
	p.tries[key] = t
}

// install merges an observation of the version that a client has.
func (p *pending) install(i record.Installed) {
	key := clientKey{i.Channel, i.Client}
	if before, ok := p.installed[key]; ok {
		i = before.Merge(i)
	}
	p.installed[key] = i
}

func (p *pending) hasRoom() bool {
	return len(p.installed) < p.most && len(p.tries) < 2*p.most && len(p.downloads) < p.most
}

// full reports whether there is no more room, and counts the sighting as lost if so.
func (p *pending) full() bool {
	if p.hasRoom() {
		return false
	}
	p.lost++
	return true
}

// prune drops the clients that are not in a sample.
func (p *pending) prune(k sampleKey, in record.Sample) {
	if k.version == "" {
		maps.DeleteFunc(p.installed, func(c clientKey, _ record.Installed) bool { return c.channel == k.channel && !in.Holds(c.client) })
		return
	}
	maps.DeleteFunc(p.tries, func(t tryKey, _ record.Try) bool {
		return t.channel == k.channel && t.version == k.version && !in.Holds(t.client)
	})
}

// maxBatch bounds the entries of one write, which delays other writers.
const maxBatch = 2000

// batches returns everything in batches. Downloads come last: they are merged into
// tries.
func (p *pending) batches() (all []record.Sightings) {
	for installed := range slices.Chunk(slices.Collect(maps.Values(p.installed)), maxBatch) {
		all = append(all, record.Sightings{Installed: installed})
	}
	for tries := range slices.Chunk(slices.Collect(maps.Values(p.tries)), maxBatch) {
		all = append(all, record.Sightings{Tries: tries})
	}
	for downloads := range slices.Chunk(slices.Collect(maps.Values(p.downloads)), maxBatch) {
		all = append(all, record.Sightings{Downloads: downloads})
	}
	return all
}

// keep puts back batches that were not written. Sightings since then are newer and take
// precedence.
func (p *pending) keep(batches []record.Sightings) {
	for _, b := range batches {
		for _, i := range b.Installed {
			if !p.full() {
				p.install(i)
			}
		}
		for _, t := range b.Tries {
			if !p.full() {
				p.try(t)
			}
		}
		for _, d := range b.Downloads {
			key := downloadKey{d.Client, d.Version}
			if _, newer := p.downloads[key]; !newer && !p.full() {
				p.downloads[key] = d
			}
		}
	}
}
