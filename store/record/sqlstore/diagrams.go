package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"tsmon/store/record"
)

// selectDiagram returns the head of a diagram as the first row, then its objects.
const selectDiagram = `
	SELECT '' AS kind, id, head, NULL, NULL, NULL FROM {schema}.diagrams WHERE id = $1
	UNION ALL
	SELECT o.kind, o.id, o.members, v.name, v.unit, v.vars_ts
	FROM {schema}.objects o LEFT JOIN {schema}.variables v ON v.key = o.variable
	WHERE o.diagram = $1
	ORDER BY 1, 2`

// Diagram implements record.Diagrams.
func (s *Store) Diagram(ctx context.Context, schema string, id int64) (d record.Diagram, err error) {
	rows, err := list(ctx, s.core, of(schema, "read diagram", Read), scanBound, selectDiagram, id)
	if err != nil {
		return d, err
	}
	if len(rows) == 0 {
		return d, fmt.Errorf("read diagram of %s: %w", schema, record.ErrNotFound)
	}
	if err := json.Unmarshal(rows[0].Members, &d); err != nil {
		return record.Diagram{}, fmt.Errorf("read diagram of %s: %w", schema, err)
	}
	d.ID = id
	for _, p := range rows[1:] {
		d.Add(p.kind, p.Object)
	}
	return d, nil
}

func scanBound(r Scanner) (p placed, err error) {
	var name, unit *string
	var varsTs []byte
	err = r.Scan(&p.kind, &p.ID, (*[]byte)(&p.Members), &name, &unit, &varsTs)
	if name != nil {
		p.Variable = &record.Bound{Name: *name, Unit: unit, VarsTs: varsTs}
	}
	return p, err
}

// SaveDiagram implements record.Diagrams, in two round trips.
func (s *Store) SaveDiagram(ctx context.Context, schema string, d record.Diagram, deleted record.Deleted) (int64, error) {
	saving, err := record.Prepare(d, deleted)
	if err != nil {
		return 0, fmt.Errorf("save diagram: %w", err)
	}
	err = s.run(ctx, of(schema, "save diagram", Write), func(ctx context.Context, tx Tx) error {
		found, err := look(ctx, tx, saving)
		if err != nil {
			return err
		}
		if err := number(ctx, tx, &saving, &found); err != nil {
			return err
		}
		var b Batch
		queueSavings(&b, []record.Saving{saving})
		b.Exec(`UPDATE {schema}.counters SET next_diagram = $1, next_object = $2`, found.nextDiagram, found.nextObject)
		return tx.Send(ctx, &b, true)
	})
	if err != nil {
		return 0, err
	}
	return saving.Diagram, nil
}

// state is the state of a tenant that a save has locked.
type state struct {
	nextDiagram, nextObject int64
	owners                  map[record.Ref]int64
	taken                   []int64 // ids in use from nextObject on
}

func queueLock(b *Batch, found *state) {
	b.Query(func(r Scanner) error { return r.Scan(&found.nextDiagram, &found.nextObject) },
		`SELECT next_diagram, next_object FROM {schema}.counters FOR UPDATE`)
}

// look locks the tenant and reads what a save depends on, in one round trip.
func look(ctx context.Context, tx Tx, s record.Saving) (state, error) {
	found := state{owners: map[record.Ref]int64{}}
	var existing []int64
	var b Batch
	queueLock(&b, &found)
	b.Query(collect(&existing, scanID), `SELECT id FROM {schema}.diagrams WHERE id = $1`, s.Diagram)
	queueOwners(&b, &found, s.Refs())
	b.Query(collect(&found.taken, scanID), `SELECT o.id FROM {schema}.counters c, {schema}.objects o
		WHERE o.kind IN ('line', 'image', 'text', 'polyline') AND o.id >= c.next_object AND o.id < c.next_object + $1`, s.New())
	if err := tx.Send(ctx, &b, false); err != nil {
		return state{}, err
	}
	if s.Diagram != 0 && len(existing) == 0 {
		return state{}, record.ErrNotFound
	}
	return found, s.Check(found.owners)
}

// queueOwners reads the diagrams that own objects.
func queueOwners(b *Batch, found *state, refs []record.Ref) {
	b.list("kind text, id bigint", refRows(refs), func(r Scanner) error {
		var ref record.Ref
		var owner int64
		err := r.Scan(&ref.Kind, &ref.ID, &owner)
		found.owners[ref] = owner
		return err
	}, `SELECT o.kind, o.id, o.diagram FROM {schema}.objects o, {rows} WHERE o.kind = n.kind AND o.id = n.id`)
}

func refRows(refs []record.Ref) [][]any {
	return rowsOf(refs, func(r record.Ref) []any { return []any{string(r.Kind), r.ID} })
}

// number assigns ids to a new diagram and to new objects. It makes another request
// only where clients have chosen ids that are next in turn.
func number(ctx context.Context, tx Tx, s *record.Saving, found *state) error {
	if s.Diagram == 0 {
		s.Diagram = found.nextDiagram
		found.nextDiagram++
	}
	first := found.nextObject
	next, err := s.Assign(first, func(from, to int64) (ids []int64, err error) {
		if from == first {
			return found.taken, nil
		}
		var b Batch
		b.Query(collect(&ids, scanID), `SELECT id FROM {schema}.objects
			WHERE kind IN ('line', 'image', 'text', 'polyline') AND id >= $1 AND id < $2`, from, to)
		err = tx.Send(ctx, &b, false)
		return ids, err
	})
	found.nextObject = next
	return err
}

// queueSavings writes diagrams whose objects are checked and have ids.
func queueSavings(b *Batch, savings []record.Saving) {
	var gone []record.Ref
	var objects [][]any
	for _, s := range savings {
		gone = append(gone, s.Gone...)
		for _, r := range s.Rows {
			var variable any // NULL
			if r.Variable != "" {
				variable = r.Variable
			}
			objects = append(objects, []any{string(r.Kind), r.ID, s.Diagram, variable, string(r.Members)})
		}
	}
	b.upsert("{schema}.diagrams", "id", "id bigint, head json",
		rowsOf(savings, func(s record.Saving) []any { return []any{s.Diagram, string(s.Head)} }))
	b.list("kind text, id bigint", refRows(gone), nil,
		`DELETE FROM {schema}.objects WHERE (kind, id) IN (SELECT n.kind, n.id FROM {rows})`)
	b.upsert("{schema}.objects", "kind, id", "kind text, id bigint, diagram bigint, variable text, members json", objects)
}
