package mending

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"tsmon/channels"
	"tsmon/channels/journal"
	"tsmon/channels/segment"
	"tsmon/store/object"
)

// source says where an option comes from.
type source int

const (
	stored  source = iota // in the log
	hidden                // in the log, part of an incomplete import: it counts once that is complete
	spare                 // a copy that may be restored
	witness               // a copy that is only evidence
)

// option are bytes that may be an entry of the log.
type option struct {
	source   source
	raw      []byte
	sum      string // hash of the bytes
	ok       bool   // they are an entry with that number
	entry    channels.Entry
	rightful bool // an entry signed by the trusted operators leads back to it
}

// before returns the number of the entry that an option follows; those between them are
// declared lost by it.
func (o *option) before() uint64 {
	before := o.entry.Sequence - 1
	for _, lost := range o.entry.Lost {
		if lost.To == before && lost.From > 0 && lost.From <= before {
			before = lost.From - 1
		}
	}
	return before
}

// stored returns the log's own option with a number, nil if there is none.
func (m *mender) stored(n uint64) *option {
	for _, o := range m.options[n] {
		if o.source == stored {
			return o
		}
	}
	return nil
}

// named returns the option with a number and a hash, nil if there is none.
func (m *mender) named(n uint64, sum string) *option {
	for _, o := range m.options[n] {
		if o.ok && o.sum == sum && o.source != witness {
			return o
		}
	}
	return nil
}

// collect gathers the entries of the log, its segments and the copies.
func (m *mender) collect(ctx context.Context) (err error) {
	m.options = map[uint64][]*option{}
	j := journal.Journal{Store: m.repository.Store, Channel: m.channel}
	if m.found, err = j.Numbers(ctx, 0, false); err != nil {
		return err
	}
	if err := m.read(ctx, j, m.found.Numbers, stored); err != nil {
		return err
	}
	if err := m.read(ctx, j, m.found.Hidden, hidden); err != nil {
		return err
	}
	if err := m.unpack(ctx, j); err != nil {
		return err
	}
	for from, all := range map[source][][]byte{spare: m.Spares, witness: m.Witnesses} {
		for _, data := range all {
			if e, _, ok := channels.Candidate(data); ok && e.Channel == m.channel && e.Sequence <= journal.MaxEntries {
				m.add(from, e.Sequence, data)
			}
		}
	}
	m.numbers = slices.Sorted(maps.Keys(m.options))
	for _, all := range m.options {
		slices.SortStableFunc(all, func(a, b *option) int { return int(a.source - b.source) })
	}
	return nil
}

// read adds entries of the log.
func (m *mender) read(ctx context.Context, j journal.Journal, numbers []uint64, from source) error {
	for len(numbers) > 0 && numbers[len(numbers)-1] > journal.MaxEntries { // no log has such a number
		if from == stored {
			m.far = append(m.far, journal.Key(m.channel, numbers[len(numbers)-1]))
		}
		numbers = numbers[:len(numbers)-1]
	}
	if len(numbers) == 0 {
		return nil
	}
	newest := numbers[len(numbers)-1]
	if from == stored {
		slices.Sort(m.far)
		m.top = newest
	}
	raw, err := j.Slots(0, numbers)
	if err != nil {
		return err
	}
	if err := j.ReadEntries(ctx, 0, raw); err != nil {
		return err
	}
	for _, n := range numbers {
		m.add(from, n, raw[n-1])
	}
	return nil
}

// unpack adds entries of segments that the log lacks.
func (m *mender) unpack(ctx context.Context, j journal.Journal) error {
	size := 0
	for info, err := range j.Store.List(ctx, segment.Prefix(m.channel), "") {
		if err != nil {
			return fmt.Errorf("list the segments of %s: %w", m.channel, err)
		}
		first := segment.First(m.channel, info.Key)
		if first == 0 || first > journal.MaxEntries || info.Size > segment.MaxSize || size > channels.MaxHistory {
			continue
		}
		data, _, err := object.ReadAll(ctx, j.Store, info.Key, segment.MaxSize)
		if err != nil {
			continue // a segment that can't be read is only one of several sources
		}
		entries, err := segment.Unpack(data)
		if err != nil {
			continue
		}
		for i, data := range entries {
			if m.add(spare, first+uint64(i), data) {
				size += len(data)
			}
		}
	}
	return nil
}

// add adds bytes unless they are known. Bytes that are no entry count only if they are in the
// log.
func (m *mender) add(from source, n uint64, data []byte) bool {
	sum := journal.Hash(data)
	known := func(o *option) bool { return o.sum == sum && (o.source != witness || from == witness) }
	if slices.ContainsFunc(m.options[n], known) {
		return false
	}
	o := &option{source: from, raw: data, sum: sum}
	if e, _, ok := channels.Candidate(data); ok && e.Channel == m.channel && e.Sequence == n {
		o.ok, o.entry = true, e
	}
	if !o.ok && from != stored {
		return false
	}
	m.options[n] = append(m.options[n], o)
	return true
}
