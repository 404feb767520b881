package recordtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/store/record"
)

func tenants(t *testing.T, s record.Store) {
	ctx := t.Context()
	check(t, s.Ping(ctx))
	check(t, s.TryWrite(ctx))
	check(t, s.TryWrite(ctx))
	equal(t, "tenants of an empty store", len(must(s.Tenants(ctx))(t)), 0)

	b := record.Tenant{Schema: "b_2", TsName: "señales' \"x\"", Settings: record.Settings{
		TimeLayout: "02/01/06, 03:04 p. m.", TimeZone: "America/Bogota", SeriesRange: record.Duration(36 * time.Hour),
		Window: record.Duration(time.Hour), SaveMenu: 3, PublishMenu: 4, TopicPrefix: "b/",
	}}
	a := record.Tenant{Schema: "a", TsName: "x"}
	for _, tenant := range []record.Tenant{b, a, b} {
		check(t, s.CreateTenant(ctx, tenant))
	}
	equal(t, "tenants", must(s.Tenants(ctx))(t), []record.Tenant{a, b})

	other := b
	other.TsName = "y"
	demand(t, s.CreateTenant(ctx, other), record.ErrExists, "create with another ts_name")
	other.Settings.TimeZone = "Europe/Madrid"
	check(t, s.UpdateTenant(ctx, other))
	equal(t, "the changed tenant", must(s.Tenant(ctx, "b_2"))(t), other)
	for _, bad := range []record.Tenant{{Schema: "c"}, {Schema: "c", TsName: "a\x00b"}, {Schema: "c", TsName: "a", Settings: record.Settings{TimeZone: "\xff"}}} {
		demand(t, s.CreateTenant(ctx, bad), record.ErrInvalid, "create")
		demand(t, s.UpdateTenant(ctx, bad), record.ErrInvalid, "update")
	}
	demand(t, s.UpdateTenant(ctx, record.Tenant{Schema: "c", TsName: "c"}), record.ErrNotFound, "update an absent one")
}

// tenantNames uses names that are SQL keywords or have the greatest length.
func tenantNames(t *testing.T, s record.Store) {
	for _, name := range []string{"select", "user", "_", "table", "main", "temp", "sqlite_master", "pg", "tsmon2", strings.Repeat("z", 63), "users"} {
		t.Run(name, func(t *testing.T) {
			makeTenant(t, s, name)
			check(t, s.Import(t.Context(), name, sample()))
			id := save(t, s, name, record.Diagram{Title: name, Objects: record.Objects{Lines: drawing(2, name)}})
			equal(t, "title", read(t, s, name, id).Title, name)
			must(s.CreateUser(t.Context(), name, record.User{Email: "a@b.c"}))(t)
			must(s.Export(t.Context(), name))(t)
		})
	}
}

// calls returns calls of the methods that take the name of a schema.
func calls(s record.Store) map[string]func(ctx context.Context, schema string) error {
	tenant := func(schema string) record.Tenant { return record.Tenant{Schema: schema, TsName: "x"} }
	return map[string]func(ctx context.Context, schema string) error{
		"Tenant":       func(ctx context.Context, n string) error { return errorOf(s.Tenant(ctx, n)) },
		"UpdateTenant": func(ctx context.Context, n string) error { return s.UpdateTenant(ctx, tenant(n)) },
		"Users":        func(ctx context.Context, n string) error { return errorOf(s.Users(ctx, n)) },
		"User":         func(ctx context.Context, n string) error { return errorOf(s.User(ctx, n, "a@b")) },
		"UserByID":     func(ctx context.Context, n string) error { return errorOf(s.UserByID(ctx, n, 1)) },
		"CreateUser": func(ctx context.Context, n string) error {
			return errorOf(s.CreateUser(ctx, n, record.User{Email: "a@b"}))
		},
		"ImportUsers": func(ctx context.Context, n string) error {
			return s.ImportUsers(ctx, n, []record.User{{ID: 1, Email: "a@b"}})
		},
		"DisableUser":  func(ctx context.Context, n string) error { return s.DisableUser(ctx, n, "a@b") },
		"SetUserToken": func(ctx context.Context, n string) error { return s.SetUserToken(ctx, n, "a@b", []byte("x")) },
		"Variables":    func(ctx context.Context, n string) error { return errorOf(s.Variables(ctx, n)) },
		"VariablesByField": func(ctx context.Context, n string) error {
			return errorOf(s.VariablesByField(ctx, n, []record.Field{{Measurement: "m", Field: "f"}}))
		},
		"Diagram": func(ctx context.Context, n string) error { return errorOf(s.Diagram(ctx, n, 1)) },
		"SaveDiagram": func(ctx context.Context, n string) error {
			return errorOf(s.SaveDiagram(ctx, n, record.Diagram{}, record.Deleted{}))
		},
		"DiagramStates": func(ctx context.Context, n string) error { return errorOf(s.DiagramStates(ctx, n)) },
		"DiagramState":  func(ctx context.Context, n string) error { return errorOf(s.DiagramState(ctx, n, 1, 1)) },
		"Menus":         func(ctx context.Context, n string) error { return errorOf(s.Menus(ctx, n)) },
		"Permissions":   func(ctx context.Context, n string) error { return errorOf(s.Permissions(ctx, n, 1, 1)) },
		"NotifyConfig":  func(ctx context.Context, n string) error { return errorOf(s.NotifyConfig(ctx, n)) },
		"Charts":        func(ctx context.Context, n string) error { return errorOf(s.Charts(ctx, n)) },
		"Export":        func(ctx context.Context, n string) error { return errorOf(s.Export(ctx, n)) },
		"Import":        func(ctx context.Context, n string) error { return s.Import(ctx, n, sample()) },
	}
}

