package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"tsmon/store/record"
)

// Variables implements record.Variables.
func (s *Store) Variables(ctx context.Context, schema string) (list []record.Variable, err error) {
	err = s.read(ctx, "read variables", schema, func(ctx context.Context, tx *sql.Tx) (err error) {
		list, err = variables(ctx, tx, schema)
		return err
	})
	return list, err
}

func variables(ctx context.Context, tx *sql.Tx, schema string) ([]record.Variable, error) {
	var list []record.Variable
	err := rows(ctx, tx, func(r *sql.Rows) error {
		var v record.Variable
		err := r.Scan(&v.ID.Text, &v.ID.Integer, &v.Name, &v.Unit, &v.Type, &v.Calc, &v.Equation, &v.Status, (*[]byte)(&v.VarsTs))
		list = append(list, v)
		return err
	}, `SELECT key, is_integer, name, unit, type, calc, equation, status, vars_ts FROM variables WHERE tenant = ? ORDER BY position, key`, schema)
	return list, err
}

// VariablesByField implements record.Variables.
func (s *Store) VariablesByField(ctx context.Context, schema string, fields []record.Field) (map[record.Field]record.ID, error) {
	found := make(map[record.Field]record.ID, len(fields))
	err := s.read(ctx, "find variables", schema, func(ctx context.Context, tx *sql.Tx) error {
		find, err := tx.PrepareContext(ctx, `SELECT min(key), min(is_integer), count(*) FROM variables
			WHERE tenant = ? AND measurement = ? AND field = ? AND measurement <> ''`)
		if err != nil {
			return err
		}
		defer find.Close()
		for _, f := range fields {
			var key sql.Null[string]
			var integer sql.Null[bool]
			var n int
			if err := find.QueryRowContext(ctx, schema, f.Measurement, f.Field).Scan(&key, &integer, &n); err != nil {
				return err
			}
			if n == 1 {
				found[f] = record.ID{Text: key.V, Integer: integer.V}
			}
		}
		return nil
	})
	return found, err
}

// Menus implements record.Access.
func (s *Store) Menus(ctx context.Context, schema string) (list []record.Menu, err error) {
	err = s.read(ctx, "read menus", schema, func(ctx context.Context, tx *sql.Tx) (err error) {
		list, err = menus(ctx, tx, schema)
		return err
	})
	return list, err
}

func menus(ctx context.Context, tx *sql.Tx, schema string) ([]record.Menu, error) {
	var list []record.Menu
	err := rows(ctx, tx, func(r *sql.Rows) error {
		var m record.Menu
		err := r.Scan(&m.ID, &m.Name, &m.Icon, &m.Path, &m.Status)
		list = append(list, m)
		return err
	}, `SELECT id, name, icon, path, status FROM menus WHERE tenant = ? ORDER BY id`, schema)
	return list, err
}

// Permissions implements record.Access.
func (s *Store) Permissions(ctx context.Context, schema string, user, profile int64) (list []record.Permission, err error) {
	err = s.read(ctx, "read permissions", schema, func(ctx context.Context, tx *sql.Tx) (err error) {
		list, err = permissions(ctx, tx, ` AND (user = ? OR profile = ?)`, schema, user, profile)
		return err
	})
	return list, err
}

func permissions(ctx context.Context, tx *sql.Tx, condition string, args ...any) ([]record.Permission, error) {
	var list []record.Permission
	err := rows(ctx, tx, func(r *sql.Rows) error {
		var p record.Permission
		err := r.Scan(&p.ID, &p.Menu, &p.Profile, &p.User, &p.Status)
		list = append(list, p)
		return err
	}, `SELECT id, menu, profile, user, status FROM permissions WHERE tenant = ?`+condition+` ORDER BY id`, args...)
	return list, err
}

// NotifyConfig implements record.Configuration.
func (s *Store) NotifyConfig(ctx context.Context, schema string) (c record.NotifyConfig, err error) {
	err = s.read(ctx, "read notification configuration", schema, func(ctx context.Context, tx *sql.Tx) (err error) {
		c, err = notifications(ctx, tx, schema)
		return err
	})
	return c, err
}

