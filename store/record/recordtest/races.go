package recordtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"tsmon/store/record"
)

// saversRace has savers replace the same set of lines concurrently, and add lines of their
// own. The set must come from one saver, and no added line may be lost.
func saversRace(t *testing.T, s record.Store) {
	const savers, rounds, shared, own = 6, 4, 30, 5
	makeTenant(t, s, schema)
	id := save(t, s, schema, record.Diagram{Objects: record.Objects{Lines: drawing(shared, "start")}})
	set := ids(read(t, s, schema, id).Lines)
	raceAll(t, savers, func(i int) error {
		for round := range rounds {
			mark := fmt.Sprintf("%d/%d", i, round)
			d := record.Diagram{ID: id, Title: mark, Objects: record.Objects{Lines: drawing(shared, mark), Texts: drawing(own, mark)}}
			for n, at := range rand.Perm(shared) {
				d.Lines[n].ID = set[at]
			}
			if _, err := s.SaveDiagram(t.Context(), schema, d, record.Deleted{}); err != nil {
				return err
			}
		}
		return nil
	})
	d := read(t, s, schema, id)
	equal(t, "marks of the shared lines", marks(t, d), map[string]int{d.Title: shared})
	equal(t, "ids of the shared lines", ids(d.Lines), set)
	texts := marks(t, record.Diagram{Objects: record.Objects{Lines: d.Texts}})
	equal(t, "saves that added", len(texts), savers*rounds)
	for mark, n := range texts {
		equal(t, "additions of "+mark, n, own)
	}
}

func saversOfNewDiagrams(t *testing.T, s record.Store) {
	const savers = 12
	makeTenant(t, s, schema)
	made := make([]int64, savers)
	raceAll(t, savers, func(i int) error {
		saved, err := s.SaveDiagram(t.Context(), schema, record.Diagram{Title: fmt.Sprint(i), Objects: record.Objects{Lines: drawing(20, fmt.Sprint(i))}}, record.Deleted{})
		made[i] = saved.Diagram
		return err
	})
	for i, id := range made {
		d := read(t, s, schema, id)
		equal(t, "title", d.Title, fmt.Sprint(i))
		equal(t, "marks", marks(t, d), map[string]int{d.Title: 20})
	}
}

// saversOfOneObject has savers of different diagrams use the same new id.
func saversOfOneObject(t *testing.T, s record.Store) {
	const savers = 8
	makeTenant(t, s, schema)
	for id := int64(1000); id < 1005; id++ {
		oneWins(t, savers, func(int) error {
			d := record.Diagram{Title: fmt.Sprint(id), Objects: record.Objects{Lines: []record.Object{{ID: id}}}}
			return errorOf(s.SaveDiagram(t.Context(), schema, d, record.Deleted{}))
		}, func(err error) { conflict(t, err, record.Line, id) })
	}
	equal(t, "number of diagrams", len(must(s.Export(t.Context(), schema))(t).Diagrams), 5)
}

// readWhileSaving checks that every read returns one save, whole.
func readWhileSaving(t *testing.T, s record.Store) {
	const saves, lines = 25, 40
	makeTenant(t, s, schema)
	id := save(t, s, schema, record.Diagram{Title: "start", Objects: record.Objects{Lines: drawing(lines, "start")}})
	set := ids(read(t, s, schema, id).Lines)
	done := make(chan struct{})
	errs := make([]error, 2)
	var readers sync.WaitGroup
	for i := range errs {
		readers.Go(func() {
			for errs[i] == nil {
				select {
				case <-done:
					return
				default:
					errs[i] = readWhole(t.Context(), s, id, lines)
				}
			}
		})
	}
	for i := range saves {
		mark := fmt.Sprint(i)
		d := record.Diagram{ID: id, Title: mark, Objects: record.Objects{Lines: drawing(lines, mark)}}
		for n := range d.Lines {
			d.Lines[n].ID = set[n]
		}
		save(t, s, schema, d)
	}
	close(done)
	readers.Wait()
	check(t, errors.Join(errs...))
}

func readWhole(ctx context.Context, s record.Store, id int64, lines int) error {
	d, err := s.Diagram(ctx, schema, id)
	if err != nil {
		return err
	}
	want := fmt.Sprintf(`{"mark":%q,`, d.Title)
	for _, o := range d.Lines {
		if len(d.Lines) != lines || string(o.Members[:len(want)]) != want {
			return fmt.Errorf("a diagram of title %s has %d lines, one of them %s", d.Title, len(d.Lines), o.Members)
		}
	}
	return nil
}

func cancelled(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	check(t, s.Import(t.Context(), schema, sample()))
	before := must(s.Export(t.Context(), schema))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for method, call := range calls(s) {
		demand(t, call(ctx, schema), context.Canceled, method)
	}
	demand(t, s.CreateTenant(ctx, record.Tenant{Schema: "late", TsName: "x"}), context.Canceled, "CreateTenant")
	demand(t, s.Ping(ctx), context.Canceled, "Ping")
	demand(t, s.TryWrite(ctx), context.Canceled, "TryWrite")
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for method, call := range calls(s) {
		demand(t, call(past, schema), record.ErrUnavailable, method)
		demand(t, call(past, schema), context.DeadlineExceeded, method)
	}
	equal(t, "what stands", must(s.Export(t.Context(), schema))(t), before)
	demand(t, errorOf(s.Tenant(t.Context(), "late")), record.ErrNotFound, "Tenant")
}

// cancelledInside cancels saves at random moments. Each must be stored whole or not at all.
func cancelledInside(t *testing.T, s record.Store) {
	const saves, lines = 40, 300
	makeTenant(t, s, schema)
	begun := time.Now()
	id := save(t, s, schema, record.Diagram{Title: "start", Objects: record.Objects{Lines: drawing(lines, "start")}})
	usual := time.Since(begun)
	set := ids(read(t, s, schema, id).Lines)
	for i := range saves {
		mark := fmt.Sprint(i)
		d := record.Diagram{ID: id, Title: mark, Objects: record.Objects{Lines: drawing(lines, mark)}}
		for n := range d.Lines {
			d.Lines[n].ID = set[n]
		}
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(usual*time.Duration(i)/saves, cancel)
		_, err := s.SaveDiagram(ctx, schema, d, record.Deleted{})
		timer.Stop()
		cancel()
		if err != nil {
			demand(t, err, context.Canceled, "save")
		}
		check(t, readWhole(t.Context(), s, id, lines))
		if now := read(t, s, schema, id); err == nil && now.Title != mark {
			t.Fatalf("save %s returned no error, but the store has %s", mark, now.Title)
		}
	}
}

func importRace(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	raceAll(t, 6, func(int) error { return s.Import(t.Context(), schema, sample()) })
	equal(t, "content", must(s.Export(t.Context(), schema))(t), sample())
}
