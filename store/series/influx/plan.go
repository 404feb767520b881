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

// cell is one number of an answer: a function of a field over a period.
type cell struct {
	series.Key
	function string // last, mean, max, min, sum or count
	timed    bool   // the time of a last value is wanted
	kind     series.Kind
	since    int64 // nanoseconds since 1970, exclusive; 0 for no bound
	until    int64 // inclusive
	onlyTrue bool  // count only true values
}

// figure is the value of a cell.
type figure struct {
	number float64
	time   int64 // of a last value
	found  bool
}

// plan is a set of cells, which one request fetches.
type plan struct {
	cells map[cell]figure
}

// newPlan returns a plan with room for a number of cells.
func newPlan(cells int) *plan { return &plan{make(map[cell]figure, cells)} }

// want adds a cell.
func (p *plan) want(c cell) { p.cells[c] = figure{} }

// statement fetches the same cells, which have the same bounds, of several
// measurements.
type statement struct {
	cells        []cell // of the first measurement
	measurements []string
}

// statements lays out the plan. Cells of a statement have the same WHERE clause, and
// measurements with the same cells share a statement. A last value whose time is
// wanted has a statement of its own, since only there the server returns the time, and
// each measurement if they stay apart.
func (p *plan) statements(apart bool) []*statement {
	groups := map[string]*statement{}
	var all []*statement
	for _, cells := range alike(slices.SortedFunc(maps.Keys(p.cells), compareCells)) {
		id := identify(cells)
		if apart {
			id += " " + cells[0].Measurement
		}
		if groups[id] == nil {
			groups[id] = &statement{cells: cells}
			all = append(all, groups[id])
		}
		groups[id].measurements = append(groups[id].measurements, cells[0].Measurement)
	}
	return all
}

// identify returns a text that is equal for cells that differ only in measurement.
func identify(cells []cell) string {
	var id []byte
	for _, c := range cells {
		id = append(id, c.function...)
		id = strconv.AppendInt(append(id, ' '), c.since, 10)
		id = strconv.AppendInt(append(id, ' '), c.until, 10)
		id = strconv.AppendBool(append(id, ' ', byte('0'+c.kind)), c.onlyTrue)
		id = strconv.AppendBool(id, c.timed)
		id = strconv.AppendQuote(id, c.Field)
	}
	return string(id)
}

// alike groups sorted cells by statement.
func alike(cells []cell) (groups [][]cell) {
	for i, c := range cells {
		if i == 0 || c.alone() || cells[i-1].alone() || c.since != cells[i-1].since || c.until != cells[i-1].until || c.Measurement != cells[i-1].Measurement {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], c)
	}
	return groups
}

func (c cell) alone() bool { return c.timed || c.onlyTrue }

func compareCells(a, b cell) int {
	return cmp.Or(strings.Compare(a.Measurement, b.Measurement), order(a.alone(), b.alone()), order(a.onlyTrue, b.onlyTrue), cmp.Compare(a.since, b.since), cmp.Compare(a.until, b.until), strings.Compare(a.function, b.function), strings.Compare(a.Field, b.Field),
		cmp.Compare(a.kind, b.kind))
}

// order sorts false before true.
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
func (st *statement) write(q *query) {
	var columns, from []string
	for _, c := range st.cells {
		columns = append(columns, c.function+"("+typed(q, c.Field, c.kind)+")")
	}
	for _, m := range st.measurements {
		from = append(from, q.bind(m))
	}
	var where strings.Builder
	first := st.cells[0]
	if first.onlyTrue {
		where.WriteString(typed(q, first.Field, first.kind) + " = true AND ")
	}
	if first.since != 0 {
		fmt.Fprintf(&where, "time > %d AND ", first.since)
	}
	fmt.Fprintf(&where, "time <= %d", first.until)
	q.add("SELECT " + strings.Join(columns, ", ") + " FROM " + strings.Join(from, ", ") + " WHERE " + where.String())
}

// typed returns a field with a cast to its kind. Integers are read as floats, so
// that their sum can't overflow.
func typed(q *query, field string, kind series.Kind) string {
	if kind == series.Boolean {
		return q.bind(field) + "::boolean"
	}
	if kind == series.Text {
		return q.bind(field)
	}
	if kind == series.Integer && q.gemini {
		return q.bind(field) + "::integer"
	}
	return q.bind(field) + "::float"
}

// fill reads the cells of a statement from its rows.
func (p *plan) fill(st *statement, rows []row) error {
	for _, r := range rows {
		if len(r.Values) != 1 || len(r.Values[0]) != 1+len(st.cells) {
			return errIncomplete
		}
		when, ok := nanoseconds(r.Values[0][0])
		for i, c := range st.cells {
			c.Measurement = r.Name
			if _, wanted := p.cells[c]; !wanted {
				return errIncomplete
			}
			if n, found := number(r.Values[0][1+i]); found && ok {
				p.cells[c] = figure{n, when, true}
			}
		}
	}
	return nil
}
