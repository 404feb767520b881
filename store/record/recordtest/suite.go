// Package recordtest holds the suite that every adapter of package record passes.
//
// The suite is hostile. It tries names that break out of a statement, ids of other diagrams
// and tenants, concurrent saves of one diagram, contexts cancelled in the middle of a call, and
// JSON that a careless decoder would change.
package recordtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"tsmon/store/record"
)

// Suite runs every test of the contract. open returns a new store without tenants for each
// test, or fails it.
func Suite(t *testing.T, open func(t *testing.T) record.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, record.Store)
	}{
		{"Tenants", tenants},
		{"TenantNames", tenantNames},
		{"HostileNames", hostileNames},
		{"UnknownTenant", unknownTenant},
		{"CreateTenantRace", createTenantRace},
		{"TenantsApart", tenantsApart},
		{"Users", users},
		{"UserTokens", userTokens},
		{"ImportUsers", importUsers},
		{"HostileEmails", hostileEmails},
		{"CreateUserRace", createUserRace},
		{"SaveNew", saveNew},
		{"SaveAgain", saveAgain},
		{"SaveUnknown", saveUnknown},
		{"SaveInvalid", saveInvalid},
		{"SaveVersions", saveVersions},
		{"SaveStates", saveStates},
		{"ImportStates", importStates},
		{"SaversOfOneVersion", saversOfOneVersion},
		{"SaveForeignObjects", saveForeignObjects},
		{"SaveChosenIDs", saveChosenIDs},
		{"Members", members},
		{"BoundVariables", boundVariables},
		{"ManyLines", manyLines},
		{"SaversRace", saversRace},
		{"SaversOfNewDiagrams", saversOfNewDiagrams},
		{"SaversOfOneObject", saversOfOneObject},
		{"ReadWhileSaving", readWhileSaving},
		{"Cancelled", cancelled},
		{"CancelledInside", cancelledInside},
		{"ImportExport", importExport},
		{"ImportOrder", importOrder},
		{"ImportMerges", importMerges},
		{"ImportInvalid", importInvalid},
		{"ImportConflict", importConflict},
		{"ImportMoves", importMoves},
		{"ImportRace", importRace},
		{"VariablesByField", variablesByField},
		{"Permissions", permissions},
		{"DeleteTenant", deleteTenant},
		{"DeleteUser", deleteUser},
		{"DeleteDiagram", deleteDiagram},
		{"DeleteVariableAndMenu", deleteVariableAndMenu},
		{"DeleteWhileSaving", deleteWhileSaving},
		{"Empty", empty},
		{"Audits", audits},
		{"Writes", writes},
		{"Secrets", secrets},
		{"Histories", histories},
		{"Clients", clientCounts},
		{"ClientTargets", clientTargets},
		{"Progress", outcomes},
		{"LatestStands", latestStands},
		{"Kept", kept},
		{"KeptInAnyOrder", keptInAnyOrder},
		{"KeptRepeated", keptRepeated},
		{"NotOffered", notOffered},
		{"Stages", stages},
		{"Rounds", rounds},
		{"Crowds", crowdsOfNetworks},
		{"HostileCrowds", hostileCrowds},
		{"Refusals", refusals},
		{"Groups", groups},
		{"Summaries", summaries},
		{"Downloads", fetched},
		{"AnyOrder", anyOrder},
		{"HostileSightings", hostileSightings},
		{"ForgetClients", forgetClients},
		{"ForgetByLatest", forgetByLatest},
		{"ForgetMany", forgetMany},
		{"InstallsCancelled", installsCancelled},
		{"BoundClients", boundClients},
		{"BoundTries", boundTries},
		{"BoundKnown", boundKnown},
		{"BoundRace", boundRace},
		{"Outbox", outbox},
		{"OutboxInvalid", outboxInvalid},
		{"OutboxRace", outboxRace},
		{"ManySightings", manySightings},
		{"SightRace", sightRace},
		{"SightCancelledInside", sightCancelledInside},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// schema is the tenant of tests that need one.
const schema = "acueducto"

func makeTenant(t testing.TB, s record.Store, schema string) {
	t.Helper()
	check(t, s.CreateTenant(t.Context(), record.Tenant{Schema: schema, TsName: "ts_" + schema}))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must wraps a call, as in must(s.Users(ctx, schema))(t). It returns the call's result, or
// fails the test if the call failed.
func must[T any](result T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return result
	}
}

// errorOf returns the error of a call.
func errorOf[T any](_ T, err error) error { return err }

// demand fails the test unless err is of the given kind.
func demand(t testing.TB, err, kind error, what string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("%s: the error is %v, want one that is %q", what, err, kind)
	}
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\n got %s\nwant %s", what, show(got), show(want))
	}
}

func show(v any) string {
	if data, err := json.Marshal(v); err == nil && len(data) < 4000 {
		return string(data)
	}
	return fmt.Sprintf("%.2000v", v)
}

func raw(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}

// drawing returns n lines without ids. Each has the mark.
func drawing(n int, mark string) []record.Object {
	lines := make([]record.Object, n)
	for i := range lines {
		lines[i].Members = raw(`{"mark":%q,"i":%d,"points":{"start":{"left":1.5,"top":2},"end":{"left":3,"top":4e2}},"stroke":"#00ff00","strokeWidth":2}`, mark, i)
	}
	return lines
}

func save(t testing.TB, s record.Store, schema string, d record.Diagram) int64 {
	t.Helper()
	return must(s.SaveDiagram(t.Context(), schema, d, record.Deleted{}))(t).Diagram
}

// read returns a diagram without its version.
func read(t testing.TB, s record.Store, schema string, id int64) record.Diagram {
	t.Helper()
	d := must(s.Diagram(t.Context(), schema, id))(t)
	d.Version, d.SavedBy, d.SavedAt = 0, "", time.Time{}
	return d
}

// marks counts the lines by their marks.
func marks(t testing.TB, d record.Diagram) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, o := range d.Lines {
		var m struct{ Mark string }
		check(t, json.Unmarshal(o.Members, &m))
		n[m.Mark]++
	}
	return n
}

func ids(list []record.Object) []int64 {
	n := make([]int64, len(list))
	for i, o := range list {
		n[i] = o.ID
	}
	return n
}
