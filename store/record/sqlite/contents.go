package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"tsmon/store/record"
	"tsmon/store/sqlitefile"
)

const (
	selectVariables     = `SELECT ` + record.VariableColumns + ` FROM variables WHERE tenant = ? ORDER BY position, key`
	selectDiagrams      = `SELECT id, head FROM diagrams WHERE tenant = ? ORDER BY id`
	selectObjects       = `SELECT diagram, kind, id, members FROM objects WHERE tenant = ? ORDER BY diagram, kind, id`
	selectMenus         = `SELECT id, name, icon, path, status FROM menus WHERE tenant = ? ORDER BY id`
	selectPermissions   = `SELECT id, menu, profile, user, status FROM permissions WHERE tenant = ?`
	selectNotifications = `SELECT kind, brand, version, entries FROM notifications WHERE tenant = ?`
	selectCharts        = `SELECT chart FROM charts WHERE tenant = ? ORDER BY position, key`
)

// Variables implements record.Variables.
func (c contents) Variables(ctx context.Context, schema string) ([]record.Variable, error) {
	return listOf(ctx, c.database, "read variables", schema, record.ScanVariable, selectVariables, schema)
}

// VariablesByField implements record.Variables.
func (c contents) VariablesByField(ctx context.Context, schema string, fields []record.Field) (map[record.Field]record.ID, error) {
	found := make(map[record.Field]record.ID, len(fields))
	err := c.read(ctx, "find variables", schema, func(ctx context.Context, tx *sql.Tx) error {
		find, err := tx.PrepareContext(ctx, `SELECT min(key), min(is_integer) FROM variables
			WHERE tenant = ? AND measurement = ? AND field = ? AND measurement <> '' HAVING count(*) = 1`)
		if err != nil {
			return err
		}
		defer find.Close()
		for _, f := range fields {
			var id record.ID
			err := find.QueryRowContext(ctx, schema, f.Measurement, f.Field).Scan(&id.Text, &id.Integer)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return err
			}
			found[f] = id
		}
		return nil
	})
	return found, err
}

// Menus implements record.Access.
func (c contents) Menus(ctx context.Context, schema string) ([]record.Menu, error) {
	return listOf(ctx, c.database, "read menus", schema, record.ScanMenu, selectMenus, schema)
}

// Permissions implements record.Access.
func (c contents) Permissions(ctx context.Context, schema string, user, profile int64) ([]record.Permission, error) {
	return listOf(ctx, c.database, "read permissions", schema, record.ScanPermission,
		selectPermissions+` AND (user = ? OR profile = ?) ORDER BY id`, schema, user, profile)
}

// NotifyConfig implements record.Configuration.
func (c contents) NotifyConfig(ctx context.Context, schema string) (record.NotifyConfig, error) {
	rows, err := listOf(ctx, c.database, "read notification configuration", schema, record.ScanNotification, selectNotifications, schema)
	if err != nil {
		return nil, err
	}
	return record.NotifyConfigOf(rows)
}

// Charts implements record.Configuration.
func (c contents) Charts(ctx context.Context, schema string) ([]record.Chart, error) {
	return listOf(ctx, c.database, "read charts", schema, record.ScanChart, selectCharts, schema)
}

// Export implements record.Contents.
func (c contents) Export(ctx context.Context, schema string) (all record.Content, err error) {
	err = c.read(ctx, "export", schema, func(ctx context.Context, tx *sql.Tx) (err error) {
		all, err = export(ctx, tx, schema)
		return err
	})
	return all, err
}

func export(ctx context.Context, tx *sql.Tx, schema string) (c record.Content, err error) {
	if c.Variables, err = list(ctx, tx, record.ScanVariable, selectVariables, schema); err != nil {
		return c, err
	}
	if c.Diagrams, err = list(ctx, tx, record.ScanDiagram, selectDiagrams, schema); err != nil {
		return c, err
	}
	objects, err := list(ctx, tx, record.ScanPlaced, selectObjects, schema)
	if err != nil {
		return c, err
	}
	record.Place(c.Diagrams, objects)
	if c.Menus, err = list(ctx, tx, record.ScanMenu, selectMenus, schema); err != nil {
		return c, err
	}
	if c.Permissions, err = list(ctx, tx, record.ScanPermission, selectPermissions+` ORDER BY id`, schema); err != nil {
		return c, err
	}
	notifications, err := list(ctx, tx, record.ScanNotification, selectNotifications, schema)
	if err != nil {
		return c, err
	}
	if c.Notifications, err = record.NotifyConfigOf(notifications); err != nil {
		return c, err
	}
	c.Charts, err = list(ctx, tx, record.ScanChart, selectCharts, schema)
	return c, err
}

// Import implements record.Contents.
func (c contents) Import(ctx context.Context, schema string, content record.Content) error {
	if err := content.Validate(); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return c.write(ctx, "import", schema, func(ctx context.Context, tx *sql.Tx) error {
		for _, put := range []func(context.Context, *sql.Tx, string, record.Content) error{
			putVariables, putDiagrams, putMenus, putPermissions, putNotifications, putCharts,
		} {
			if err := put(ctx, tx, schema, content); err != nil {
				return err
			}
		}
		return nil
	})
}

// positioner returns a function that returns the position of one element of a list
// after another among those of a tenant's table.
func positioner[T interface{ Key() string }](ctx context.Context, tx *sql.Tx, schema, table string, list []T) (func() int64, error) {
	have := map[string]int64{}
	err := sqlitefile.Query(ctx, tx, func(r sqlitefile.Row) error {
		var key string
		var position int64
		err := r.Scan(&key, &position)
		have[key] = position
		return err
	}, `SELECT key, position FROM `+table+` WHERE tenant = ?`, schema)
	positions := record.Positions(have, list, T.Key)
	return func() (first int64) {
		first, positions = positions[0], positions[1:]
		return first
	}, err
}

func putVariables(ctx context.Context, tx *sql.Tx, schema string, c record.Content) error {
	position, err := positioner(ctx, tx, schema, "variables", c.Variables)
	if err != nil {
		return err
	}
	return each(ctx, tx, c.Variables, func(v record.Variable) []any {
		f := v.Field()
		return []any{schema, v.ID.Text, v.ID.Integer, position(), v.Name, v.Unit, v.Type, v.Calc, v.Equation, v.Status, string(v.VarsTs), f.Measurement, f.Field}
	}, `INSERT OR REPLACE INTO variables
		(tenant, key, is_integer, position, name, unit, type, calc, equation, status, vars_ts, measurement, field)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
}

// putDiagrams removes the objects of all diagrams that are imported before it
// adds any, so that an object may move between them.
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
	position, err := positioner(ctx, tx, schema, "charts", c.Charts)
	if err != nil {
		return err
	}
	return each(ctx, tx, c.Charts, func(chart record.Chart) []any {
		return []any{schema, chart.ID.Text, position(), string(chart.JSON)}
	}, `INSERT OR REPLACE INTO charts (tenant, key, position, chart) VALUES (?, ?, ?, ?)`)
}
