package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"tsmon/store/record"
	"tsmon/store/sqlitefile"
)

// Diagram implements record.Diagrams.
func (c contents) Diagram(ctx context.Context, schema string, id int64) (d record.Diagram, err error) {
	err = c.read(ctx, "read diagram", schema, func(ctx context.Context, tx *sql.Tx) (err error) {
		d, err = record.ScanDiagram(tx.QueryRowContext(ctx, `SELECT id, head FROM diagrams WHERE tenant = ? AND id = ?`, schema, id))
		if err != nil {
			return err
		}
		return sqlitefile.Query(ctx, tx, func(r sqlitefile.Row) error {
			p, err := record.ScanBound(r)
			d.Add(p.Kind, p.Object)
			return err
		}, `SELECT o.kind, o.id, o.members, v.name, v.unit, v.vars_ts
			FROM objects o LEFT JOIN variables v ON v.tenant = o.tenant AND v.key = o.variable
			WHERE o.tenant = ? AND o.diagram = ? ORDER BY o.kind, o.id`, schema, id)
	})
	if err != nil {
		return record.Diagram{}, err
	}
	return d, nil
}

// SaveDiagram implements record.Diagrams.
func (c contents) SaveDiagram(ctx context.Context, schema string, d record.Diagram, deleted record.Deleted) (int64, error) {
	saving, err := record.Prepare(d, deleted)
	if err != nil {
		return 0, fmt.Errorf("save diagram: %w", err)
	}
	err = c.write(ctx, "save diagram", schema, func(ctx context.Context, tx *sql.Tx) error {
		if err := check(ctx, tx, schema, saving); err != nil {
			return err
		}
		if err := number(ctx, tx, schema, &saving); err != nil {
			return err
		}
		return save(ctx, tx, schema, saving)
	})
	if err != nil {
		return 0, err
	}
	return saving.Diagram, nil
}

// check reports whether the diagram exists and the objects are its own.
func check(ctx context.Context, tx *sql.Tx, schema string, s record.Saving) error {
	if s.Diagram != 0 {
		err := tx.QueryRowContext(ctx, `SELECT 1 FROM diagrams WHERE tenant = ? AND id = ?`, schema, s.Diagram).Scan(new(int))
		if err != nil {
			return err
		}
	}
	return checkOwners(ctx, tx, schema, s)
}

func checkOwners(ctx context.Context, tx *sql.Tx, schema string, s record.Saving) error {
	find, err := tx.PrepareContext(ctx, `SELECT diagram FROM objects WHERE tenant = ? AND kind = ? AND id = ?`)
	if err != nil {
		return err
	}
	defer find.Close()
	owners := map[record.Ref]int64{}
	for _, ref := range s.Refs() {
		var owner int64
		err := find.QueryRowContext(ctx, schema, ref.Kind, ref.ID).Scan(&owner)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		owners[ref] = owner
	}
	return s.Check(owners)
}

// number assigns ids to a new diagram and to new objects.
func number(ctx context.Context, tx *sql.Tx, schema string, s *record.Saving) error {
	var diagram, object int64
	err := tx.QueryRowContext(ctx, `SELECT next_diagram, next_object FROM tenants WHERE tenant = ?`, schema).Scan(&diagram, &object)
	if err != nil {
		return err
	}
	if s.Diagram == 0 {
		s.Diagram = diagram
		diagram++
	}
	object, err = s.Assign(object, func(from, to int64) ([]int64, error) {
		return list(ctx, tx, func(r record.Scanner) (id int64, err error) {
			err = r.Scan(&id)
			return id, err
		}, `SELECT id FROM objects WHERE tenant = ?1 AND kind IN ('line', 'image', 'text', 'polyline') AND id >= ?2 AND id < ?3`, schema, from, to)
	})
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE tenants SET next_diagram = ?, next_object = ? WHERE tenant = ?`, diagram, object, schema)
	return err
}

// save writes a diagram whose objects are checked and have ids.
func save(ctx context.Context, tx *sql.Tx, schema string, s record.Saving) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO diagrams (tenant, id, head) VALUES (?, ?, ?)
		ON CONFLICT (tenant, id) DO UPDATE SET head = excluded.head`, schema, s.Diagram, string(s.Head))
	if err != nil {
		return err
	}
	err = each(ctx, tx, s.Gone, func(g record.Ref) []any { return []any{schema, g.Kind, g.ID} },
		`DELETE FROM objects WHERE tenant = ? AND kind = ? AND id = ?`)
	if err != nil {
		return err
	}
	return each(ctx, tx, s.Rows, func(r record.Row) []any {
		return []any{schema, r.Kind, r.ID, s.Diagram, sql.Null[string]{V: r.Variable, Valid: r.Variable != ""}, string(r.Members)}
	}, `INSERT INTO objects (tenant, kind, id, diagram, variable, members) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant, kind, id) DO UPDATE SET variable = excluded.variable, members = excluded.members`)
}
