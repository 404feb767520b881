package recordtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"tsmon/store/record"
)

// noon is the time of the first save in these tests.
var noon = time.Date(2026, 3, 5, 12, 0, 0, 123_000_000, time.UTC)

// saveAs saves a diagram, and fails the test unless the save creates version want.
func saveAs(t *testing.T, s record.Store, d record.Diagram, deleted record.Deleted, want int64) record.DiagramState {
	t.Helper()
	got := must(s.SaveDiagram(t.Context(), schema, d, deleted))(t)
	equal(t, "the saved state", got, record.DiagramState{Diagram: got.Diagram, Version: want, Title: d.Title, SavedBy: d.SavedBy, SavedAt: d.SavedAt})
	return got
}

func saveVersions(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	d := record.Diagram{Title: "one", SavedBy: "ana@example.com", SavedAt: noon, Objects: record.Objects{Lines: drawing(2, "a")}}
	d.ID = saveAs(t, s, d, record.Deleted{}, 1).Diagram
	first := must(s.Diagram(t.Context(), schema, d.ID))(t)
	equal(t, "the first state", first.State(), record.DiagramState{Diagram: d.ID, Version: 1, Title: "one", SavedBy: "ana@example.com", SavedAt: noon})

	// Bea and Ana have both read version 1. Bea deletes a line, which Ana then moves.
	bea := record.Diagram{ID: d.ID, Version: 1, Title: "one", SavedBy: "bea@example.com", SavedAt: noon.Add(time.Minute)}
	saved := saveAs(t, s, bea, record.Deleted{Lines: []int64{first.Lines[0].ID}}, 2)
	ana := record.Diagram{ID: d.ID, Version: 1, Title: "one", SavedBy: "ana@example.com", SavedAt: noon.Add(time.Hour), Objects: record.Objects{Lines: first.Lines}}
	_, err := s.SaveDiagram(t.Context(), schema, ana, record.Deleted{})
	var stale *record.StaleError
	if !errors.As(err, &stale) || !errors.Is(err, record.ErrStale) || stale.Present != saved {
		t.Fatalf("a stale save: %v", err)
	}
	equal(t, "the lines then", ids(read(t, s, schema, d.ID).Lines), ids(first.Lines[1:]))
	for _, version := range []int64{3, -1, 1 << 60} {
		ana.Version = version
		demand(t, errorOf(s.SaveDiagram(t.Context(), schema, ana, record.Deleted{})), record.ErrStale, fmt.Sprint("a save of version ", version))
	}
	ana.Version = 0 // save without a version check
	saveAs(t, s, ana, record.Deleted{}, 3)
	equal(t, "the lines of a save without a version", ids(read(t, s, schema, d.ID).Lines), ids(first.Lines))

	// A save that changes nothing makes no version.
	again := ana
	again.Version, again.SavedBy = 3, "bea@example.com"
	got := must(s.SaveDiagram(t.Context(), schema, again, record.Deleted{Lines: []int64{1 << 40}}))(t)
	equal(t, "the state after the same again", got, record.DiagramState{Diagram: d.ID, Version: 3, Title: "one", SavedBy: "ana@example.com", SavedAt: ana.SavedAt})
	demand(t, errorOf(s.SaveDiagram(t.Context(), schema, record.Diagram{ID: 4711, Version: 1}, record.Deleted{})), record.ErrNotFound, "a version of no diagram")
	saveAs(t, s, record.Diagram{Title: "copied from a version", Version: 9}, record.Deleted{}, 1)
}

func saveStates(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	other := save(t, s, schema, record.Diagram{Title: "other"})
	d := record.Diagram{Title: "1", Members: raw(`{"n":1.0}`), Objects: record.Objects{Lines: drawing(1, "1"), Texts: drawing(1, "1")}}
	d.ID = save(t, s, schema, d)
	lines := read(t, s, schema, d.ID).Lines
	const last = record.KeptStates + 5
	for version := 2; version <= last; version++ {
		lines[0].Members = raw(`{"id_tsvars":7,"n":%d.0}`, version)
		saveAs(t, s, record.Diagram{
			ID: d.ID, Version: int64(version - 1), Title: fmt.Sprint(version), SavedBy: "ana@example.com", SavedAt: noon.Add(time.Duration(version) * time.Second),
			Objects: record.Objects{Lines: lines},
		}, record.Deleted{}, int64(version))
	}
	var want []record.DiagramState
	for version := last; version > last-record.KeptStates; version-- {
		want = append(want, record.DiagramState{
			Diagram: d.ID, Version: int64(version), Title: fmt.Sprint(version), SavedBy: "ana@example.com", SavedAt: noon.Add(time.Duration(version) * time.Second),
		})
	}
	want = append([]record.DiagramState{{Diagram: other, Version: 1, Title: "other"}}, want...)
	states := must(s.DiagramStates(t.Context(), schema))(t)
	equal(t, "states", states, want)
	for _, state := range states[1:] {
		got := must(s.DiagramState(t.Context(), schema, d.ID, state.Version))(t)
		equal(t, "state", got.State(), state)
		equal(t, "line", string(got.Lines[0].Members), fmt.Sprintf(`{"id_tsvars":7,"n":%d.0}`, state.Version))
		equal(t, "texts", marks(t, record.Diagram{Objects: record.Objects{Lines: got.Texts}}), map[string]int{"1": 1})
	}
	for _, absent := range [][2]int64{{d.ID, 1}, {d.ID, last - record.KeptStates}, {d.ID, last + 1}, {d.ID, 0}, {other, 2}, {4711, 1}} {
		demand(t, errorOf(s.DiagramState(t.Context(), schema, absent[0], absent[1])), record.ErrNotFound, fmt.Sprint(absent))
	}
}

func importStates(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	check(t, s.Import(t.Context(), schema, sample()))
	before := must(s.DiagramStates(t.Context(), schema))(t)
	equal(t, "states after an import", before, []record.DiagramState{{Diagram: 1, Version: 1, Title: "Red"}, {Diagram: 7, Version: 1, Title: "Vacío"}})
	d := read(t, s, schema, 1)
	d.Version, d.SavedBy, d.SavedAt, d.Title = 1, "ana@example.com", noon, "changed"
	saveAs(t, s, d, record.Deleted{}, 2)
	check(t, s.Import(t.Context(), schema, sample()))
	check(t, s.Import(t.Context(), schema, sample())) // changes nothing
	equal(t, "states after another", must(s.DiagramStates(t.Context(), schema))(t), []record.DiagramState{
		{Diagram: 1, Version: 3, Title: "Red"}, {Diagram: 1, Version: 2, Title: "changed", SavedBy: "ana@example.com", SavedAt: noon}, {Diagram: 1, Version: 1, Title: "Red"},
		{Diagram: 7, Version: 1, Title: "Vacío"},
	})
	demand(t, errorOf(s.SaveDiagram(t.Context(), schema, d, record.Deleted{})), record.ErrStale, "a save of what was read before the import")
}

// saversOfOneVersion has several savers that have read the same version. One must win.
func saversOfOneVersion(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	id := save(t, s, schema, record.Diagram{Title: "one"})
	oneWins(t, 8, func(i int) error {
		return errorOf(s.SaveDiagram(t.Context(), schema, record.Diagram{ID: id, Version: 1, Title: fmt.Sprint("by ", i)}, record.Deleted{}))
	}, func(err error) { demand(t, err, record.ErrStale, "a loser") })
	equal(t, "number of states", len(must(s.DiagramStates(t.Context(), schema))(t)), 2)
}
