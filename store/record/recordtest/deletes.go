package recordtest

import (
	"errors"
	"testing"

	"tsmon/store/record"
)

// deleteTenant deletes one of two tenants, and creates it again.
func deleteTenant(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	makeTenant(t, s, "other")
	before := must(s.CreateUser(ctx, schema, record.User{Email: "a@b"}))(t)
	check(t, s.Import(ctx, schema, sample()))
	check(t, s.Import(ctx, "other", sample()))
	check(t, s.Audit(ctx, record.Audit{Schema: schema, Action: "login"}))
	check(t, s.DeleteTenant(ctx, schema))

	demand(t, s.DeleteTenant(ctx, schema), record.ErrNotFound, "delete a tenant again")
	demand(t, s.DeleteTenant(ctx, "information"), record.ErrNotFound, "delete a schema that is no tenant's")
	demand(t, s.DeleteTenant(ctx, `x"; --`), record.ErrName, "delete a tenant with a hostile name")
	demand(t, errorOf(s.User(ctx, schema, "a@b")), record.ErrNotFound, "a user of a deleted tenant")
	equal(t, "tenants", must(s.Tenants(ctx))(t), []record.Tenant{{Schema: "other", TsName: "ts_other"}})
	equal(t, "audit rows", len(must(s.LastAudits(ctx, schema, 10))(t)), 1)
	equal(t, "the other tenant", must(s.Export(ctx, "other"))(t), sample())

	makeTenant(t, s, schema)
	equal(t, "the new tenant", must(s.Export(ctx, schema))(t), record.Content{Notifications: record.NotifyConfig{}})
	after := must(s.CreateUser(ctx, schema, record.User{Email: "a@b"}))(t)
	if after.ID == before.ID && after.TokenVersion == before.TokenVersion {
		t.Errorf("the user %d of the new tenant has the token version of the old one's", after.ID)
	}
}

// TenantDeletedElsewhere uses a tenant after another store on the same database has deleted
// it. The first store may have cached the tenant.
func TenantDeletedElsewhere(t *testing.T, s, other record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	check(t, s.Import(ctx, schema, sample()))
	must(other.Variables(ctx, schema))(t)
	check(t, s.DeleteTenant(ctx, schema))
	demand(t, errorOf(other.Variables(ctx, schema)), record.ErrNotFound, "variables of a tenant that another store deleted")
	demand(t, errorOf(other.SaveDiagram(ctx, schema, record.Diagram{}, record.Deleted{})), record.ErrNotFound, "a save for it")
	demand(t, other.DeleteTenant(ctx, schema), record.ErrNotFound, "delete it again")
	makeTenant(t, s, schema)
	save(t, other, schema, record.Diagram{Title: "new"})
}

// deleteUser deletes the newest user. A user created later must not inherit its id or
// permissions.
func deleteUser(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	first := must(s.CreateUser(ctx, schema, record.User{Email: "first@b"}))(t)
	second := must(s.CreateUser(ctx, schema, record.User{Email: "Ñ@b"}))(t)
	check(t, s.Import(ctx, schema, sample())) // with permissions of both
	check(t, s.DeleteUser(ctx, schema, "ñ@B"))
	for _, email := range []string{"ñ@b", "nobody@b", "", "a\x00", "\xff"} {
		demand(t, s.DeleteUser(ctx, schema, email), record.ErrNotFound, "delete a user who is not there")
	}
	demand(t, s.DeleteUser(ctx, "nobody", "first@b"), record.ErrNotFound, "delete a user of no tenant")
	equal(t, "users", must(s.Users(ctx, schema))(t), []record.User{first})
	for user, want := range map[int64]int{first.ID: 1, second.ID: 0} {
		equal(t, "permissions", len(must(s.Permissions(ctx, schema, user, 0))(t)), want)
	}
	next := must(s.CreateUser(ctx, schema, record.User{Email: "ñ@b"}))(t)
	if next.ID <= second.ID {
		t.Errorf("after the user %d was deleted the next one is %d", second.ID, next.ID)
	}
}

