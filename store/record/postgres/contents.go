package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tsmon/store/record"
)

const (
	selectVariables     = `SELECT ` + record.VariableColumns + ` FROM {schema}.variables ORDER BY position, key`
	selectDiagrams      = `SELECT id, head FROM {schema}.diagrams ORDER BY id`
	selectObjects       = `SELECT diagram, kind, id, members FROM {schema}.objects ORDER BY diagram, kind, id`
	selectMenus         = `SELECT id, name, icon, path, status FROM {schema}.menus ORDER BY id`
	selectPermissions   = `SELECT id, menu, profile, user_id, status FROM {schema}.permissions`
	selectNotifications = `SELECT kind, brand, version, entries FROM {schema}.notifications`
	selectCharts        = `SELECT chart FROM {schema}.charts ORDER BY position, key`
)

// Variables implements record.Variables.
func (s contents) Variables(ctx context.Context, schema string) ([]record.Variable, error) {
	return list(ctx, s.server, "read variables", schema, record.ScanVariable, selectVariables)
}

// Menus implements record.Access.
func (s contents) Menus(ctx context.Context, schema string) ([]record.Menu, error) {
	return list(ctx, s.server, "read menus", schema, record.ScanMenu, selectMenus)
}

// Permissions implements record.Access.
func (s contents) Permissions(ctx context.Context, schema string, user, profile int64) ([]record.Permission, error) {
	return list(ctx, s.server, "read permissions", schema, record.ScanPermission,
		selectPermissions+` WHERE user_id = $1 OR profile = $2 ORDER BY id`, user, profile)
}

// Charts implements record.Configuration.
func (s contents) Charts(ctx context.Context, schema string) ([]record.Chart, error) {
	return list(ctx, s.server, "read charts", schema, record.ScanChart, selectCharts)
}

// NotifyConfig implements record.Configuration.
func (s contents) NotifyConfig(ctx context.Context, schema string) (record.NotifyConfig, error) {
	rows, err := list(ctx, s.server, "read notification configuration", schema, record.ScanNotification, selectNotifications)
	if err != nil {
		return nil, err
	}
	return record.NotifyConfigOf(rows)
}

// VariablesByField implements record.Variables.
func (s contents) VariablesByField(ctx context.Context, schema string, fields []record.Field) (map[record.Field]record.ID, error) {
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
	pairs, err := list(ctx, s.server, "find variables", schema, func(row record.Scanner) (p pair, err error) {
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
func (s contents) Export(ctx context.Context, schema string) (record.Content, error) {
	var content record.Content
	err := s.of(ctx, "export", schema, func(ctx context.Context, c *pgxpool.Conn, in in) error {
		var b pgx.Batch
		var objects []record.Placed
		var notifications []record.NotifyRow
		b.Queue(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`)
		collect(&b, in.sql(selectVariables), record.ScanVariable, &content.Variables)
		collect(&b, in.sql(selectDiagrams), record.ScanDiagram, &content.Diagrams)
		collect(&b, in.sql(selectObjects), record.ScanPlaced, &objects)
		collect(&b, in.sql(selectMenus), record.ScanMenu, &content.Menus)
		collect(&b, in.sql(selectPermissions+` ORDER BY id`), record.ScanPermission, &content.Permissions)
		collect(&b, in.sql(selectNotifications), record.ScanNotification, &notifications)
		collect(&b, in.sql(selectCharts), record.ScanChart, &content.Charts)
		b.Queue(`COMMIT`)
		if err := c.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		record.Place(content.Diagrams, objects)
		var err error
		content.Notifications, err = record.NotifyConfigOf(notifications)
		return err
	})
	return content, err
}

// collect queues a query whose rows are appended to a list.
func collect[T any](b *pgx.Batch, query string, scan func(record.Scanner) (T, error), list *[]T) {
	b.Queue(query).Query(func(rows pgx.Rows) (err error) {
		*list, err = pgx.AppendRows(*list, rows, rowTo(scan))
		return err
	})
}
