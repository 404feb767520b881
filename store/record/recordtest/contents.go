package recordtest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"tsmon/store/record"
)

func ptr[T any](v T) *T { return &v }

// sample returns the content of a small tenant, in the order in which a store returns it.
func sample() record.Content {
	return record.Content{
		Variables: []record.Variable{
			{ID: record.ID{Text: "z última"}, Name: "Presión", Unit: ptr("bar"), Type: "number", Status: true, VarsTs: raw(`{"measurement":"p 1","field":"p","calc_field":"p_c","x":1.0}`)},
			{ID: record.ID{Text: "10", Integer: true}, Name: "Nivel", Type: "number", VarsTs: raw(`{"measurement":"n","field":"n"}`)},
			{ID: record.ID{Text: "9", Integer: true}, Name: "Suma", Unit: ptr(""), Type: "number", Calc: true, Equation: ptr("a-1 + ñ"), Status: true, VarsTs: raw(`{"a-1":{"calc_field":"c","measure":"m"},"ñ":{"calc_field":"c","measure":"m"}}`)},
			{ID: record.ID{Text: "123456789012345678901234567890", Integer: true}, Name: "Grande", Type: "number", VarsTs: raw(`{"measurement":"g","field":"g"}`)},
		},
		Diagrams: []record.Diagram{
			{ID: 1, Title: "Red", Status: 1, BackgroundColor: "#fff", Members: raw(`{"zoom":1.0}`), Objects: record.Objects{
				Lines: []record.Object{{ID: 1, Members: raw(`{"id_tsvars":9,"animation":1}`)}, {ID: 4, Members: raw(`{"id_tsvars":"z última"}`)}},
				Texts: []record.Object{{ID: 1, Members: raw(`{"text":"a\u0000"}`)}},
			}},
			{ID: 7, Title: "Vacío", Status: -3, BackgroundImg: "/a.png"},
		},
		Menus:       []record.Menu{{ID: 1, Name: "Mapa", Icon: "map", Path: "/mapa", Status: true}, {ID: 2, Name: "Ñ"}},
		Permissions: []record.Permission{{ID: 1, Menu: 1, Profile: ptr(int64(3)), Status: true}, {ID: 5, Menu: 1, User: ptr(int64(1))}, {ID: 6, Menu: 2, User: ptr(int64(2)), Status: true}},
		Notifications: record.NotifyConfig{
			"gateway": {"acme": {"1.0": {{ID: 2, EventTs: 20, Alarm: true}, {ID: 1, EventTs: 10}}, "2": {}}, "otra marca": {"": {{ID: 1 << 60}}}},
			"sensor":  {"x": {"v": {{ID: 1}}}},
		},
		Charts: []record.Chart{
			{ID: record.ID{Text: "3", Integer: true}, JSON: raw(`{"id":3,"component":"PumpControl","props":{"n":1.0},"data":{"initialPumps":[]}}`)},
			{ID: record.ID{Text: "a"}, JSON: raw(`{"component":null, "id":"a"}`)},
			{ID: record.ID{Text: "1", Integer: true}, JSON: raw(`{"id":1}`)},
		},
	}
}

func importExport(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	for range 2 {
		check(t, s.Import(ctx, schema, sample()))
		equal(t, "content", must(s.Export(ctx, schema))(t), sample())
	}
	data := must(json.Marshal(sample()))(t)
	var decoded record.Content
	check(t, json.Unmarshal(data, &decoded))
	check(t, s.Import(ctx, schema, decoded))
	again := must(s.Export(ctx, schema))(t)
	equal(t, "content by way of JSON", string(must(json.Marshal(again))(t)), string(data))

	single(t, s, again)
	id := save(t, s, schema, record.Diagram{Title: "next", Objects: record.Objects{Lines: drawing(3, "a")}})
	if id <= 7 {
		t.Fatalf("a new diagram has the id %d", id)
	}
}

// single reads the sections of a content one by one.
func single(t *testing.T, s record.Store, want record.Content) {
	ctx := t.Context()
	equal(t, "variables", must(s.Variables(ctx, schema))(t), want.Variables)
	equal(t, "menus", must(s.Menus(ctx, schema))(t), want.Menus)
	equal(t, "notification configuration", must(s.NotifyConfig(ctx, schema))(t), want.Notifications)
	equal(t, "charts", must(s.Charts(ctx, schema))(t), want.Charts)
	equal(t, "variable of a line", read(t, s, schema, 1).Lines[0].Variable.Name, "Suma")
}

