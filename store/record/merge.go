package record

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"
)

// Merge returns equivalent sightings with one entry for each key, in order of the keys. It is
// for adapters, whose statements may write a row only once. They merge an entry into a row by
// the same rules.
func (s Sightings) Merge() Sightings {
	return Sightings{
		Installed: merge(s.Installed, compareInstalled, Installed.Merge),
		Tries:     merge(s.Tries, compareTries, Try.Merge),
		Downloads: merge(s.Downloads, compareDownloads, mergeDownloads),
	}
}

// merge sorts a copy of the list and merges equal entries.
func merge[T any](list []T, compare func(a, b T) int, one func(a, b T) T) []T {
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	merged := list[:0]
	for _, entry := range list {
		if last := len(merged) - 1; last >= 0 && compare(merged[last], entry) == 0 {
			merged[last] = one(merged[last], entry)
		} else {
			merged = append(merged, entry)
		}
	}
	return merged
}

func compareInstalled(a, b Installed) int {
	return cmp.Or(strings.Compare(a.Channel, b.Channel), bytes.Compare(a.Client[:], b.Client[:]))
}

// Merge merges two sightings of one client and channel. The result does not depend on their
// order: at equal times the greater texts win.
func (i Installed) Merge(j Installed) Installed {
	told := i
	if cmp.Or(cmp.Compare(i.asked(), j.asked()), cmp.Compare(i.reported(), j.reported()), strings.Compare(i.Target, j.Target)) < 0 {
		told = j
	}
	if cmp.Or(cmp.Compare(i.Seen.UnixMicro(), j.Seen.UnixMicro()), strings.Compare(i.Version, j.Version), strings.Compare(i.Cohort, j.Cohort)) < 0 {
		i = j
	}
	i.Target, i.Asked = told.Target, told.Asked
	return i
}

// asked is when a client asked, in microseconds, 0 for a report.
func (i Installed) asked() int64 {
	if i.Asked.IsZero() {
		return 0
	}
	return i.Asked.UnixMicro()
}

// reported is when a client that has not asked was seen, in microseconds.
func (i Installed) reported() int64 {
	if i.Asked.IsZero() {
		return i.Seen.UnixMicro()
	}
	return 0
}

func compareTries(a, b Try) int {
	return cmp.Or(strings.Compare(a.Channel, b.Channel), strings.Compare(a.Version, b.Version), bytes.Compare(a.Client[:], b.Client[:]))
}

// Merge merges two tries of one client and release.
func (t Try) Merge(u Try) Try {
	firsts := t.Firsts()
	switch later := u.Firsts(); {
	case u.Round > t.Round:
		firsts = later
	case u.Round == t.Round:
		firsts = Firsts{earliest(firsts.Installed, later.Installed), earliest(firsts.Decided, later.Decided), earliest(firsts.Fell, later.Fell)}
	}
	t.Round, t.firsts = max(t.Round, u.Round), &firsts
	if t.Asked.IsZero() {
		t.Network = 0
	}
	if !u.Asked.IsZero() {
		t.Network = max(t.Network, u.Network)
	}
	t.Asked = latest(t.Asked, u.Asked)
	t.Installed = latest(t.Installed, u.Installed)
	t.Running = latest(t.Running, u.Running)
	t.Failed = latest(t.Failed, u.Failed)
	t.Crashed = latest(t.Crashed, u.Crashed)
	return t
}

func compareDownloads(a, b Download) int {
	return cmp.Or(bytes.Compare(a.Client[:], b.Client[:]), strings.Compare(a.Version, b.Version))
}

func mergeDownloads(a, b Download) Download {
	a.Time = latest(a.Time, b.Time)
	return a
}

// latest returns the later of two times, either of which may be zero.
func latest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.After(a) {
		return b
	}
	return a
}

// earliest returns the earlier of two times, either of which may be zero.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Micros returns microseconds since 1970, nil for the zero time; for adapters.
func Micros(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.UnixMicro())
}
