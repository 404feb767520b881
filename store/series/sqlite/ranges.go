package sqlite

import (
	"context"
	"slices"
	"time"

	"tsmon/store/series"
)

func (s *Store) Series(ctx context.Context, database string, ranges []series.Range) ([]series.Result, error) {
	if err := series.ValidRanges(ranges); err != nil {
		return nil, err
	}
	results := make([]series.Result, len(ranges))
	now := s.now()
	err := s.read(ctx, s.timeout, "read series of "+database, database, func(ctx context.Context, scan *scanner) (err error) {
		for i, r := range ranges {
			if results[i], err = scan.one(ctx, r, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (s *scanner) one(ctx context.Context, r series.Range, now time.Time) (series.Result, error) {
	streams, err := s.sourcesOf(ctx, r.Key)
	if err != nil {
		return series.Result{}, err
	}
	limit := r.Points()
	stop := min(r.Stop.UnixNano(), now.UnixNano()+1)
	spans := r.Spans()
	var all windows
	for _, of := range streams {
		each := windows{kind: of.kind, spans: spans}
		enough := func() error {
			if len(each.list) > limit+1 { // the oldest of which may have more points
				return errEnough
			}
			return nil
		}
		v := visitor{
			points: func(points []point) error { each.add(points); return enough() },
			parts:  func(parts []window) error { each.addParts(parts); return enough() },
			even:   int64(series.Even(spans)),
			every:  int64(r.Every),
		}
		err := s.scan(ctx, of, r.Start.UnixNano(), stop, v)
		if err != nil {
			return series.Result{}, err
		}
		all.join(each, limit+1)
	}
	return series.NewestFirst(all.points(limit+1), limit), nil
}

type window struct {
	start int64
	figures
}

// windows are the windows of a field that have points, newest first.
type windows struct {
	kind   series.Kind
	spans  []series.Span
	list   []window
	turned int   // how many of list are in that order; the others are oldest first
	end    int64 // of the last of the others
}

// at returns the figures of the window of a time, which is not before that of the last call.
func (w *windows) at(t int64) *figures {
	if len(w.list) == w.turned || t >= w.end {
		n := len(w.spans) - 1
		for w.spans[n].Start > t {
			n--
		}
		span := w.spans[n]
		start := t - (t-span.Start)%span.Every
		w.list = append(w.list, window{start: start})
		w.end = min(start+span.Every, span.Stop)
	}
	return &w.list[len(w.list)-1].figures
}

// add adds points in order of time, all of them older than those of the last call.
func (w *windows) add(points []point) {
	for _, p := range points {
		w.at(p.time).add(p, w.kind)
	}
	w.turn()
}

// addParts adds parts of a day in the same way.
func (w *windows) addParts(parts []window) {
	for _, h := range parts {
		w.at(h.start).join(h.figures, w.kind)
	}
	w.turn()
}

// turn puts all windows in order. The newest of those that were not may be a part of the
// oldest of the others.
func (w *windows) turn() {
	first := w.turned
	slices.Reverse(w.list[first:])
	if first > 0 && w.list[first-1].start == w.list[first].start {
		w.list[first-1].join(w.list[first].figures, w.kind)
		w.list = slices.Delete(w.list, first, first+1)
	}
	w.turned = len(w.list)
}

// join adds the windows of another series, and keeps the newest, as many as limit.
func (w *windows) join(other windows, limit int) {
	if w.list == nil {
		*w = other
		return
	}
	var both []window
	for a, b := w.list, other.list; len(a)+len(b) > 0 && len(both) < limit; {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].start > b[0].start:
			both, a = append(both, a[0]), a[1:]
		case len(a) == 0 || b[0].start > a[0].start:
			both, b = append(both, b[0]), b[1:]
		default:
			a[0].join(b[0].figures, w.kind)
			both, a, b = append(both, a[0]), a[1:], b[1:]
		}
	}
	w.list = both
}

// points returns the newest windows as points, newest first.
func (w *windows) points(limit int) []series.Point {
	var points []series.Point
	for _, one := range w.list[:min(limit, len(w.list))] {
		number := one.total() / float64(one.count)
		if w.kind == series.Boolean {
			number = one.last.number(w.kind)
		}
		points = append(points, series.Point{Time: time.Unix(0, one.start).UTC(), Number: number})
	}
	return points
}