var badNames = []string{
	"", "A", "1a", "a-b", "a b", "a.b", "ñ", "a\x00", "a\n", "public", "pg_", "pg_catalog", "pg_toast", "information_schema", "tsmon",
	strings.Repeat("a", 64), `a"; DROP SCHEMA public CASCADE; --`, `a' OR '1'='1`, `"a"`, "a;", "../a", "%61", "$1", "?", "a\u200b", "\xff",
}

func hostileNames(t *testing.T, s record.Store) {
	makeTenant(t, s, "a")
	for _, name := range badNames {
		demand(t, s.CreateTenant(t.Context(), record.Tenant{Schema: name, TsName: "x"}), record.ErrName, fmt.Sprintf("CreateTenant %q", name))
		for method, call := range calls(s) {
			demand(t, call(t.Context(), name), record.ErrName, fmt.Sprintf("%s of %q", method, name))
		}
	}
	equal(t, "number of tenants", len(must(s.Tenants(t.Context()))(t)), 1)
}

// unknownTenant makes each call twice, since an adapter may cache tenants.
func unknownTenant(t *testing.T, s record.Store) {
	for range 2 {
		for method, call := range calls(s) {
			demand(t, call(t.Context(), "nobody"), record.ErrNotFound, method)
		}
	}
	makeTenant(t, s, "nobody")
	must(s.Users(t.Context(), "nobody"))(t)
}

func createTenantRace(t *testing.T, s record.Store) {
	errs := race(16, func(i int) error {
		return s.CreateTenant(t.Context(), record.Tenant{Schema: "same", TsName: fmt.Sprint(i % 2)})
	})
	taken := 0
	for _, err := range errs {
		if errors.Is(err, record.ErrExists) {
			taken++
		} else {
			check(t, err)
		}
	}
	equal(t, "creators that were refused", taken, 8)
	raceAll(t, 4, func(i int) error {
		return s.CreateTenant(t.Context(), record.Tenant{Schema: fmt.Sprintf("tenant_%d", i), TsName: "x"})
	})
	for i := range 4 {
		check(t, s.Import(t.Context(), fmt.Sprintf("tenant_%d", i), sample()))
	}
}

// race calls f with each index below n at once and returns their errors.
func race(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	all.Wait()
	return errs
}

// raceAll makes n calls at once, which must all succeed.
func raceAll(t testing.TB, n int, f func(i int) error) {
	t.Helper()
	for _, err := range race(n, f) {
		check(t, err)
	}
}

// oneWins makes calls at once, of which exactly one must succeed. It passes the errors of the
// others to lose.
func oneWins(t testing.TB, n int, f func(i int) error, lose func(err error)) {
	t.Helper()
	won := 0
	for _, err := range race(n, f) {
		if err == nil {
			won++
		} else {
			lose(err)
		}
	}
	equal(t, "number of winners", won, 1)
}

