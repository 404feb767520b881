package journal

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Part is the range of entries of one delivery.
type Part struct{ From, To uint64 }

// Key returns the key of its mark.
func (p Part) Key(channel string) string {
	return fmt.Sprintf("%s%010d-%010d.part", Prefix(channel), p.From, p.To)
}

// PartOf reads the key of a mark; ok is false for other keys.
func PartOf(channel, key string) (p Part, ok bool) {
	_, err := fmt.Sscanf(strings.TrimPrefix(key, Prefix(channel)), "%d-%d.part", &p.From, &p.To)
	return p, err == nil && p.From > 0 && p.From <= p.To && key == p.Key(channel)
}

// Listing is the content of a log behind a number.
type Listing struct {
	Numbers []uint64 // of the entries that count, rising
	Parts   []Part   // by their first entries
	Fed     bool
	Hidden  []uint64 // of the entries that don't count, rising
	Strange []string // keys of objects that are no part of a log
	late    []Part   // dated after the entry that they begin with
}

// Late returns the marks that were written after their entries, unlike those of a delivery. The
// mark over the entries that a store had before its first delivery is not among them, since the
// delivery's mark follows it.
func (l *Listing) Late() []Part {
	var late []Part
	for _, p := range l.late {
		if !slices.ContainsFunc(l.Parts, func(next Part) bool { return next.From > p.To && !slices.Contains(l.late, next) }) {
			late = append(late, p)
		}
	}
	return late
}

// covered reports whether there are parts, and they cover all entries.
func (l *Listing) covered() bool {
	at := 0
	for _, p := range l.Parts {
		for at < len(l.Numbers) && l.Numbers[at] >= p.From && l.Numbers[at] <= p.To {
			at++
		}
	}
	return len(l.Parts) > 0 && at == len(l.Numbers)
}

// settle hides the entries of incomplete deliveries, and those behind them.
func (l *Listing) settle() {
	if !l.Fed {
		return
	}
	end, all := len(l.Numbers), l.Numbers
	for _, p := range l.Parts {
		end = min(end, l.whole(p))
	}
	if end < len(all) {
		l.Numbers, l.Hidden = all[:end], all[end:]
	}
}

// whole returns how many entries count, given one delivery: those before it while its first
// entry is missing, all of them once its last entry is there. In between, another delivery
// with the same first entry was completed, and the entries up to the first missing one count.
func (l *Listing) whole(p Part) int {
	first, begun := slices.BinarySearch(l.Numbers, p.From)
	_, ended := slices.BinarySearch(l.Numbers, p.To)
	switch {
	case !begun:
		return first
	case ended:
		return len(l.Numbers)
	}
	return first + sort.Search(len(l.Numbers)-first, func(i int) bool { return l.Numbers[first+i] != p.From+uint64(i) })
}
