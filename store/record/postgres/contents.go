package postgres

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tsmon/store/record"
)

const (
	selectVariables = `SELECT key, is_integer, name, unit, type, calc, equation, status, vars_ts
		FROM {schema}.variables ORDER BY position, key`
	selectDiagrams      = `SELECT id, head FROM {schema}.diagrams ORDER BY id`
	selectObjects       = `SELECT diagram, kind, id, members FROM {schema}.objects ORDER BY diagram, kind, id`
	selectMenus         = `SELECT id, name, icon, path, status FROM {schema}.menus ORDER BY id`
	selectPermissions   = `SELECT id, menu, profile, user_id, status FROM {schema}.permissions`
	selectNotifications = `SELECT kind, brand, version, entries FROM {schema}.notifications`
	selectCharts        = `SELECT chart FROM {schema}.charts ORDER BY position, key`
)

func scanVariable(row pgx.CollectableRow) (v record.Variable, err error) {
	err = row.Scan(&v.ID.Text, &v.ID.Integer, &v.Name, &v.Unit, &v.Type, &v.Calc, &v.Equation, &v.Status, (*[]byte)(&v.VarsTs))
	return v, err
}

func scanMenu(row pgx.CollectableRow) (m record.Menu, err error) {
	err = row.Scan(&m.ID, &m.Name, &m.Icon, &m.Path, &m.Status)
	return m, err
}

func scanPermission(row pgx.CollectableRow) (p record.Permission, err error) {
	err = row.Scan(&p.ID, &p.Menu, &p.Profile, &p.User, &p.Status)
	return p, err
}

func scanNotification(row pgx.CollectableRow) (n record.NotifyRow, err error) {
	err = row.Scan(&n.Kind, &n.Brand, &n.Version, (*[]byte)(&n.Entries))
	return n, err
}

func scanChart(row pgx.CollectableRow) (c record.Chart, err error) {
	var data []byte
	if err := row.Scan(&data); err != nil {
		return c, err
	}
	return c, c.UnmarshalJSON(data)
}

func scanDiagram(row pgx.CollectableRow) (d record.Diagram, err error) {
	var id int64
	var head []byte
	if err := row.Scan(&id, &head); err != nil {
		return d, err
	}
	err = json.Unmarshal(head, &d)
	d.ID = id
	return d, err
}

// Variables implements record.Variables.
func (s *Store) Variables(ctx context.Context, schema string) ([]record.Variable, error) {
	return list(ctx, s, "read variables", schema, scanVariable, selectVariables)
}

// Menus implements record.Access.
func (s *Store) Menus(ctx context.Context, schema string) ([]record.Menu, error) {
	return list(ctx, s, "read menus", schema, scanMenu, selectMenus)
}

// Permissions implements record.Access.
func (s *Store) Permissions(ctx context.Context, schema string, user, profile int64) ([]record.Permission, error) {
	return list(ctx, s, "read permissions", schema, scanPermission,
		selectPermissions+` WHERE user_id = $1 OR profile = $2 ORDER BY id`, user, profile)
}

// Charts implements record.Configuration.
func (s *Store) Charts(ctx context.Context, schema string) ([]record.Chart, error) {
	return list(ctx, s, "read charts", schema, scanChart, selectCharts)
}

// NotifyConfig implements record.Configuration.
func (s *Store) NotifyConfig(ctx context.Context, schema string) (record.NotifyConfig, error) {
	rows, err := list(ctx, s, "read notification configuration", schema, scanNotification, selectNotifications)
	if err != nil {
		return nil, err
	}
	return notifyConfig(rows)
}

func notifyConfig(rows []record.NotifyRow) (record.NotifyConfig, error) {
	c := record.NotifyConfig{}
	for _, r := range rows {
		if err := c.Add(r); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// VariablesByField implements record.Variables. Fields that can't be stored are
// those of no variable.
func (s *Store) VariablesByField(ctx context.Context, schema string, fields []record.Field) (map[record.Field]record.ID, error) {
	var measurements, names []string
	for _, f := range fields {
		if f.Measurement != "" && record.Storable(f.Measurement) && record.Storable(f.Field) {
			measurements, names = append(measurements, f.Measurement), append(names, f.Field)
		}
	}
	type pair struct {
		field record.Field
		id    record.ID
	}
	pairs, err := list(ctx, s, "find variables", schema, func(row pgx.CollectableRow) (p pair, err error) {
		err = row.Scan(&p.field.Measurement, &p.field.Field, &p.id.Text, &p.id.Integer)
		return p, err
	}, `SELECT measurement, field, min(key), bool_and(is_integer) FROM {schema}.variables
		WHERE (measurement, field) IN (SELECT * FROM unnest($1::text[], $2::text[]))
		GROUP BY measurement, field HAVING count(*) = 1`, measurements, names)
	found := make(map[record.Field]record.ID, len(pairs))
	for _, p := range pairs {
		found[p.field] = p.id
	}
	return found, err
}

// Export implements record.Contents, in one round trip.
func (s *Store) Export(ctx context.Context, schema string) (record.Content, error) {
	var content record.Content
	err := s.of(ctx, "export", schema, func(ctx context.Context, c *pgxpool.Conn, in in) error {
		var b pgx.Batch
		var objects []placed
		var notifications []record.NotifyRow
		b.Queue(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`)
		collect(&b, in.sql(selectVariables), scanVariable, &content.Variables)
		collect(&b, in.sql(selectDiagrams), scanDiagram, &content.Diagrams)
		collect(&b, in.sql(selectObjects), scanPlaced, &objects)
		collect(&b, in.sql(selectMenus), scanMenu, &content.Menus)
		collect(&b, in.sql(selectPermissions+` ORDER BY id`), scanPermission, &content.Permissions)
		collect(&b, in.sql(selectNotifications), scanNotification, &notifications)
		collect(&b, in.sql(selectCharts), scanChart, &content.Charts)
		b.Queue(`COMMIT`)
		if err := c.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		place(content.Diagrams, objects)
		var err error
		content.Notifications, err = notifyConfig(notifications)
		return err
	})
	return content, err
}

// collect queues a query whose rows are appended to a list.
func collect[T any](b *pgx.Batch, query string, scan pgx.RowToFunc[T], list *[]T) {
	b.Queue(query).Query(func(rows pgx.Rows) (err error) {
		*list, err = pgx.AppendRows(*list, rows, scan)
		return err
	})
}

// placed is an object and its diagram.
type placed struct {
	diagram int64
	kind    record.Kind
	object  record.Object
}

func scanPlaced(row pgx.CollectableRow) (p placed, err error) {
	err = row.Scan(&p.diagram, &p.kind, &p.object.ID, (*[]byte)(&p.object.Members))
	return p, err
}

// place puts objects on their diagrams.
func place(diagrams []record.Diagram, objects []placed) {
	index := make(map[int64]int, len(diagrams))
	for i, d := range diagrams {
		index[d.ID] = i
	}
	for _, p := range objects {
		diagrams[index[p.diagram]].Add(p.kind, p.object)
	}
}
