package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"tsmon/store/record"
)

// selectDiagram returns the head of a diagram as the first row, then its objects.
const selectDiagram = `
	SELECT '' AS kind, version, head, saved_by, NULL, NULL, saved_at FROM {schema}.diagrams WHERE id = $1
	UNION ALL
	SELECT o.kind, o.id, o.members, v.name, v.unit, v.vars_ts, NULL
	FROM {schema}.objects o LEFT JOIN {schema}.variables v ON v.key = o.variable
	WHERE o.diagram = $1
	ORDER BY 1, 2`

func (s contents) Diagram(ctx context.Context, schema string, id int64) (d record.Diagram, err error) {
	found := false
	var at time.Time
	var b Batch
	b.Query(func(r Scanner) error {
		var p placed
		var name, unit *string
		var varsTs []byte
		err := r.Scan(&p.kind, &p.ID, (*[]byte)(&p.Members), &name, &unit, &varsTs, millis(&at))
		switch {
		case err != nil:
			return err
		case !found: // the first row is the diagram
			found = true
			d, err = headOf(id, p.Members, p.ID, *name, at)
			return err
		case name != nil:
			p.Variable = &record.Bound{Name: *name, Unit: unit, VarsTs: varsTs}
		}
		d.Add(p.kind, p.Object)
		return nil
	}, selectDiagram, id)
	if err := s.send(ctx, of(schema, "read diagram", Read), &b); err != nil {
		return record.Diagram{}, err
	}
	if !found {
		return d, fmt.Errorf("read diagram of %s: %w", schema, record.ErrNotFound)
	}
	return d, nil
}

// headOf returns a diagram without its objects.
func headOf(id int64, head []byte, version int64, by string, at time.Time) (d record.Diagram, err error) {
	err = json.Unmarshal(head, &d)
	d.ID, d.Version, d.SavedBy, d.SavedAt = id, version, by, at
	return d, err
}

// scanHead reads the id, head, version, saved_by and saved_at of a diagram.
func scanHead(r Scanner) (d record.Diagram, err error) {
	var id, version int64
	var head []byte
	var by string
	var at time.Time
	if err := r.Scan(&id, &head, &version, &by, millis(&at)); err != nil {
		return d, err
	}
	return headOf(id, head, version, by, at)
}

// millisOf returns the milliseconds of a time, NULL for the zero time.
func millisOf(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.UnixMilli())
}

// SaveDiagram makes two round trips.
func (s contents) SaveDiagram(ctx context.Context, schema string, d record.Diagram, deleted record.Deleted) (record.DiagramState, error) {
	saving, err := record.Prepare(d, deleted)
	if err != nil {
		return record.DiagramState{}, fmt.Errorf("save diagram: %w", err)
	}
	err = s.run(ctx, of(schema, "save diagram", Write), func(ctx context.Context, tx Tx) error {
		found, err := look(ctx, tx, saving)
		if err != nil {
			return err
		}
		if err := number(ctx, tx, &saving, &found); err != nil {
			return err
		}
		if err := saving.Follow(found.priors[saving.Diagram], false); err != nil {
			return err
		}
		var b Batch
		if err := queueSavings(&b, []record.Saving{saving}, found.priors); err != nil {
			return err
		}
		b.Exec(`UPDATE {schema}.counters SET next_diagram = $1, next_object = $2`, found.nextDiagram, found.nextObject)
		return tx.Send(ctx, &b, true)
	})
	if err != nil {
		return record.DiagramState{}, err
	}
	return saving.State, nil
}

// state is what a save or an import reads after locking the tenant.
type state struct {
	nextDiagram, nextObject int64
	owners                  map[record.Ref]int64
	taken                   []int64                   // ids in use from nextObject on
	priors                  map[int64]*record.Diagram // to be replaced
	variables, charts       map[string]int64          // positions by key, for an import
}

func newState() state {
	return state{
		owners: map[record.Ref]int64{}, priors: map[int64]*record.Diagram{},
		variables: map[string]int64{}, charts: map[string]int64{},
	}
}

// lockTenant locks the tenant until the end of the transaction.
const lockTenant = `SELECT next_diagram, next_object FROM {schema}.counters FOR UPDATE`

func queueLock(b *Batch, found *state) {
	b.Query(func(r Scanner) error { return r.Scan(&found.nextDiagram, &found.nextObject) }, lockTenant)
}