func notifications(ctx context.Context, tx *sql.Tx, schema string) (record.NotifyConfig, error) {
	c := record.NotifyConfig{}
	err := rows(ctx, tx, func(r *sql.Rows) error {
		var n record.NotifyRow
		if err := r.Scan(&n.Kind, &n.Brand, &n.Version, (*[]byte)(&n.Entries)); err != nil {
			return err
		}
		return c.Add(n)
	}, `SELECT kind, brand, version, entries FROM notifications WHERE tenant = ?`, schema)
	return c, err
}

// Charts implements record.Configuration.
func (s *Store) Charts(ctx context.Context, schema string) (list []record.Chart, err error) {
	err = s.read(ctx, "read charts", schema, func(ctx context.Context, tx *sql.Tx) (err error) {
		list, err = charts(ctx, tx, schema)
		return err
	})
	return list, err
}

func charts(ctx context.Context, tx *sql.Tx, schema string) ([]record.Chart, error) {
	var list []record.Chart
	err := rows(ctx, tx, func(r *sql.Rows) error {
		var data []byte
		if err := r.Scan(&data); err != nil {
			return err
		}
		var c record.Chart
		err := c.UnmarshalJSON(data)
		list = append(list, c)
		return err
	}, `SELECT chart FROM charts WHERE tenant = ? ORDER BY position, key`, schema)
	return list, err
}

// Export implements record.Contents.
func (s *Store) Export(ctx context.Context, schema string) (c record.Content, err error) {
	err = s.read(ctx, "export", schema, func(ctx context.Context, tx *sql.Tx) (err error) {
		c, err = export(ctx, tx, schema)
		return err
	})
	return c, err
}

func export(ctx context.Context, tx *sql.Tx, schema string) (c record.Content, err error) {
	if c.Variables, err = variables(ctx, tx, schema); err != nil {
		return c, err
	}
	if c.Diagrams, err = diagrams(ctx, tx, schema); err != nil {
		return c, err
	}
	if c.Menus, err = menus(ctx, tx, schema); err != nil {
		return c, err
	}
	if c.Permissions, err = permissions(ctx, tx, "", schema); err != nil {
		return c, err
	}
	if c.Notifications, err = notifications(ctx, tx, schema); err != nil {
		return c, err
	}
	c.Charts, err = charts(ctx, tx, schema)
	return c, err
}

// diagrams returns all diagrams; their lines without variables, which are
// exported on their own.
func diagrams(ctx context.Context, tx *sql.Tx, schema string) ([]record.Diagram, error) {
	var list []record.Diagram
	index := map[int64]int{}
	err := rows(ctx, tx, func(r *sql.Rows) error {
		var d record.Diagram
		var id int64
		var head []byte
		if err := r.Scan(&id, &head); err != nil {
			return err
		}
		err := json.Unmarshal(head, &d)
		d.ID, index[id] = id, len(list)
		list = append(list, d)
		return err
	}, `SELECT id, head FROM diagrams WHERE tenant = ? ORDER BY id`, schema)
	if err != nil {
		return nil, err
	}
	return list, rows(ctx, tx, func(r *sql.Rows) error {
		var diagram int64
		var kind record.Kind
		var o record.Object
		err := r.Scan(&diagram, &kind, &o.ID, (*[]byte)(&o.Members))
		list[index[diagram]].Add(kind, o)
		return err
	}, `SELECT diagram, kind, id, members FROM objects WHERE tenant = ? ORDER BY diagram, kind, id`, schema)
}

// Import implements record.Contents.
func (s *Store) Import(ctx context.Context, schema string, c record.Content) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return s.write(ctx, "import", schema, func(ctx context.Context, tx *sql.Tx) error {
		for _, put := range []func(context.Context, *sql.Tx, string, record.Content) error{
			putVariables, putDiagrams, putMenus, putPermissions, putNotifications, putCharts,
		} {
			if err := put(ctx, tx, schema, c); err != nil {
				return err
			}
		}
		return nil
	})
}