func deleteDiagram(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	check(t, s.Import(ctx, schema, sample()))
	id := save(t, s, schema, record.Diagram{Title: "a", Objects: record.Objects{Lines: drawing(3, "a")}})
	save(t, s, schema, record.Diagram{ID: id, Title: "b"})
	check(t, s.DeleteDiagram(ctx, schema, id))
	demand(t, s.DeleteDiagram(ctx, schema, id), record.ErrNotFound, "delete a diagram again")
	demand(t, s.DeleteDiagram(ctx, schema, -1), record.ErrNotFound, "delete no diagram")
	demand(t, errorOf(s.SaveDiagram(ctx, schema, record.Diagram{ID: id, Version: 2}, record.Deleted{})), record.ErrNotFound, "save a diagram that was deleted")
	demand(t, errorOf(s.DiagramState(ctx, schema, id, 1)), record.ErrNotFound, "an earlier state of it")
	equal(t, "content", must(s.Export(ctx, schema))(t), sample())
	equal(t, "states", len(must(s.DiagramStates(ctx, schema))(t)), len(sample().Diagrams))
	if next := save(t, s, schema, record.Diagram{Title: "c"}); next <= id {
		t.Errorf("after the diagram %d was deleted the next one is %d", id, next)
	}
}

func deleteVariableAndMenu(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	check(t, s.Import(ctx, schema, sample()))
	check(t, s.DeleteVariable(ctx, schema, "z última"))
	check(t, s.DeleteVariable(ctx, schema, "9"))
	for _, key := range []string{"z última", "", "a\x00", "\xff", "' OR true --"} {
		demand(t, s.DeleteVariable(ctx, schema, key), record.ErrNotFound, "delete a variable that is not there")
	}
	check(t, s.DeleteMenu(ctx, schema, 1))
	demand(t, s.DeleteMenu(ctx, schema, 1), record.ErrNotFound, "delete a menu item again")
	want := sample()
	variables := want.Variables
	want.Variables = []record.Variable{variables[1], variables[3]}
	want.Menus, want.Permissions = want.Menus[1:], want.Permissions[2:]
	equal(t, "content", must(s.Export(ctx, schema))(t), want)
	check(t, s.Import(ctx, schema, record.Content{Variables: variables[2:3]}))
	d := must(s.Diagram(ctx, schema, 1))(t)
	if bound := d.Lines[0].Variable; bound == nil || bound.Name != "Suma" || d.Lines[1].Variable != nil {
		t.Errorf("the lines are bound to %v and %v", bound, d.Lines[1].Variable)
	}
}

// deleteWhileSaving deletes a diagram, and then the tenant, while others save and read. Each
// call must succeed or find nothing, and nothing may be left behind.
func deleteWhileSaving(t *testing.T, s record.Store) {
	const rounds, others = 6, 8
	ctx := t.Context()
	for range rounds {
		makeTenant(t, s, schema)
		check(t, s.Import(ctx, schema, sample()))
		id := save(t, s, schema, record.Diagram{Title: "a"})
		uses := []func() error{
			func() error {
				return errorOf(s.SaveDiagram(ctx, schema, record.Diagram{ID: id, Objects: record.Objects{Lines: drawing(20, "a")}}, record.Deleted{}))
			},
			func() error { return errorOf(s.Diagram(ctx, schema, id)) },
			func() error { return errorOf(s.Export(ctx, schema)) },
			func() error { return s.Import(ctx, schema, sample()) },
			func() error { return s.DeleteMenu(ctx, schema, 1) },
			func() error { return s.DeleteUser(ctx, schema, "a@b") },
		}
		for _, remove := range []func() error{
			func() error { return s.DeleteDiagram(ctx, schema, id) },
			func() error { return s.DeleteTenant(ctx, schema) },
		} {
			raceAll(t, others+1, func(i int) error {
				if i == others/2 {
					return remove()
				}
				for n := range uses {
					if err := uses[(i+n)%len(uses)](); err != nil && !errors.Is(err, record.ErrNotFound) {
						return err
					}
				}
				return nil
			})
			demand(t, errorOf(s.Diagram(ctx, schema, id)), record.ErrNotFound, "a deleted diagram")
		}
	}
}