// importOrder imports variables and charts in several calls.
func importOrder(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	for _, c := range []struct{ keys, want string }{
		{"abc", "abc"}, {"de", "abcde"}, {"de", "abcde"}, {"abc", "abcde"}, {"d", "abcde"}, {"cba", "cbade"}, {"exaf", "cbedaxf"},
	} {
		var content record.Content
		for _, key := range c.keys {
			id := record.ID{Text: string(key)}
			content.Variables = append(content.Variables, record.Variable{ID: id, Name: c.keys, VarsTs: raw(`{}`)})
			content.Charts = append(content.Charts, record.Chart{ID: id, JSON: raw(`{"id":%q}`, id)})
		}
		check(t, s.Import(t.Context(), schema, content))
		got := must(s.Export(t.Context(), schema))(t)
		var variables, charts string
		for _, v := range got.Variables {
			variables += v.ID.Text
		}
		for _, chart := range got.Charts {
			charts += chart.ID.Text
		}
		equal(t, "variables after "+c.keys, variables, c.want)
		equal(t, "charts after "+c.keys, charts, c.want)
	}
}

func importMerges(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	check(t, s.Import(ctx, schema, sample()))
	save(t, s, schema, record.Diagram{ID: 1, Objects: record.Objects{Lines: drawing(3, "drawn")}})
	check(t, s.Import(ctx, schema, record.Content{
		Diagrams:      []record.Diagram{{ID: 1, Title: "less", Objects: record.Objects{Lines: []record.Object{{ID: 4, Members: raw(`{}`)}}}}},
		Menus:         []record.Menu{{ID: 2, Name: "two"}, {ID: 3, Name: "three"}},
		Notifications: record.NotifyConfig{"sensor": {"x": {"v": {{ID: 9}}, "w": {}}}},
	}))
	got := must(s.Export(ctx, schema))(t)
	want := sample()
	want.Diagrams[0] = record.Diagram{ID: 1, Title: "less", Objects: record.Objects{Lines: []record.Object{{ID: 4, Members: raw(`{}`)}}}}
	want.Menus = []record.Menu{want.Menus[0], {ID: 2, Name: "two"}, {ID: 3, Name: "three"}}
	want.Notifications["sensor"] = map[string]map[string][]record.NotifyEntry{"x": {"v": {{ID: 9}}, "w": {}}}
	equal(t, "content", got, want)
}

func importInvalid(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	check(t, s.Import(t.Context(), schema, sample()))
	for name, change := range map[string]func(c *record.Content){
		"VariableWithoutID":   func(c *record.Content) { c.Variables[1].ID = record.ID{} },
		"VariableTwice":       func(c *record.Content) { c.Variables[1].ID = record.ID{Text: "9"} },
		"VariableNUL":         func(c *record.Content) { c.Variables[1].Name = "\x00" },
		"VariableArray":       func(c *record.Content) { c.Variables[1].VarsTs = raw(`[]`) },
		"VariableNoVarsTs":    func(c *record.Content) { c.Variables[1].VarsTs = nil },
		"VariableMeasurement": func(c *record.Content) { c.Variables[1].VarsTs = raw(`{"measurement":"\u0000","field":"f"}`) },
		"VariableLongField":   func(c *record.Content) { c.Variables[1].VarsTs = raw(`{"measurement":"m","field":"%0300d"}`, 1) },
		"NotificationLong":    func(c *record.Content) { c.Notifications[strings.Repeat("ñ", 200)] = c.Notifications["sensor"] },
		"DiagramWithoutID":    func(c *record.Content) { c.Diagrams[1].ID = 0 },
		"DiagramTwice":        func(c *record.Content) { c.Diagrams[1].ID = 1 },
		"ObjectWithoutID":     func(c *record.Content) { c.Diagrams[1].Lines = drawing(1, "x") },
		"ObjectTwice":         func(c *record.Content) { c.Diagrams[1].Lines = []record.Object{{ID: 4}} },
		"MenuWithoutID":       func(c *record.Content) { c.Menus[1].ID = 0 },
		"MenuNotUTF8":         func(c *record.Content) { c.Menus[1].Icon = "\xff" },
		"PermissionOfNobody":  func(c *record.Content) { c.Permissions[1].User = nil },
		"PermissionOfBoth":    func(c *record.Content) { c.Permissions[1].Profile = ptr(int64(1)) },
		"PermissionNoMenu":    func(c *record.Content) { c.Permissions[1].Menu = 77 },
		"PermissionTwice":     func(c *record.Content) { c.Permissions[1].ID = 1 },
		"NotificationNUL":     func(c *record.Content) { c.Notifications["a\x00"] = c.Notifications["sensor"] },
		"ChartWithoutID":      func(c *record.Content) { c.Charts[1].ID = record.ID{} },
		"ChartTwice":          func(c *record.Content) { c.Charts[1].ID = record.ID{Text: "3"} },
		"ChartNoObject":       func(c *record.Content) { c.Charts[1].JSON = raw(`"a"`) },
	} {
		t.Run(name, func(t *testing.T) {
			c := sample()
			for i := range c.Menus {
				c.Menus[i].Name = "changed"
			}
			c.Variables[0].Name = "changed"
			change(&c)
			demand(t, s.Import(t.Context(), schema, c), record.ErrInvalid, "import")
			equal(t, "what stands", must(s.Export(t.Context(), schema))(t), sample())
		})
	}
}

