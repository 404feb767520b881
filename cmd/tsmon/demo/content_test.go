package demo_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tsmon/api/monitor/equation"
	"tsmon/cmd/tsmon/demo"
	"tsmon/store/record"
	"tsmon/store/record/sqlite"
	"tsmon/store/series"
)

const user, profile = 7, 3

// variable has the members that each copy of a variable has. PumpControl renames two of them.
type variable struct {
	ID       record.ID       `json:"id"`
	VarID    record.ID       `json:"varId"`
	Name     string          `json:"name"`
	Unit     *string         `json:"unit"`
	Type     string          `json:"type"`
	Calc     bool            `json:"calc"`
	Equation *string         `json:"equation"`
	VarsTs   json.RawMessage `json:"varsTs"`
	Value    json.RawMessage `json:"value"`
}

func read[T any](t *testing.T, data []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}

// measured is what the network measures at one moment.
func measured() map[series.Key]any {
	values := map[series.Key]any{}
	for _, s := range until(demo.New(noon), noon.Add(demo.Interval)) {
		for name, value := range s.Fields {
			values[series.Key{Measurement: s.Measurement, Field: name}] = value
		}
	}
	return values
}

// operand is a value of an equation.
type operand struct {
	Measure   string `json:"measure"`
	CalcField string `json:"calc_field"`
}

// operands are the series that a variable shows; those of an equation have keys.
func operands(t *testing.T, v record.Variable) map[string]series.Key {
	t.Helper()
	keys := map[string]series.Key{}
	if v.Calc {
		for name, o := range read[map[string]operand](t, v.VarsTs) {
			keys[name] = series.Key{Measurement: o.Measure, Field: o.CalcField}
		}
		return keys
	}
	texts := read[map[string]string](t, v.VarsTs)
	keys["field"] = series.Key{Measurement: texts["measurement"], Field: texts["field"]}
	if calc, ok := texts["calc_field"]; ok {
		keys["calc_field"] = series.Key{Measurement: texts["measurement"], Field: calc}
	}
	return keys
}

// TestVariables: variables show measured fields only, and all of them. An equation uses all its
// operands and has a value. What the client shows as Encendido or Apagado is a state.
func TestVariables(t *testing.T) {
	values := measured()
	unseen, fields := maps.Clone(values), map[record.Field]record.ID{}
	for _, v := range demo.Content(user, profile).Variables {
		keys := operands(t, v)
		for name, key := range keys {
			value, ok := values[key]
			if delete(unseen, key); !ok {
				t.Errorf("%s: %s is not measured", v.ID, key)
			}
			if _, state := value.(bool); name == "calc_field" && state != strings.Contains(key.Field, "estado") {
				t.Errorf("%s: %s is a state, and it is %v", v.ID, key, value)
			}
		}
		if v.Calc {
			checkEquation(t, v, keys, values)
			continue
		}
		if other, twice := fields[v.Field()]; twice || v.Equation != nil {
			t.Errorf("%s has the field of %s, or an equation", v.ID, other)
		}
		fields[v.Field()] = v.ID
	}
	if len(unseen) > 0 {
		t.Errorf("no variable shows %v", slices.Collect(maps.Keys(unseen)))
	}
}

func checkEquation(t *testing.T, v record.Variable, keys map[string]series.Key, values map[series.Key]any) {
	t.Helper()
	eq, err := equation.Parse(*v.Equation, slices.Collect(maps.Keys(keys)))
	if err != nil {
		t.Errorf("%s: %v", v.ID, err)
		return
	}
	if len(eq.Keys()) != len(keys) {
		t.Errorf("%s uses %q of %d operands", v.ID, eq.Keys(), len(keys))
	}
	if _, ok := eq.Value(func(key string) (float64, bool) { return number(values[keys[key]]), true }); !ok {
		t.Errorf("%s has no value", v.ID)
	}
}

// shown returns the variables of a chart.
func shown(t *testing.T, component string, data map[string]json.RawMessage) (found []variable) {
	t.Helper()
	switch component {
	case "PumpControl":
		pumps, states := read[[]variable](t, data["initialPumps"]), read[[]variable](t, data["initialStates"])
		if len(pumps) == 0 || len(states) == 0 {
			t.Errorf("%d pumps and %d states", len(pumps), len(states))
		}
		for _, v := range append(pumps, states...) {
			v.ID, v.VarsTs = v.VarID, v.Value
			found = append(found, v)
		}
	case "MultipleBooleanChart":
		for _, item := range read[[]struct{ TsVar variable }](t, data["items"]) {
			found = append(found, item.TsVar)
		}
	default:
		for _, member := range data {
			if v := (variable{}); json.Unmarshal(member, &v) == nil && v.VarsTs != nil {
				found = append(found, v)
			}
		}
	}
	return found
}

// known are the variables by id.
func known(c record.Content) map[record.ID]record.Variable {
	byID := map[record.ID]record.Variable{}
	for _, v := range c.Variables {
		byID[v.ID] = v
	}
	return byID
}

