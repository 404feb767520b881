package sqlstore

import (
	"context"
	"fmt"

	"tsmon/store/record"
)

const (
	selectVariables     = `SELECT key, is_integer, name, unit, type, calc, equation, status, vars_ts FROM {schema}.variables ORDER BY position, key`
	selectDiagrams      = `SELECT id, head, 0, '', NULL FROM {schema}.diagrams ORDER BY id` // without their states
	selectObjects       = `SELECT diagram, kind, id, members FROM {schema}.objects ORDER BY diagram, kind, id`
	selectMenus         = `SELECT id, name, icon, path, status FROM {schema}.menus ORDER BY id`
	selectPermissions   = `SELECT id, menu, profile, user_id, status FROM {schema}.permissions`
	selectNotifications = `SELECT kind, brand, version, entries FROM {schema}.notifications`
	selectCharts        = `SELECT chart FROM {schema}.charts ORDER BY position, key`
)

var (
	scanVariable = scan(func(v *record.Variable) []any {
		return []any{&v.ID.Text, &v.ID.Integer, &v.Name, &v.Unit, &v.Type, &v.Calc, &v.Equation, &v.Status, (*[]byte)(&v.VarsTs)}
	})
	scanMenu = scan(func(m *record.Menu) []any {
		return []any{&m.ID, &m.Name, &m.Icon, &m.Path, &m.Status}
	})
	scanPermission = scan(func(p *record.Permission) []any {
		return []any{&p.ID, &p.Menu, &p.Profile, &p.User, &p.Status}
	})
	scanNotification = scan(func(n *record.NotifyRow) []any {
		return []any{&n.Kind, &n.Brand, &n.Version, (*[]byte)(&n.Entries)}
	})
	scanPlaced = scan(func(p *placed) []any {
		return []any{&p.diagram, &p.kind, &p.ID, (*[]byte)(&p.Members)}
	})
)

type placed struct {
	diagram int64
	kind    record.Kind
	record.Object
}

func scanChart(r Scanner) (c record.Chart, err error) {
	var data []byte
	if err := r.Scan(&data); err != nil {
		return c, err
	}
	return c, c.UnmarshalJSON(data)
}

func (s contents) Variables(ctx context.Context, schema string) ([]record.Variable, error) {
	return list(ctx, s.core, of(schema, "read variables", Read), scanVariable, selectVariables)
}

func (s contents) VariablesByField(ctx context.Context, schema string, fields []record.Field) (map[record.Field]record.ID, error) {
	var wanted []record.Field
	for _, f := range fields {
		if f.Measurement != "" && record.Storable(f.Measurement) && record.Storable(f.Field) {
			wanted = append(wanted, f)
		}
	}
	found := make(map[record.Field]record.ID, len(wanted))
	var b Batch
	b.list("measurement text, field text", rowsOf(wanted, func(f record.Field) []any { return []any{f.Measurement, f.Field} }), func(r Scanner) error {
		var f record.Field
		var id record.ID
		err := r.Scan(&f.Measurement, &f.Field, &id.Text, &id.Integer)
		found[f] = id
		return err
	}, `SELECT measurement, field, min(key), min(CASE WHEN is_integer THEN 1 ELSE 0 END) = 1 FROM {schema}.variables
		WHERE (measurement, field) IN (SELECT n.measurement, n.field FROM {rows})
		GROUP BY measurement, field HAVING count(*) = 1`)
	return found, s.send(ctx, of(schema, "find variables", Read), &b)
}

func (s contents) Menus(ctx context.Context, schema string) ([]record.Menu, error) {
	return list(ctx, s.core, of(schema, "read menus", Read), scanMenu, selectMenus)
}

func (s contents) Permissions(ctx context.Context, schema string, user, profile int64) ([]record.Permission, error) {
	return list(ctx, s.core, of(schema, "read permissions", Read), scanPermission,
		selectPermissions+` WHERE user_id = $1 OR profile = $2 ORDER BY id`, user, profile)
}

func (s contents) NotifyConfig(ctx context.Context, schema string) (record.NotifyConfig, error) {
	rows, err := list(ctx, s.core, of(schema, "read notification configuration", Read), scanNotification, selectNotifications)
	if err != nil {
		return nil, err
	}
	return record.NotifyConfigOf(rows)
}

func (s contents) Charts(ctx context.Context, schema string) ([]record.Chart, error) {
	return list(ctx, s.core, of(schema, "read charts", Read), scanChart, selectCharts)
}

