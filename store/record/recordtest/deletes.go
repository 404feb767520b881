package recordtest

import (
	"errors"
	"testing"

	"tsmon/store/record"
)

// deleteTenant deletes a tenant beside another one, and creates it again.
func deleteTenant(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	makeTenant(t, s, "other")
	before, err := s.CreateUser(ctx, schema, record.User{Email: "a@b"})
	check(t, err)
	check(t, s.Import(ctx, schema, sample()))
	check(t, s.Import(ctx, "other", sample()))
	check(t, s.Audit(ctx, record.Audit{Schema: schema, Action: "login"}))
	check(t, s.DeleteTenant(ctx, schema))

	demand(t, s.DeleteTenant(ctx, schema), record.ErrNotFound, "delete a tenant again")
	demand(t, s.DeleteTenant(ctx, "information"), record.ErrNotFound, "delete a schema that is no tenant's")
	demand(t, s.DeleteTenant(ctx, `x"; --`), record.ErrName, "delete a tenant with a hostile name")
	_, err = s.User(ctx, schema, "a@b")
	demand(t, err, record.ErrNotFound, "a user of a deleted tenant")
	tenants, err := s.Tenants(ctx)
	check(t, err)
	equal(t, "tenants", tenants, []record.Tenant{{Schema: "other", TsName: "ts_other"}})
	rows, err := s.LastAudits(ctx, schema, 10)
	check(t, err)
	equal(t, "audit rows", len(rows), 1)
	got, err := s.Export(ctx, "other")
	check(t, err)
	equal(t, "the other tenant", got, sample())

	makeTenant(t, s, schema)
	again, err := s.Export(ctx, schema)
	check(t, err)
	equal(t, "the new tenant", again, record.Content{Notifications: record.NotifyConfig{}})
	after, err := s.CreateUser(ctx, schema, record.User{Email: "a@b"})
	check(t, err)
	if after.ID == before.ID && after.TokenVersion == before.TokenVersion {
		t.Errorf("the user %d of the new tenant has the token version of the old one's", after.ID)
	}
}

// TenantDeletedElsewhere uses a tenant through a store that has seen it, after another
// store of the same database deleted it.
func TenantDeletedElsewhere(t *testing.T, s, other record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	check(t, s.Import(ctx, schema, sample()))
	if _, err := other.Variables(ctx, schema); err != nil {
		t.Fatal(err)
	}
	check(t, s.DeleteTenant(ctx, schema))
	_, err := other.Variables(ctx, schema)
	demand(t, err, record.ErrNotFound, "variables of a tenant that another store deleted")
	_, err = other.SaveDiagram(ctx, schema, record.Diagram{}, record.Deleted{})
	demand(t, err, record.ErrNotFound, "a save for it")
	demand(t, other.DeleteTenant(ctx, schema), record.ErrNotFound, "delete it again")
	makeTenant(t, s, schema)
	save(t, other, schema, record.Diagram{Title: "new"})
}

// deleteUser deletes the newest user, whose id and permissions nobody inherits.
func deleteUser(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	first, err := s.CreateUser(ctx, schema, record.User{Email: "first@b"})
	check(t, err)
	second, err := s.CreateUser(ctx, schema, record.User{Email: "Ñ@b"})
	check(t, err)
	check(t, s.Import(ctx, schema, sample())) // with permissions of both
	check(t, s.DeleteUser(ctx, schema, "ñ@B"))
	for _, email := range []string{"ñ@b", "nobody@b", "", "a\x00", "\xff"} {
		demand(t, s.DeleteUser(ctx, schema, email), record.ErrNotFound, "delete a user who is not there")
	}
	demand(t, s.DeleteUser(ctx, "nobody", "first@b"), record.ErrNotFound, "delete a user of no tenant")
	list, err := s.Users(ctx, schema)
	check(t, err)
	equal(t, "users", list, []record.User{first})
	for user, want := range map[int64]int{first.ID: 1, second.ID: 0} {
		rows, err := s.Permissions(ctx, schema, user, 0)
		check(t, err)
		equal(t, "permissions", len(rows), want)
	}
	next, err := s.CreateUser(ctx, schema, record.User{Email: "ñ@b"})
	check(t, err)
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
	_, err := s.SaveDiagram(ctx, schema, record.Diagram{ID: id, Version: 2}, record.Deleted{})
	demand(t, err, record.ErrNotFound, "save a diagram that was deleted")
	_, err = s.DiagramState(ctx, schema, id, 1)
	demand(t, err, record.ErrNotFound, "an earlier state of it")
	got, err := s.Export(ctx, schema)
	check(t, err)
	equal(t, "content", got, sample())
	states, err := s.DiagramStates(ctx, schema)
	check(t, err)
	equal(t, "states", len(states), len(sample().Diagrams))
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
	got, err := s.Export(ctx, schema)
	check(t, err)
	equal(t, "content", got, want)
	check(t, s.Import(ctx, schema, record.Content{Variables: variables[2:3]}))
	d, err := s.Diagram(ctx, schema, 1)
	check(t, err)
	if bound := d.Lines[0].Variable; bound == nil || bound.Name != "Suma" || d.Lines[1].Variable != nil {
		t.Errorf("the lines are bound to %v and %v", bound, d.Lines[1].Variable)
	}
}

// deleteWhileSaving deletes a diagram, and then the tenant, while others save and read:
// each call succeeds or finds nothing, and leaves nothing behind.
func deleteWhileSaving(t *testing.T, s record.Store) {
	const rounds, others = 6, 8
	ctx := t.Context()
	for range rounds {
		makeTenant(t, s, schema)
		check(t, s.Import(ctx, schema, sample()))
		id := save(t, s, schema, record.Diagram{Title: "a"})
		uses := []func() error{
			func() error {
				_, err := s.SaveDiagram(ctx, schema, record.Diagram{ID: id, Objects: record.Objects{Lines: drawing(20, "a")}}, record.Deleted{})
				return err
			},
			func() error { _, err := s.Diagram(ctx, schema, id); return err },
			func() error { _, err := s.Export(ctx, schema); return err },
			func() error { return s.Import(ctx, schema, sample()) },
			func() error { return s.DeleteMenu(ctx, schema, 1) },
			func() error { return s.DeleteUser(ctx, schema, "a@b") },
		}
		for _, remove := range []func() error{
			func() error { return s.DeleteDiagram(ctx, schema, id) },
			func() error { return s.DeleteTenant(ctx, schema) },
		} {
			for _, err := range race(others+1, func(i int) error {
				if i == others/2 {
					return remove()
				}
				for n := range uses {
					if err := uses[(i+n)%len(uses)](); err != nil && !errors.Is(err, record.ErrNotFound) {
						return err
					}
				}
				return nil
			}) {
				check(t, err)
			}
			_, err := s.Diagram(ctx, schema, id)
			demand(t, err, record.ErrNotFound, "a deleted diagram")
		}
	}
}