// checkShown compares what is shown with the variable k.
func checkShown(t *testing.T, place string, v variable, k record.Variable) {
	t.Helper()
	if v.ID != k.ID || v.Name != k.Name || !reflect.DeepEqual(v.Unit, k.Unit) || v.Calc != k.Calc || !reflect.DeepEqual(v.Equation, k.Equation) ||
		!reflect.DeepEqual(read[any](t, v.VarsTs), read[any](t, k.VarsTs)) {
		t.Errorf("%s: %+v is not the variable of its id", place, v)
	}
}

// TestCharts: charts show variables with their properties. One batch can request them all, and
// they are no more than a client should have.
func TestCharts(t *testing.T) {
	c := demo.Content(user, profile)
	byID, components, types, all := known(c), map[string]int{}, map[record.ID]string{}, 0
	for _, chart := range c.Charts {
		parts := read[struct {
			Component string
			Data      map[string]json.RawMessage
		}](t, chart.JSON)
		variables := shown(t, parts.Component, parts.Data)
		for _, v := range variables {
			checkShown(t, "chart "+chart.ID.Text, v, byID[v.ID])
			if other, twice := types[v.ID]; twice && other != v.Type {
				t.Errorf("chart %s: one batch can't have %s as %q and %q", chart.ID, v.ID, v.Type, other)
			}
			types[v.ID] = v.Type
		}
		if len(variables) == 0 {
			t.Errorf("chart %s shows nothing", chart.ID)
		}
		components[parts.Component]++
		all += len(variables)
	}
	if len(components) < 5 || components["PumpControl"] == 0 || components["MultipleBooleanChart"] == 0 || all >= 50 {
		t.Errorf("the charts are %v with %d variables", components, all)
	}
}

// TestDiagrams: lines refer to existing variables, and images show variables with their properties.
func TestDiagrams(t *testing.T) {
	c := demo.Content(user, profile)
	byID := known(c)
	for _, d := range c.Diagrams {
		bound := 0
		for _, line := range d.Lines {
			id := read[struct {
				Variable record.ID `json:"id_tsvars"`
			}](t, line.Members).Variable
			if id == (record.ID{}) {
				continue
			}
			if _, ok := byID[id]; !ok {
				t.Errorf("line %d is bound to %s", line.ID, id)
			}
			bound++
		}
		for _, image := range d.Images {
			for _, v := range read[struct{ Variables []variable }](t, image.Members).Variables {
				checkShown(t, d.Title, v, byID[v.ID])
				bound++
			}
		}
		if len(d.Lines) == 0 || len(d.Images) == 0 || len(d.Texts) == 0 || len(d.Polylines) == 0 || bound < 10 || bound >= 50 {
			t.Errorf("diagram %d shows %d variables", d.ID, bound)
		}
	}
	if len(c.Diagrams) != 2 {
		t.Errorf("%d diagrams", len(c.Diagrams))
	}
}

// TestImport: the store accepts the content, and a second import changes nothing.
func TestImport(t *testing.T) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "records.db"), sqlite.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	tenant := record.Tenant{Schema: "demo", TsName: "demo"}
	if err := store.CreateTenant(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	content := demo.Content(user, profile)
	if err := content.Validate(); err != nil {
		t.Fatal(err)
	}
	var exports [2]record.Content
	for i := range exports {
		if err := store.Import(t.Context(), "demo", content); err != nil {
			t.Fatal(err)
		}
		if exports[i], err = store.Export(t.Context(), "demo"); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(exports[0], exports[1]) {
		t.Errorf("%+v\nthen\n%+v", exports[0], exports[1])
	}
	d, err := store.Diagram(t.Context(), "demo", 1)
	if err != nil {
		t.Fatal(err)
	}
	if v := d.Lines[0].Variable; v == nil || v.Name != "Caudal de entrada al embalse" {
		t.Errorf("line 1 shows %v", v)
	}
}

// TestGrants: the user may do everything, the profile may only read.
func TestGrants(t *testing.T) {
	c := demo.Content(user, profile)
	ofProfile := slices.DeleteFunc(slices.Clone(c.Permissions), func(p record.Permission) bool { return p.User != nil })
	names := map[int64]string{}
	for _, menu := range c.Menus {
		names[menu.ID] = menu.Name
		if !record.Granted(c.Permissions, menu.ID) {
			t.Errorf("the user may not use %s", menu.Name)
		}
		if want := menu.ID != demo.SaveMenu && menu.ID != demo.PublishMenu && menu.Name != "Permisos"; record.Granted(ofProfile, menu.ID) != want {
			t.Errorf("the profile may use %s: %v", menu.Name, !want)
		}
	}
	if names[demo.SaveMenu] != "Editor de diagramas" || names[demo.PublishMenu] != "Configuración de equipos" {
		t.Errorf("saving is %q, publishing %q", names[demo.SaveMenu], names[demo.PublishMenu])
	}
	for _, p := range c.Permissions {
		if p.User != nil && *p.User != user || p.Profile != nil && *p.Profile != profile {
			t.Errorf("permission %d is for others", p.ID)
		}
	}
	if len(c.Notifications) != 2 {
		t.Errorf("%d kinds of devices", len(c.Notifications))
	}
}
