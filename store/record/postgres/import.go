package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tsmon/store/record"
)

// Import implements record.Contents, in two round trips.
func (s contents) Import(ctx context.Context, schema string, c record.Content) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	savings, err := c.Savings()
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	notifications, err := c.Notifications.Rows()
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return s.of(ctx, "import", schema, func(ctx context.Context, conn *pgxpool.Conn, in in) error {
		there, err := lookForeign(ctx, conn, in, savings)
		if err != nil {
			return err
		}
		var b pgx.Batch
		queueVariables(&b, in, c.Variables, record.Positions(there.variables, c.Variables, record.Variable.Key))
		queueDiagrams(&b, in, savings)
		queueMenus(&b, in, c.Menus)
		queuePermissions(&b, in, c.Permissions)
		queueNotifications(&b, in, notifications)
		queueCharts(&b, in, c.Charts, record.Positions(there.charts, c.Charts, record.Chart.Key))
		b.Queue(`COMMIT`)
		return conn.SendBatch(ctx, &b).Close()
	})
}

// places are the positions of a tenant's variables and charts, by their keys.
type places struct{ variables, charts map[string]int64 }

// lookForeign locks the tenant and returns a *record.ConflictError if an object belongs
// to a diagram that is not imported.
func lookForeign(ctx context.Context, c *pgxpool.Conn, in in, savings []record.Saving) (places, error) {
	found := state{owners: map[record.Ref]int64{}}
	there := places{map[string]int64{}, map[string]int64{}}
	var refs []record.Ref
	named := make([]int64, len(savings))
	for i, s := range savings {
		named[i] = s.Diagram
		refs = append(refs, s.Refs()...)
	}
	var b pgx.Batch
	lock(&b, in, &found)
	queueOwners(&b, in, &found, refs, named)
	queuePositions(&b, in.sql(`SELECT key, position FROM {schema}.variables`), there.variables)
	queuePositions(&b, in.sql(`SELECT key, position FROM {schema}.charts`), there.charts)
	if err := c.SendBatch(ctx, &b).Close(); err != nil {
		return places{}, err
	}
	for _, s := range savings {
		if err := s.Check(found.owners); err != nil {
			return places{}, err
		}
	}
	return there, nil
}

func queuePositions(b *pgx.Batch, query string, into map[string]int64) {
	b.Queue(query).Query(func(rows pgx.Rows) error {
		var key string
		var position int64
		_, err := pgx.ForEachRow(rows, []any{&key, &position}, func() error {
			into[key] = position
			return nil
		})
		return err
	})
}

// queueDiagrams removes the objects of all diagrams that are imported before it
// adds any, so that an object may move between them.
func queueDiagrams(b *pgx.Batch, in in, savings []record.Saving) {
	last := int64(0)
	for _, s := range savings {
		b.Queue(in.sql(`DELETE FROM {schema}.objects WHERE diagram = $1`), s.Diagram)
		last = max(last, s.Diagram)
	}
	for _, s := range savings {
		queueSaving(b, in, s)
	}
	b.Queue(in.sql(`UPDATE {schema}.counters SET next_diagram = greatest(next_diagram, $1 + 1)`), last)
}

// column returns a field of each element of a list, as an argument of unnest.
func column[T, C any](list []T, pick func(T) C) []C {
	values := make([]C, len(list))
	for i, element := range list {
		values[i] = pick(element)
	}
	return values
}

func queueVariables(b *pgx.Batch, in in, list []record.Variable, positions []int64) {
	type v = record.Variable
	b.Queue(in.sql(`
		INSERT INTO {schema}.variables (position, key, is_integer, name, unit, type, calc, equation, status, vars_ts, measurement, field)
		SELECT r.position, r.key, r.is_integer, r.name, r.unit, r.type, r.calc, r.equation, r.status, r.vars_ts::json, r.measurement, r.field
		FROM unnest($1::text[], $2::boolean[], $3::text[], $4::text[], $5::text[], $6::boolean[], $7::text[], $8::boolean[], $9::text[], $10::text[], $11::text[], $12::bigint[])
			AS r (key, is_integer, name, unit, type, calc, equation, status, vars_ts, measurement, field, position)
		ON CONFLICT (key) DO UPDATE SET position = excluded.position, is_integer = excluded.is_integer, name = excluded.name,
			unit = excluded.unit, type = excluded.type, calc = excluded.calc, equation = excluded.equation, status = excluded.status,
			vars_ts = excluded.vars_ts, measurement = excluded.measurement, field = excluded.field`),
		column(list, func(v v) string { return v.ID.Text }), column(list, func(v v) bool { return v.ID.Integer }),
		column(list, func(v v) string { return v.Name }), column(list, func(v v) *string { return v.Unit }),
		column(list, func(v v) string { return v.Type }), column(list, func(v v) bool { return v.Calc }),
		column(list, func(v v) *string { return v.Equation }), column(list, func(v v) bool { return v.Status }),
		column(list, func(v v) string { return string(v.VarsTs) }),
		column(list, func(v v) string { return v.Field().Measurement }), column(list, func(v v) string { return v.Field().Field }), positions)
}

func queueMenus(b *pgx.Batch, in in, list []record.Menu) {
	type m = record.Menu
	b.Queue(in.sql(`
		INSERT INTO {schema}.menus (id, name, icon, path, status)
		SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::boolean[])
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, icon = excluded.icon, path = excluded.path, status = excluded.status`),
		column(list, func(m m) int64 { return m.ID }), column(list, func(m m) string { return m.Name }),
		column(list, func(m m) string { return m.Icon }), column(list, func(m m) string { return m.Path }),
		column(list, func(m m) bool { return m.Status }))
}

func queuePermissions(b *pgx.Batch, in in, list []record.Permission) {
	type p = record.Permission
	b.Queue(in.sql(`
		INSERT INTO {schema}.permissions (id, menu, profile, user_id, status)
		SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[])
		ON CONFLICT (id) DO UPDATE SET menu = excluded.menu, profile = excluded.profile, user_id = excluded.user_id, status = excluded.status`),
		column(list, func(p p) int64 { return p.ID }), column(list, func(p p) int64 { return p.Menu }),
		column(list, func(p p) *int64 { return p.Profile }), column(list, func(p p) *int64 { return p.User }),
		column(list, func(p p) bool { return p.Status }))
}

func queueNotifications(b *pgx.Batch, in in, list []record.NotifyRow) {
	type n = record.NotifyRow
	b.Queue(in.sql(`
		INSERT INTO {schema}.notifications (kind, brand, version, entries)
		SELECT r.kind, r.brand, r.version, r.entries::json
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS r (kind, brand, version, entries)
		ON CONFLICT (kind, brand, version) DO UPDATE SET entries = excluded.entries`),
		column(list, func(n n) string { return n.Kind }), column(list, func(n n) string { return n.Brand }),
		column(list, func(n n) string { return n.Version }), column(list, func(n n) string { return string(n.Entries) }))
}

func queueCharts(b *pgx.Batch, in in, list []record.Chart, positions []int64) {
	type c = record.Chart
	b.Queue(in.sql(`
		INSERT INTO {schema}.charts (position, key, chart)
		SELECT r.position, r.key, r.chart::json
		FROM unnest($1::text[], $2::text[], $3::bigint[]) AS r (key, chart, position)
		ON CONFLICT (key) DO UPDATE SET position = excluded.position, chart = excluded.chart`),
		column(list, func(c c) string { return c.ID.Text }), column(list, func(c c) string { return string(c.JSON) }), positions)
}
