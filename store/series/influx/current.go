package influx

import (
	"context"
	"slices"
	"time"

	"tsmon/store/series"
)

// Current makes another request, to the database of rollups, for aggregates that reach back
// to deleted values.
func (s *Store) Current(ctx context.Context, database string, wants []series.Want) (values []series.Value, err error) {
	if err := series.ValidWants(wants); err != nil {
		return nil, err
	}
	err = s.call(ctx, "read current values of", database, func() (err error) {
		values, err = s.values(ctx, database, wants)
		return err
	})
	return values, err
}

// values answers valid wants.
func (s *Store) values(ctx context.Context, database string, wants []series.Want) ([]series.Value, error) {
	keys := make([]series.Key, len(wants))
	for i, want := range wants {
		keys[i] = want.Key
	}
	far := slices.ContainsFunc(wants, func(w series.Want) bool { return w.Aggregate != series.Last && w.Window > series.MinRetention })
	m, kinds, made, err := s.known(ctx, database, keys, far)
	if err != nil {
		return nil, err
	}
	b := &batch{
		now: s.now(), memory: m, writes: m.count(), kinds: kinds, rollups: made,
		lasts: map[series.Key]*search{}, first: make(plan, len(wants)), old: plan{},
	}
	b.begin(wants)
	for p := b.next(b.first); len(p) > 0; p = b.next(plan{}) {
		if err := s.fetch(ctx, database, p); err != nil {
			return nil, err
		}
		b.take(p)
	}
	if len(b.old) > 0 {
		err := s.fetch(ctx, s.server.rollupsOf(database), b.old)
		if s.bereft(ctx, m, b.rollups, err) {
			return s.values(ctx, database, wants)
		}
		if err != nil {
			return nil, err
		}
	}
	values := make([]series.Value, len(wants))
	for i, want := range wants {
		values[i] = b.value(want.Normal())
	}
	return values, nil
}

// fetch runs a plan in one request.
func (s *Store) fetch(ctx context.Context, database string, p plan) error {
	q := s.server.query()
	statements := p.statements(&q)
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
	kinds  map[series.Key]series.Kind // of the wanted keys
	lasts  map[series.Key]*search
	first  plan // the first request, with all aggregates

	rollups rollups // read only if a window reaches far back
	old     plan    // for the database of rollups
}

type search struct {
	timed bool // the time of the value is wanted
	rung  int
	done  bool
	figure
}

// begin plans the aggregates and begins the searches for last values.
func (b *batch) begin(wants []series.Want) {
	for _, want := range wants {
		kind := b.kinds[want.Key]
		if kind == 0 || kind == series.Text {
			continue
		}
		if want.Aggregate != series.Last {
			b.wantAggregate(want.Normal(), kind)
			continue
		}
		if known := b.lasts[want.Key]; known != nil {
			known.timed = known.timed || want.Timed
		} else if rung, ok := b.memory.rung(want.Key, b.now); ok {
			b.lasts[want.Key] = &search{rung: rung, timed: want.Timed}
		}
	}
}

func (b *batch) since(window time.Duration) int64 {
	if window == 0 {
		return 0
	}
	return b.now.Add(-window).UnixNano()
}

// lastCell returns the cell of a last value at the current step of its search. After the
// first step its time is needed, which decides where the next search begins.
func (b *batch) lastCell(k series.Key, s *search) cell {
	return cell{function: "last", timed: s.timed || s.rung > 0, kind: b.kinds[k], since: b.since(ladder[s.rung]), until: b.now.UnixNano(), Key: k}
}

// next adds the last values that are still missing to the plan of the next request.
func (b *batch) next(p plan) plan {
	for k, search := range b.lasts {
		if !search.done {
			p.want(b.lastCell(k, search))
		}
	}
	return p
}

// take records what a plan has fetched and advances the searches.
func (b *batch) take(p plan) {
	for k, search := range b.lasts {
		if search.done {
			continue
		}
		c := b.lastCell(k, search)
		search.figure = p[c]
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
	n, found := b.aggregate(want, kind)
	if !found {
		return series.Value{}
	}
	return series.Value{Number: n, Time: b.now.UTC(), Found: true}
}
