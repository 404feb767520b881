package sqlite

import (
	"context"
	"database/sql"

	"tsmon/store/record"
)

func putVariables(ctx context.Context, tx *sql.Tx, schema string, c record.Content) error {
	position := 0
	return each(ctx, tx, c.Variables, func(v record.Variable) []any {
		position++
		f := v.Field()
		return []any{schema, v.ID.Text, v.ID.Integer, position, v.Name, v.Unit, v.Type, v.Calc, v.Equation, v.Status, string(v.VarsTs), f.Measurement, f.Field}
	}, `INSERT OR REPLACE INTO variables
		(tenant, key, is_integer, position, name, unit, type, calc, equation, status, vars_ts, measurement, field)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
}

// putDiagrams takes all objects off the diagrams that are named before it puts
// any back, so that an object may move between them.
func putDiagrams(ctx context.Context, tx *sql.Tx, schema string, c record.Content) error {
	savings, err := c.Savings()
	if err != nil {
		return err
	}
	err = each(ctx, tx, savings, func(s record.Saving) []any { return []any{schema, s.Diagram} },
		`DELETE FROM objects WHERE tenant = ? AND diagram = ?`)
	if err != nil {
		return err
	}
	last := int64(0)
	for _, s := range savings {
		if err := checkOwners(ctx, tx, schema, s); err != nil {
			return err
		}
		if err := save(ctx, tx, schema, s); err != nil {
			return err
		}
		last = max(last, s.Diagram)
	}
	_, err = tx.ExecContext(ctx, `UPDATE tenants SET next_diagram = max(next_diagram, ? + 1) WHERE tenant = ?`, last, schema)
	return err
}

func putMenus(ctx context.Context, tx *sql.Tx, schema string, c record.Content) error {
	return each(ctx, tx, c.Menus, func(m record.Menu) []any {
		return []any{schema, m.ID, m.Name, m.Icon, m.Path, m.Status}
	}, `INSERT INTO menus (tenant, id, name, icon, path, status) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant, id) DO UPDATE SET name = excluded.name, icon = excluded.icon, path = excluded.path, status = excluded.status`)
}

func putPermissions(ctx context.Context, tx *sql.Tx, schema string, c record.Content) error {
	return each(ctx, tx, c.Permissions, func(p record.Permission) []any {
		return []any{schema, p.ID, p.Menu, p.Profile, p.User, p.Status}
	}, `INSERT OR REPLACE INTO permissions (tenant, id, menu, profile, user, status) VALUES (?, ?, ?, ?, ?, ?)`)
}

func putNotifications(ctx context.Context, tx *sql.Tx, schema string, c record.Content) error {
	list, err := c.Notifications.Rows()
	if err != nil {
		return err
	}
	return each(ctx, tx, list, func(r record.NotifyRow) []any {
		return []any{schema, r.Kind, r.Brand, r.Version, string(r.Entries)}
	}, `INSERT OR REPLACE INTO notifications (tenant, kind, brand, version, entries) VALUES (?, ?, ?, ?, ?)`)
}

func putCharts(ctx context.Context, tx *sql.Tx, schema string, c record.Content) error {
	position := 0
	return each(ctx, tx, c.Charts, func(chart record.Chart) []any {
		position++
		return []any{schema, chart.ID.Text, position, string(chart.JSON)}
	}, `INSERT OR REPLACE INTO charts (tenant, key, position, chart) VALUES (?, ?, ?, ?)`)
}