// Export makes one round trip.
func (s contents) Export(ctx context.Context, schema string) (c record.Content, err error) {
	var b Batch
	var objects []placed
	var notifications []record.NotifyRow
	b.Query(collect(&c.Variables, scanVariable), selectVariables)
	b.Query(collect(&c.Diagrams, scanHead), selectDiagrams)
	b.Query(collect(&objects, scanPlaced), selectObjects)
	b.Query(collect(&c.Menus, scanMenu), selectMenus)
	b.Query(collect(&c.Permissions, scanPermission), selectPermissions+` ORDER BY id`)
	b.Query(collect(&notifications, scanNotification), selectNotifications)
	b.Query(collect(&c.Charts, scanChart), selectCharts)
	if err := s.send(ctx, of(schema, "export", Read), &b); err != nil {
		return record.Content{}, err
	}
	index := make(map[int64]int, len(c.Diagrams))
	for i, d := range c.Diagrams {
		index[d.ID] = i
	}
	for _, p := range objects {
		c.Diagrams[index[p.diagram]].Add(p.kind, p.Object)
	}
	c.Notifications, err = record.NotifyConfigOf(notifications)
	return c, err
}

// Import makes two round trips.
func (s contents) Import(ctx context.Context, schema string, c record.Content) error {
	savings, notifications, err := c.Prepare()
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return s.run(ctx, of(schema, "import", Write), func(ctx context.Context, tx Tx) error {
		found, err := prepareImport(ctx, tx, savings)
		if err != nil {
			return err
		}
		var b Batch
		variables := record.Positions(found.variables, c.Variables, record.Variable.Key)
		b.upsert("{schema}.variables", "key", "key text, is_integer boolean, position bigint, name text, unit text, type text, calc boolean, "+
			"equation text, status boolean, vars_ts json, measurement text, field text", rowsOf(c.Variables, func(v record.Variable) []any {
			f := v.Field()
			return []any{v.ID.Text, v.ID.Integer, variables[v.Key()], v.Name, v.Unit, v.Type, v.Calc,
				v.Equation, v.Status, string(v.VarsTs), f.Measurement, f.Field}
		}))
		if err := queueSavings(&b, savings, found.priors); err != nil {
			return err
		}
		b.upsert("{schema}.menus", "id", "id bigint, name text, icon text, path text, status boolean",
			rowsOf(c.Menus, func(m record.Menu) []any { return []any{m.ID, m.Name, m.Icon, m.Path, m.Status} }))
		b.upsert("{schema}.permissions", "id", "id bigint, menu bigint, profile bigint, user_id bigint, status boolean",
			rowsOf(c.Permissions, func(p record.Permission) []any { return []any{p.ID, p.Menu, p.Profile, p.User, p.Status} }))
		b.upsert("{schema}.notifications", "kind, brand, version", "kind text, brand text, version text, entries json",
			rowsOf(notifications, func(n record.NotifyRow) []any { return []any{n.Kind, n.Brand, n.Version, string(n.Entries)} }))
		charts := record.Positions(found.charts, c.Charts, record.Chart.Key)
		b.upsert("{schema}.charts", "key", "key text, position bigint, chart json",
			rowsOf(c.Charts, func(c record.Chart) []any { return []any{c.ID.Text, charts[c.Key()], string(c.JSON)} }))
		return tx.Send(ctx, &b, true)
	})
}

// prepareImport locks the tenant, reads what an import depends on, and removes the objects
// of the imported diagrams, so that an object may move between them. It returns a
// *record.ConflictError if an object belongs to another diagram.
func prepareImport(ctx context.Context, tx Tx, savings []record.Saving) (state, error) {
	found := newState()
	var refs []record.Ref
	last := int64(0)
	for _, s := range savings {
		refs = append(refs, s.Refs()...)
		last = max(last, s.Diagram)
	}
	var b Batch
	queueLock(&b, &found)
	b.Exec(`UPDATE {schema}.counters SET next_diagram = $1 WHERE next_diagram < $1`, last+1)
	queuePriors(&b, &found, savings)
	b.list("id bigint", diagramRows(savings), nil, `DELETE FROM {schema}.objects WHERE diagram IN (SELECT n.id FROM {rows})`)
	queueOwners(&b, &found, refs)
	queueNumbers(&b, found.variables, `SELECT key, position FROM {schema}.variables`)
	queueNumbers(&b, found.charts, `SELECT key, position FROM {schema}.charts`)
	if err := tx.Send(ctx, &b, false); err != nil {
		return state{}, err
	}
	for i := range savings {
		s := &savings[i]
		if err := s.Check(found.owners); err != nil {
			return state{}, err
		}
		s.State = record.DiagramState{Diagram: s.Diagram, Title: s.State.Title}
		if err := s.Follow(found.priors[s.Diagram], true); err != nil {
			return state{}, err
		}
	}
	return found, nil
}