func importConflict(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	check(t, s.Import(t.Context(), schema, sample()))
	c := record.Content{
		Menus:    []record.Menu{{ID: 1, Name: "changed"}},
		Diagrams: []record.Diagram{{ID: 7, Objects: record.Objects{Lines: []record.Object{{ID: 99}, {ID: 4}}}}},
	}
	conflict(t, s.Import(t.Context(), schema, c), record.Line, 4)
	equal(t, "what stands", must(s.Export(t.Context(), schema))(t), sample())
}

// importMoves moves an object from one diagram to another, and exchanges two others.
func importMoves(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	c := sample()
	check(t, s.Import(t.Context(), schema, c))
	c.Diagrams[0].Objects, c.Diagrams[1].Objects = c.Diagrams[1].Objects, c.Diagrams[0].Objects
	slices.Reverse(c.Diagrams)
	check(t, s.Import(t.Context(), schema, c))
	slices.Reverse(c.Diagrams)
	equal(t, "content", must(s.Export(t.Context(), schema))(t), c)
}

func variablesByField(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	check(t, s.Import(ctx, schema, sample()))
	check(t, s.Import(ctx, schema, record.Content{Variables: []record.Variable{
		{ID: record.ID{Text: "one"}, VarsTs: raw(`{"measurement":"twice","field":"f"}`)},
		{ID: record.ID{Text: "two"}, VarsTs: raw(`{"measurement":"twice","field":"f"}`)},
		{ID: record.ID{Text: "odd"}, VarsTs: raw(`{"measurement":{"calc_field":"c","measure":"m"},"field":"f"}`)},
	}}))
	f := func(m, f string) record.Field { return record.Field{Measurement: m, Field: f} }
	got, err := s.VariablesByField(ctx, schema, []record.Field{
		f("p 1", "p"), f("n", "n"), f("n", "n"), f("twice", "f"), f("g", "g"), f("absent", "x"), f("", ""), f("", "f"), f("n", "n\x00"), f("\xff", "n"), f("n' OR '1'='1", "n"),
	})
	check(t, err)
	equal(t, "ids", got, map[record.Field]record.ID{
		f("p 1", "p"): {Text: "z última"}, f("n", "n"): {Text: "10", Integer: true}, f("g", "g"): {Text: "123456789012345678901234567890", Integer: true},
	})
	equal(t, "ids of nothing", len(must(s.VariablesByField(ctx, schema, nil))(t)), 0)
}

func permissions(t *testing.T, s record.Store) {
	ctx := t.Context()
	makeTenant(t, s, schema)
	check(t, s.Import(ctx, schema, sample()))
	all := sample().Permissions
	for _, c := range []struct {
		user, profile int64
		want          []record.Permission
	}{
		{1, 3, all[:2]}, {0, 3, all[:1]}, {2, 0, all[2:]}, {0, 0, nil}, {3, 1, nil}, {-1, -1, nil},
	} {
		equal(t, "permissions", must(s.Permissions(ctx, schema, c.user, c.profile))(t), c.want)
	}
}

// empty reads a tenant without content.
func empty(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	check(t, s.Import(t.Context(), schema, record.Content{}))
	equal(t, "content", must(s.Export(t.Context(), schema))(t), record.Content{Notifications: record.NotifyConfig{}})
	equal(t, "permissions", len(must(s.Permissions(t.Context(), schema, 1, 1))(t)), 0)
}
