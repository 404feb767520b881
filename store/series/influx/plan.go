package influx

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tsmon/store/series"
)

// cell is one figure of an answer: a function of a field over a time.
type cell struct {
	function string // last, mean, max, min, sum or count
	timed    bool   // of a last value: its own time is wanted
	kind     series.Kind
	since    int64 // nanoseconds since 1970, exclusive; 0 for no bound
	onlyTrue bool  // of the values of a boolean
	field    string
}

// figure is what a cell came to.
type figure struct {
	number float64
	time   int64 // of a last value
	found  bool
}

// plan is a set of cells, which one request fetches.
type plan struct {
	until int64                      // nanoseconds since 1970, inclusive
	cells map[string]map[cell]figure // by measurement
}

// want adds a cell.
func (p *plan) want(measurement string, c cell) {
	if p.cells == nil {
		p.cells = map[string]map[cell]figure{}
	}
	if p.cells[measurement] == nil {
		p.cells[measurement] = map[cell]figure{}
	}
	p.cells[measurement][c] = figure{}
}

// statement fetches the same cells, which share their bounds, of several
// measurements.
type statement struct {
	cells        []cell
	measurements []string
}

// statements lays out the plan. Cells of one statement share what stands behind
// WHERE; measurements of which the same cells are wanted share a statement. A
// last value whose time is wanted has its statement to itself, because only there
// does the server tell that.
func (p *plan) statements() []statement {
	groups := map[string]*statement{}
	for _, measurement := range slices.Sorted(maps.Keys(p.cells)) {
		for _, cells := range alike(slices.SortedFunc(maps.Keys(p.cells[measurement]), compareCells)) {
			id := identify(cells)
			if groups[id] == nil {
				groups[id] = &statement{cells: cells}
			}
			groups[id].measurements = append(groups[id].measurements, measurement)
		}
	}
	all := make([]statement, 0, len(groups))
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, *groups[id])
	}
	return all
}

// identify returns a text that only equal cells share.
func identify(cells []cell) string {
	var id []byte
	for _, c := range cells {
		id = append(id, c.function...)
		id = strconv.AppendInt(append(id, ' '), c.since, 10)
		id = strconv.AppendBool(append(id, ' ', byte('0'+c.kind)), c.onlyTrue)
		id = strconv.AppendBool(id, c.timed)
		id = strconv.AppendQuote(id, c.field)
	}
	return string(id)
}

// alike cuts sorted cells into those that one statement can fetch.
func alike(cells []cell) (groups [][]cell) {
	for i, c := range cells {
		if i == 0 || c.alone() || cells[i-1].alone() || c.since != cells[i-1].since {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], c)
	}
	return groups
}

func (c cell) alone() bool { return c.timed || c.onlyTrue }

func compareCells(a, b cell) int {
	return cmp.Or(order(a.alone(), b.alone()), order(a.onlyTrue, b.onlyTrue), cmp.Compare(a.since, b.since), strings.Compare(a.function, b.function), strings.Compare(a.field, b.field),
		cmp.Compare(a.kind, b.kind))
}

func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// write adds a statement to a query.
func (st statement) write(q *query, until int64) {
	var columns, from []string
	for _, c := range st.cells {
		columns = append(columns, c.function+"("+typed(q, c.field, c.kind)+")")
	}
	for _, m := range st.measurements {
		from = append(from, q.bind(m))
	}
	var where strings.Builder
	first := st.cells[0]
	if first.onlyTrue {
		where.WriteString(typed(q, first.field, first.kind) + " = true AND ")
	}
	if first.since != 0 {
		fmt.Fprintf(&where, "time > %d AND ", first.since)
	}
	fmt.Fprintf(&where, "time <= %d", until)
	q.add("SELECT " + strings.Join(columns, ", ") + " FROM " + strings.Join(from, ", ") + " WHERE " + where.String())
}

// typed returns a field with the cast that reads its kind. Integers are read as
// floats, so that their sum can't overflow.
func typed(q *query, field string, kind series.Kind) string {
	if kind == series.Boolean {
		return q.bind(field) + "::boolean"
	}
	return q.bind(field) + "::float"
}

// fill takes the figures of a statement out of its rows.
func (p *plan) fill(st statement, rows []row) error {
	for _, r := range rows {
		cells := p.cells[r.Name]
		if cells == nil || len(r.Values) != 1 || len(r.Values[0]) != 1+len(st.cells) {
			return errIncomplete
		}
		when, ok := nanoseconds(r.Values[0][0])
		for i, c := range st.cells {
			if n, found := number(r.Values[0][1+i]); found && ok {
				cells[c] = figure{n, when, true}
			}
		}
	}
	return nil
}
