package influx

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tsmon/store/series"
)

// cell is a number to ask for: a function of a field over a period.
type cell struct {
	series.Key
	function string // last, mean, max, min, sum or count
	timed    bool   // the time of a last value is wanted
	kind     series.Kind
	since    int64 // nanoseconds since 1970, exclusive; 0 for no bound
	until    int64 // inclusive
	onlyTrue bool  // count only values that are true
}

type figure struct {
	number float64
	time   int64 // of a last value
	found  bool
}

// plan is a set of cells, which one request fetches.
type plan map[cell]figure

func (p plan) want(c cell) { p[c] = figure{} }

// statement fetches the same columns of several measurements.
type statement struct {
	columns, where string
	measurements   []string          // as q.bind returns them
	cells          map[string][]cell // by measurement, in the order of columns
}

// statements adds the statements of the plan to q. Cells of a statement have the same WHERE
// clause, and measurements with the same cells share a statement. A last value whose time
// is wanted has a statement of its own, since only there the server returns the time.
func (p plan) statements(q *query) []*statement {
	groups := map[string]*statement{}
	var all []*statement
	for _, cells := range alike(slices.SortedFunc(maps.Keys(p), compareCells)) {
		measurement := cells[0].Measurement
		st := &statement{cells: map[string][]cell{}}
		st.columns, st.where = clauses(q, cells)
		id := st.columns + "\n" + st.where
		if q.gemini { // which fails a statement for one measurement that is gone
			id += "\n" + measurement
		}
		if groups[id] == nil {
			groups[id] = st
			all = append(all, st)
		}
		st = groups[id]
		st.measurements = append(st.measurements, q.bind(measurement))
		st.cells[measurement] = cells
	}
	for _, st := range all {
		q.add("SELECT " + st.columns + " FROM " + strings.Join(st.measurements, ", ") + " WHERE " + st.where)
	}
	return all
}

// clauses returns what a statement for cells of one measurement selects, and where.
func clauses(q *query, cells []cell) (columns, where string) {
	var functions []string
	for _, c := range cells {
		functions = append(functions, c.function+"("+typed(q, c.Field, c.kind)+")")
	}
	first := cells[0]
	if first.onlyTrue {
		where = typed(q, first.Field, first.kind) + " = true AND "
	}
	if first.since != 0 {
		where += fmt.Sprintf("time > %d AND ", first.since)
	}
	return strings.Join(functions, ", "), where + fmt.Sprintf("time <= %d", first.until)
}

// alike groups sorted cells by statement.
func alike(cells []cell) (groups [][]cell) {
	for i, c := range cells {
		if i == 0 || c.rank() > 0 || cells[i-1].rank() > 0 || c.since != cells[i-1].since || c.until != cells[i-1].until || c.Measurement != cells[i-1].Measurement {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], c)
	}
	return groups
}

// rank is above zero for a cell that has a statement of its own.
func (c cell) rank() int {
	switch {
	case c.onlyTrue:
		return 2
	case c.timed:
		return 1
	}
	return 0
}

func compareCells(a, b cell) int {
	return cmp.Or(
		strings.Compare(a.Measurement, b.Measurement), cmp.Compare(a.rank(), b.rank()),
		cmp.Compare(a.since, b.since), cmp.Compare(a.until, b.until),
		strings.Compare(a.function, b.function), strings.Compare(a.Field, b.Field), cmp.Compare(a.kind, b.kind))
}

// typed returns a field with a cast to its kind. Integers are read as floats, so
// that their sum can't overflow.
func typed(q *query, field string, kind series.Kind) string {
	switch {
	case kind == series.Boolean:
		return q.bind(field) + "::boolean"
	case kind == series.Text:
		return q.bind(field)
	case kind == series.Integer && q.gemini:
		return q.bind(field) + "::integer"
	}
	return q.bind(field) + "::float"
}

// fill sets the cells of a statement from its rows.
func (p plan) fill(st *statement, rows []row) error {
	for _, r := range rows {
		cells := st.cells[r.Name]
		if len(cells) == 0 || len(r.Values) != 1 || len(r.Values[0]) != 1+len(cells) {
			return errIncomplete
		}
		when, ok := nanoseconds(r.Values[0][0])
		for i, c := range cells {
			if n, found := number(r.Values[0][1+i]); found && ok {
				p[c] = figure{n, when, true}
			}
		}
	}
	return nil
}
