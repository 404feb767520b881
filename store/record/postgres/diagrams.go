package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tsmon/store/record"
)

// selectDiagram returns the head of a diagram as the first row, then its objects.
const selectDiagram = `
	SELECT '' COLLATE "C", id, head, NULL::text, NULL::text, NULL::json FROM {schema}.diagrams WHERE id = $1
	UNION ALL
	SELECT o.kind, o.id, o.members, v.name, v.unit, v.vars_ts
	FROM {schema}.objects o LEFT JOIN {schema}.variables v ON v.key = o.variable
	WHERE o.diagram = $1
	ORDER BY 1, 2`

// Diagram implements record.Diagrams.
func (s contents) Diagram(ctx context.Context, schema string, id int64) (record.Diagram, error) {
	var d record.Diagram
	err := s.of(ctx, "read diagram", schema, func(ctx context.Context, c *pgxpool.Conn, in in) error {
		rows, err := c.Query(ctx, in.sql(selectDiagram), id)
		if err != nil {
			return err
		}
		d, err = collectDiagram(rows)
		return err
	})
	return d, err
}

func collectDiagram(rows pgx.Rows) (d record.Diagram, err error) {
	placed, err := pgx.CollectRows(rows, rowTo(record.ScanBound))
	if err != nil {
		return d, err
	}
	if len(placed) == 0 {
		return d, record.ErrNotFound
	}
	if err := json.Unmarshal(placed[0].Members, &d); err != nil {
		return record.Diagram{}, err
	}
	d.ID = placed[0].ID
	for _, p := range placed[1:] {
		d.Add(p.Kind, p.Object)
	}
	return d, nil
}

// SaveDiagram implements record.Diagrams.
func (s contents) SaveDiagram(ctx context.Context, schema string, d record.Diagram, deleted record.Deleted) (int64, error) {
	saving, err := record.Prepare(d, deleted)
	if err != nil {
		return 0, fmt.Errorf("save diagram: %w", err)
	}
	err = s.of(ctx, "save diagram", schema, func(ctx context.Context, c *pgxpool.Conn, in in) error {
		found, err := look(ctx, c, in, saving)
		if err != nil {
			return err
		}
		if err := number(ctx, c, in, &saving, &found); err != nil {
			return err
		}
		var b pgx.Batch
		queueSaving(&b, in, saving)
		b.Queue(in.sql(`UPDATE {schema}.counters SET next_diagram = $1, next_object = $2`), found.nextDiagram, found.nextObject)
		b.Queue(`COMMIT`)
		return c.SendBatch(ctx, &b).Close()
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

// lock begins a transaction that locks the tenant. The timeout releases the lock if
// this process disappears.
func lock(b *pgx.Batch, in in, found *state) {
	b.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
	b.Queue(`SET LOCAL idle_in_transaction_session_timeout = '10s'`)
	b.Queue(in.sql(`SELECT next_diagram, next_object FROM {schema}.counters FOR UPDATE`)).QueryRow(func(row pgx.Row) error {
		return row.Scan(&found.nextDiagram, &found.nextObject)
	})
}

// look locks the tenant and reads what a save depends on, in one round trip.
func look(ctx context.Context, c *pgxpool.Conn, in in, s record.Saving) (state, error) {
	found := state{owners: map[record.Ref]int64{}}
	var b pgx.Batch
	lock(&b, in, &found)
	there := s.Diagram == 0
	if !there {
		b.Queue(in.sql(`SELECT EXISTS (SELECT FROM {schema}.diagrams WHERE id = $1)`), s.Diagram).QueryRow(func(row pgx.Row) error {
			return row.Scan(&there)
		})
	}
	queueOwners(&b, in, &found, s.Refs(), nil)
	b.Queue(in.sql(`SELECT o.id FROM {schema}.counters c, {schema}.objects o
		WHERE o.id >= c.next_object AND o.id < c.next_object + $1`), s.New()).Query(func(rows pgx.Rows) (err error) {
		found.taken, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	if err := c.SendBatch(ctx, &b).Close(); err != nil {
		return state{}, err
	}
	if !there {
		return state{}, record.ErrNotFound
	}
	return found, s.Check(found.owners)
}

// queueOwners reads the diagrams that own objects, except some.
func queueOwners(b *pgx.Batch, in in, found *state, refs []record.Ref, except []int64) {
	kinds, ids := make([]string, len(refs)), make([]int64, len(refs))
	for i, r := range refs {
		kinds[i], ids[i] = string(r.Kind), r.ID
	}
	b.Queue(in.sql(`SELECT o.kind, o.id, o.diagram
		FROM unnest($1::text[], $2::bigint[]) AS r (kind, id) JOIN {schema}.objects o ON o.kind = r.kind AND o.id = r.id
		WHERE $3::bigint[] IS NULL OR o.diagram <> ALL ($3::bigint[])`), kinds, ids, except).Query(func(rows pgx.Rows) error {
		var ref record.Ref
		var owner int64
		_, err := pgx.ForEachRow(rows, []any{&ref.Kind, &ref.ID, &owner}, func() error {
			found.owners[ref] = owner
			return nil
		})
		return err
	})
}

// number assigns ids to a new diagram and to new objects. It makes another request
// only where clients have chosen ids that are next in turn.
func number(ctx context.Context, c *pgxpool.Conn, in in, s *record.Saving, found *state) error {
	if s.Diagram == 0 {
		s.Diagram = found.nextDiagram
		found.nextDiagram++
	}
	first := found.nextObject
	next, err := s.Assign(first, func(from, to int64) ([]int64, error) {
		if from == first {
			return found.taken, nil
		}
		rows, err := c.Query(ctx, in.sql(`SELECT id FROM {schema}.objects WHERE id >= $1 AND id < $2`), from, to)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[int64])
	})
	found.nextObject = next
	return err
}

// queueSaving writes a diagram whose objects are checked and have ids.
func queueSaving(b *pgx.Batch, in in, s record.Saving) {
	b.Queue(in.sql(`INSERT INTO {schema}.diagrams (id, head) VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET head = excluded.head`), s.Diagram, string(s.Head))
	if len(s.Gone) > 0 {
		kinds, ids := make([]string, len(s.Gone)), make([]int64, len(s.Gone))
		for i, r := range s.Gone {
			kinds[i], ids[i] = string(r.Kind), r.ID
		}
		b.Queue(in.sql(`DELETE FROM {schema}.objects o USING unnest($1::text[], $2::bigint[]) AS r (kind, id)
			WHERE o.kind = r.kind AND o.id = r.id`), kinds, ids)
	}
	if len(s.Rows) > 0 {
		queueRows(b, in, s)
	}
}

func queueRows(b *pgx.Batch, in in, s record.Saving) {
	n := len(s.Rows)
	kinds, ids, variables, members := make([]string, n), make([]int64, n), make([]string, n), make([]string, n)
	for i, r := range s.Rows {
		kinds[i], ids[i], variables[i], members[i] = string(r.Kind), r.ID, r.Variable, string(r.Members)
	}
	b.Queue(in.sql(`INSERT INTO {schema}.objects (kind, id, diagram, variable, members)
		SELECT r.kind, r.id, $1, nullif(r.variable, ''), r.members::json
		FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[]) AS r (kind, id, variable, members)
		ON CONFLICT (kind, id) DO UPDATE SET variable = excluded.variable, members = excluded.members`),
		s.Diagram, kinds, ids, variables, members)
}