// winner makes calls at once, of which exactly one must return true, and returns its index.
func winner(t testing.TB, n int, f func(i int) (bool, error)) int {
	t.Helper()
	won := make([]bool, n)
	raceAll(t, n, func(i int) (err error) {
		won[i], err = f(i)
		return err
	})
	first := slices.Index(won, true)
	if first < 0 || slices.Contains(won[first+1:], true) {
		t.Fatalf("not one of %d calls won: %v", n, won)
	}
	return first
}

// tenantsApart changes one of two tenants that have records with the same ids.
func tenantsApart(t *testing.T, s record.Store) {
	ctx := t.Context()
	other := record.Content{
		Variables:     []record.Variable{{ID: record.ID{Text: "7", Integer: true}, Name: "other", Type: "number", VarsTs: raw(`{"measurement":"m","field":"f"}`)}},
		Diagrams:      []record.Diagram{{ID: 1, Title: "other", Objects: record.Objects{Lines: []record.Object{{ID: 1, Members: raw(`{"id_tsvars":7}`)}}}}},
		Menus:         []record.Menu{{ID: 1, Name: "other"}},
		Notifications: record.NotifyConfig{}, Permissions: nil, Charts: nil,
	}
	for name, c := range map[string]record.Content{"one": sample(), "two": other} {
		makeTenant(t, s, name)
		check(t, s.Import(ctx, name, c))
		must(s.CreateUser(ctx, name, record.User{Email: "a@b.c", TokenDigest: []byte(name)}))(t)
	}
	before := must(s.Export(ctx, "two"))(t)

	d := read(t, s, "one", 1)
	d.Title = "changed"
	save(t, s, "one", d)
	check(t, s.DisableUser(ctx, "one", "a@b.c"))
	check(t, s.Import(ctx, "one", sample()))

	equal(t, "the other tenant", must(s.Export(ctx, "two"))(t), before)
	u := must(s.User(ctx, "two", "a@b.c"))(t)
	if u.Disabled || !u.HasToken([]byte("two")) || u.HasToken([]byte("one")) {
		t.Fatalf("the other tenant's user is %+v", u)
	}
	only := save(t, s, "one", record.Diagram{Title: "only here"})
	demand(t, errorOf(s.Diagram(ctx, "two", only)), record.ErrNotFound, "read another tenant's diagram")
	demand(t, errorOf(s.SaveDiagram(ctx, "two", record.Diagram{ID: only}, record.Deleted{})), record.ErrNotFound, "save another tenant's diagram")
	equal(t, "bound variable", read(t, s, "two", 1).Lines[0].Variable.Name, "other")
}

func audits(t *testing.T, s record.Store) {
	ctx := t.Context()
	now := time.Date(2026, 3, 5, 15, 4, 5, 123456789, time.FixedZone("x", 3600))
	long := strings.Repeat("ñ", 5000)
	first := record.Audit{Time: now, Schema: "a'b\"c", User: "a@b", Action: "login", Address: "::1", Request: "r1"}
	second := record.Audit{Time: now.Add(time.Second), Schema: first.Schema, User: "x\x00\xff" + long, Action: "save", Target: "diagram 1", OK: true}
	for _, a := range []record.Audit{first, second, {Schema: "other"}} {
		check(t, s.Audit(ctx, a))
	}
	equal(t, "rows", must(s.LastAudits(ctx, first.Schema, 10))(t), []record.Audit{second.Clean(), first.Clean()})
	equal(t, "newest row", must(s.LastAudits(ctx, first.Schema, 1))(t), []record.Audit{second.Clean()})
	equal(t, "rows of no schema", len(must(s.LastAudits(ctx, "a\x00", 10))(t)), 0)

	// Old rows are deleted, however many there are.
	for i := range 20 {
		check(t, s.Audit(ctx, record.Audit{Schema: "many", Time: now.AddDate(0, 0, i-10)}))
	}
	for n := int64(1); n > 0; {
		n = must(s.ForgetAudits(ctx, now))(t)
	}
	equal(t, "rows that are left", len(must(s.LastAudits(ctx, "many", 100))(t)), 10)
	equal(t, "rows of that time and later", len(must(s.LastAudits(ctx, first.Schema, 100))(t)), 2)
}
