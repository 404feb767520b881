package influx

import (
	"time"

	"tsmon/store/series"
)

// trues is the function that counts values that are true.
const trues = "true"

// piece is a part of the window of an aggregate.
type piece struct {
	since, until int64 // nanoseconds since 1970, exclusive and inclusive
	rolled       bool  // rollups stand for its values
	plan         plan  // that fetches it
}

// pieces cuts a window, oldest first. Rollups stand for the parts of hours before the border
// that lie wholly in the window; what is before the first of these is read from values, as
// long as they are kept.
func (b *batch) pieces(window time.Duration) (all []piece) {
	since, now := b.since(window), b.now.UnixNano()
	border := b.rollups.border(b.now)
	if border.IsZero() || since >= border.UnixNano()-1 {
		return []piece{{since: since, until: now, plan: b.first}}
	}
	last := min(border.UnixNano()-1, now)
	grain := int64(b.rollups.grain)
	first := since + (grain-(since+1)%grain)%grain
	if first = min(first, last); since < first {
		all = append(all, piece{since: since, until: first, plan: b.first})
	}
	if first < last {
		all = append(all, piece{first, last, true, b.old})
	}
	return append(all, piece{since: last, until: now, plan: b.first})
}

// cell returns the cell of a function of a piece.
func (p piece) cell(k series.Key, kind series.Kind, function string) cell {
	c := cell{Key: k, kind: kind, function: function, since: p.since, until: p.until}
	switch {
	case p.rolled:
		c.kind = series.Float
		if function == trues {
			c.function = "sum"
		}
		c.Field += "." + c.function
		if function == "count" {
			c.function = "sum"
		}
	case function == trues:
		c.function, c.onlyTrue = "count", true
	}
	return c
}

// functionsOf returns the functions of each piece that an aggregate is made of.
func functionsOf(a series.Aggregate, kind series.Kind, pieces int) []string {
	switch {
	case kind == series.Boolean:
		return []string{"count", trues}
	case a == series.Mean && pieces > 1:
		return []string{"count", "sum"}
	}
	return []string{a.String()}
}

func (b *batch) wantAggregate(want series.Want, kind series.Kind) {
	pieces := b.pieces(want.Window)
	for _, p := range pieces {
		for _, function := range functionsOf(want.Aggregate, kind, len(pieces)) {
			p.plan.want(p.cell(want.Key, kind, function))
		}
	}
}

// aggregate returns an aggregate that was fetched, or false if there are no values.
func (b *batch) aggregate(want series.Want, kind series.Kind) (number float64, found bool) {
	pieces := b.pieces(want.Window)
	functions := functionsOf(want.Aggregate, kind, len(pieces))
	figures := make([]figure, len(functions))
	for _, p := range pieces {
		for i, function := range functions {
			figures[i].join(function, p.plan[p.cell(want.Key, kind, function)])
		}
	}
	first := figures[0]
	switch {
	case !first.found || len(figures) == 1:
		return first.number, first.found
	case kind == series.Boolean:
		return share(want.Aggregate, figures[1].number, first.number), true
	}
	return figures[1].number / first.number, true
}

func (f *figure) join(function string, other figure) {
	switch {
	case !other.found:
	case !f.found:
		*f = other
	case function == "max":
		f.number = max(f.number, other.number)
	case function == "min":
		f.number = min(f.number, other.number)
	default:
		f.number += other.number
	}
}

// share returns an aggregate of as many booleans as all, of which trues are true.
func share(a series.Aggregate, trues, all float64) float64 {
	switch {
	case a == series.Sum:
		return trues
	case a == series.Mean:
		return trues / all
	case a == series.Max && trues > 0, a == series.Min && trues == all:
		return 1
	}
	return 0
}
