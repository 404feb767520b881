package admin

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tsmon/cmd/tsmon/cli"
	"tsmon/store/record"
	"tsmon/store/record/sqlite"
)

// meddled saves a diagram right after it was read.
type meddled struct {
	record.Store
	meddle func(d record.Diagram)
}

func (m *meddled) Diagram(ctx context.Context, schema string, id int64) (record.Diagram, error) {
	d, err := m.Store.Diagram(ctx, schema, id)
	if m.meddle != nil && err == nil {
		m.meddle(d)
	}
	return d, err
}

// TestRestoreMeanwhile: a restore does not replace what somebody saves meanwhile.
func TestRestoreMeanwhile(t *testing.T) {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "records.db"), sqlite.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.CreateTenant(t.Context(), record.Tenant{Schema: "acueducto", TsName: "ts"}); err != nil {
		t.Fatal(err)
	}
	save := func(d record.Diagram) int64 {
		state, err := s.SaveDiagram(t.Context(), "acueducto", d, record.Deleted{})
		if err != nil {
			t.Fatal(err)
		}
		return state.Diagram
	}
	id := save(record.Diagram{Title: "first", Objects: record.Objects{Lines: []record.Object{{ID: 1}}}})
	save(record.Diagram{ID: id, Title: "second", Objects: record.Objects{Lines: []record.Object{{ID: 2}}, Texts: []record.Object{{ID: 2}}}})

	store := &meddled{Store: s, meddle: func(d record.Diagram) {
		d.Title = "of somebody else"
		save(d)
	}}
	o := diagramVersion{schema: "acueducto", id: id, version: 1}
	noon := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	_, err = restoreDiagram(t.Context(), store, o, "ana@laptop", noon)
	if cli.ExitCode(err) != cli.ExitConflict || cli.HintFor(err) == "" {
		t.Fatalf("a restore of what was saved meanwhile: %v", err)
	}
	if d, err := s.Diagram(t.Context(), "acueducto", id); err != nil || d.Title != "of somebody else" || len(d.Lines) != 2 {
		t.Fatalf("then the diagram is %+v, %v", d, err)
	}

	// follows: restore it again if that is still what you want; nothing was changed
	store.meddle = nil
	got, err := restoreDiagram(t.Context(), store, o, "ana@laptop", noon)
	want := RestoredDiagram{"acueducto", id, 1, 4, "first", true, false}
	if err != nil || got != want {
		t.Fatalf("restored %+v, %v; want %+v", got, err, want)
	}
	d, err := s.Diagram(t.Context(), "acueducto", id)
	lines := slices.Collect(func(yield func(int64) bool) {
		for _, o := range d.Lines {
			if !yield(o.ID) {
				return
			}
		}
	})
	if err != nil || d.Title != "first" || !slices.Equal(lines, []int64{1}) || len(d.Texts) != 0 || d.SavedBy != "ana@laptop" || !d.SavedAt.Equal(noon) {
		t.Errorf("the restored diagram is %+v, %v", d, err)
	}
}