// look locks the tenant and reads what a save depends on, in one round trip.
func look(ctx context.Context, tx Tx, s record.Saving) (state, error) {
	found := newState()
	var b Batch
	queueLock(&b, &found)
	queuePriors(&b, &found, []record.Saving{s})
	queueOwners(&b, &found, s.Refs())
	b.Query(collect(&found.taken, scanID), `SELECT o.id FROM {schema}.counters c, {schema}.objects o
		WHERE o.kind IN ('line', 'image', 'text', 'polyline') AND o.id >= c.next_object AND o.id < c.next_object + $1`, s.New())
	if err := tx.Send(ctx, &b, false); err != nil {
		return state{}, err
	}
	if s.Diagram != 0 && found.priors[s.Diagram] == nil {
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

// queuePriors reads the diagrams that savings replace.
func queuePriors(b *Batch, found *state, savings []record.Saving) {
	rows := diagramRows(savings)
	b.list("diagram bigint", rows, func(r Scanner) error {
		d, err := scanHead(r)
		found.priors[d.ID] = &d
		return err
	}, `SELECT d.id, d.head, d.version, d.saved_by, d.saved_at FROM {schema}.diagrams d, {rows} WHERE d.id = n.diagram`)
	b.list("diagram bigint", rows, func(r Scanner) error {
		p, err := scanPlaced(r)
		if d := found.priors[p.diagram]; d != nil {
			d.Add(p.kind, p.Object)
		}
		return err
	}, `SELECT o.diagram, o.kind, o.id, o.members FROM {schema}.objects o, {rows} WHERE o.diagram = n.diagram ORDER BY o.diagram, o.kind, o.id`)
}

func diagramRows(savings []record.Saving) [][]any {
	return rowsOf(savings, func(s record.Saving) []any { return []any{s.Diagram} })
}

func refRows(refs []record.Ref) [][]any {
	return rowsOf(refs, func(r record.Ref) []any { return []any{string(r.Kind), r.ID} })
}

// number assigns ids to a new diagram and to new objects. It makes another request only if
// clients have taken so many of the next ids that the range read by look is too small.
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

// queueSavings writes checked diagrams with their ids, and stores the replaced states.
func queueSavings(b *Batch, savings []record.Saving, priors map[int64]*record.Diagram) error {
	var gone []record.Ref
	var objects, states, old [][]any
	for _, s := range savings {
		gone = append(gone, s.Gone...)
		for _, r := range s.Rows {
			var variable any // NULL
			if r.Variable != "" {
				variable = r.Variable
			}
			objects = append(objects, []any{string(r.Kind), r.ID, s.Diagram, variable, string(r.Members)})
		}
		if prior := priors[s.Diagram]; prior != nil && prior.Version != s.State.Version {
			state := *prior
			state.Version = 0 // which has a column of its own
			text, err := json.Marshal(state)
			if err != nil {
				return err
			}
			states = append(states, []any{prior.ID, prior.Version, prior.Title, prior.SavedBy, millisOf(prior.SavedAt), string(text)})
			old = append(old, []any{prior.ID, s.State.Version - record.KeptStates})
		}
	}
	b.upsert("{schema}.diagrams", "id", "id bigint, head json, version bigint, saved_by text, saved_at bigint",
		rowsOf(savings, func(s record.Saving) []any {
			return []any{s.Diagram, string(s.Head), s.State.Version, s.State.SavedBy, millisOf(s.State.SavedAt)}
		}))
	b.list("kind text, id bigint", refRows(gone), nil,
		`DELETE FROM {schema}.objects WHERE (kind, id) IN (SELECT n.kind, n.id FROM {rows})`)
	b.upsert("{schema}.objects", "kind, id", "kind text, id bigint, diagram bigint, variable text, members json", objects)
	b.upsert("{schema}.states", "diagram, version", "diagram bigint, version bigint, title text, saved_by text, saved_at bigint, state json", states)
	b.list("owner bigint, oldest bigint", old, nil,
		`DELETE FROM {schema}.states WHERE EXISTS (SELECT 1 FROM {rows} WHERE n.owner = diagram AND n.oldest >= version)`)
	return nil
}

func (s contents) DiagramStates(ctx context.Context, schema string) ([]record.DiagramState, error) {
	var all []record.DiagramState
	var b Batch
	b.Query(func(r Scanner) error {
		d, err := scanHead(r)
		all = append(all, d.State())
		return err
	}, `SELECT id, head, version, saved_by, saved_at FROM {schema}.diagrams`)
	b.Query(collect(&all, scan(func(d *record.DiagramState) []any {
		return []any{&d.Diagram, &d.Version, &d.Title, &d.SavedBy, millis(&d.SavedAt)}
	})), `SELECT diagram, version, title, saved_by, saved_at FROM {schema}.states`)
	err := s.send(ctx, of(schema, "list states of diagrams", Read), &b)
	slices.SortFunc(all, func(a, b record.DiagramState) int {
		return cmp.Or(cmp.Compare(a.Diagram, b.Diagram), cmp.Compare(b.Version, a.Version))
	})
	return all, err
}

func (s contents) DiagramState(ctx context.Context, schema string, id, version int64) (record.Diagram, error) {
	found, err := one(ctx, s.core, of(schema, "read state of diagram", Read), scanHead,
		`SELECT diagram, state, version, saved_by, saved_at FROM {schema}.states WHERE diagram = $1 AND version = $2`, id, version)
	if !errors.Is(err, record.ErrNotFound) {
		return found, err
	}
	present, presentErr := s.Diagram(ctx, schema, id)
	if presentErr != nil || present.Version != version {
		return record.Diagram{}, cmp.Or(presentErr, err)
	}
	for i := range present.Lines {
		present.Lines[i].Variable = nil
	}
	return present, nil
}
