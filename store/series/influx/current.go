package influx

import (
	"context"
	"time"

	"tsmon/store/series"
)

// Current implements series.Reader.
func (s *Store) Current(ctx context.Context, database string, wants []series.Want) (_ []series.Value, err error) {
	if err := series.ValidDatabase(database); err != nil {
		return nil, err
	}
	if err := series.ValidWants(wants); err != nil {
		return nil, err
	}
	defer s.server.explain(ctx, "current values of "+database, &err)
	keys := make([]series.Key, len(wants))
	for i, want := range wants {
		keys[i] = want.Key
	}
	m, kinds, err := s.kindsOf(ctx, database, keys)
	if err != nil {
		return nil, err
	}
	b := &batch{now: s.now(), memory: m, writes: m.count(), kinds: kinds, lasts: map[series.Key]*search{}}
	b.begin(wants)
	for p := b.next(); len(p.cells) > 0; p = b.next() {
		if err := s.fetch(ctx, database, p); err != nil {
			return nil, err
		}
		b.take(p)
	}
	values := make([]series.Value, len(wants))
	for i, want := range wants {
		values[i] = b.value(want.Normal())
	}
	return values, nil
}

// fetch runs a plan in one request.
func (s *Store) fetch(ctx context.Context, database string, p *plan) error {
	q := s.server.query()
	statements := p.statements(q.gemini)
	for _, st := range statements {
		st.write(&q, p.until)
	}
	rows, err := s.server.ask(ctx, database, q)
	if err != nil {
		return err
	}
	for i, st := range statements {
		if err := p.fill(st, rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// batch is one call of Current.
type batch struct {
	now    time.Time
	memory *memory
	writes int                        // at its beginning
	kinds  map[series.Key]series.Kind // of those wanted
	lasts  map[series.Key]*search
	first  *plan // with the aggregates too
	asked  bool
}

// search is the search for the last value of a key.
type search struct {
	timed bool // the time of the value is wanted
	rung  int
	done  bool
	figure
}

// begin plans the aggregates and begins the searches for last values.
func (b *batch) begin(wants []series.Want) {
	b.first = newPlan(b.now, len(wants))
	for _, want := range wants {
		kind := b.kinds[want.Key]
		if kind == 0 || kind == series.Text {
			continue
		}
		if want.Aggregate != series.Last {
			for _, c := range b.cells(want.Normal(), kind) {
				b.first.want(c)
			}
			continue
		}
		if known := b.lasts[want.Key]; known != nil {
			known.timed = known.timed || want.Timed
		} else if rung, ok := b.memory.rung(want.Key, b.now); ok {
			b.lasts[want.Key] = &search{rung: rung, timed: want.Timed}
		}
	}
}

// cells returns the cells of an aggregate. Booleans are counted.
func (b *batch) cells(want series.Want, kind series.Kind) []cell {
	c := cell{function: want.Aggregate.String(), kind: kind, since: b.since(want.Window), Key: want.Key}
	if kind != series.Boolean {
		return []cell{c}
	}
	c.function = "count"
	trues := c
	trues.onlyTrue = true
	return []cell{c, trues}
}

func (b *batch) since(window time.Duration) int64 {
	if window == 0 {
		return 0
	}
	return b.now.Add(-window).UnixNano()
}

// lastCell returns the cell of a last value at the current step of its search. Past
// the first step its time decides where the next search begins.
func (b *batch) lastCell(k series.Key, s *search) cell {
	return cell{function: "last", timed: s.timed || s.rung > 0, kind: b.kinds[k], since: b.since(ladder[s.rung]), Key: k}
}

// next plans the next request: the last values that are still missing and, in the
// first request, the aggregates.
func (b *batch) next() *plan {
	p := b.first
	if b.asked {
		p = newPlan(b.now, 0)
	}
	b.asked = true
	for k, search := range b.lasts {
		if !search.done {
			p.want(b.lastCell(k, search))
		}
	}
	return p
}

// take records what a plan has fetched and advances the searches.
func (b *batch) take(p *plan) {
	for k, search := range b.lasts {
		if search.done {
			continue
		}
		c := b.lastCell(k, search)
		search.figure = p.cells[c]
		switch {
		case search.found:
			search.done = true
			age := time.Duration(0) // within the first step of the ladder
			if c.timed {
				age = b.now.Sub(time.Unix(0, search.time))
			}
			b.memory.found(k, age)
		case search.rung == len(ladder)-1:
			search.done = true
			b.memory.lost(k, b.now, b.writes)
		default:
			search.rung++
		}
	}
}

// value returns the value of a want.
func (b *batch) value(want series.Want) series.Value {
	kind := b.kinds[want.Key]
	if kind == 0 || kind == series.Text {
		return series.Value{}
	}
	if want.Aggregate == series.Last {
		if search := b.lasts[want.Key]; search != nil && search.found {
			value := series.Value{Number: search.number, Found: true}
			if want.Timed {
				value.Time = time.Unix(0, search.time).UTC()
			}
			return value
		}
		return series.Value{}
	}
	wanted := b.cells(want, kind)
	f := b.first.cells[wanted[0]]
	if !f.found {
		return series.Value{}
	}
	if kind == series.Boolean {
		f.number = share(want.Aggregate, b.first.cells[wanted[1]].number, f.number)
	}
	return series.Value{Number: f.number, Time: b.now.UTC(), Found: true}
}

// share returns an aggregate of booleans, of which there are all and trues are true.
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
