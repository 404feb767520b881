package content

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"tsmon/store/record"
)

func readNetwork(t testing.TB) record.Content {
	t.Helper()
	file, err := os.Open("../../../cmd/tsmon/testdata/content/network.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	f, err := Read(file.Name(), file)
	if err != nil {
		t.Fatal(err)
	}
	return f.Content
}

// TestContentComesBack: what is written, as YAML and as JSON, is read as the same.
func TestContentComesBack(t *testing.T) {
	owned := Owned{Content: readNetwork(t), Users: Users{
		{ID: 3, Email: "Ñ@b", Profile: 7, Admin: true, TokenDigest: bytes.Repeat([]byte{0, 0xff}, 16)}, {ID: 4, Email: "b@b", Disabled: true},
	}}
	want, err := EncodeJSON(owned)
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range []string{`"serial": 123456789012345678901234567890`, `"zoom": 1.50`, `1e2`, `"label": "1.0"`, `\u202e\u001b`} {
		if !strings.Contains(string(want), kept) {
			t.Errorf("%s was not kept:\n%s", kept, want)
		}
	}
	asYAML, err := EncodeYAML(owned)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"a.yaml": asYAML, "a.json": want, "json without its name": want} {
		f, err := Read(name, bytes.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		if got, err := EncodeJSON(f.Owned); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
}

func TestContentMistakes(t *testing.T) {
	bomb := "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
	for name, c := range map[string]struct{ file, text, want string }{
		"unknown section":     {"a.yaml", "menus: []\nmenues: []\n", `line 2: the file has no member "menues"`},
		"unknown member":      {"a.yaml", "menus:\n  - {id: 1, name: x}\n  - {id: 2, name: y, colour: red}\n", `line 3: menus[1] has no member "colour"`},
		"users":               {"a.yaml", "users:\n  - {id: 1, email: a}\n", `line 2: users[0]: not valid: "a" is not an e-mail address`},
		"a user's token":      {"a.yaml", "users:\n  - {id: 1, email: a@b, tokenApp: x}\n", `line 2: users[0] has no member "tokenApp"`},
		"a short digest":      {"a.yaml", "users:\n  - {id: 1, email: a@b, token_digest: \"00ff\"}\n", "line 2: users[0].token_digest is not the 64 hexadecimal digits"},
		"no digest":           {"a.yaml", "users:\n  - {id: 1, email: a@b, token_digest: []}\n", "line 2: users[0].token_digest is not"},
		"user twice":          {"a.yaml", "users:\n  - {id: 1, email: a@b}\n  - {id: 1, email: b@b}\n", "line 3: users[1] has the id of line 2, 1"},
		"address twice":       {"a.yaml", "users:\n  - {id: 1, email: a@b}\n  - {id: 2, email: A@b}\n", "users[1]: not valid: duplicate of users[0]"},
		"user zero":           {"a.yaml", "users:\n  - {id: 0, email: a@b}\n", "line 2: users[0]: not valid: id 0 is not between 1 and"},
		"unknown in JSON":     {"a.json", "{\n \"menus\": [\n  {\"id\": 1, \"name\": \"x\",\n   \"colour\": 1}]}", `line 4: menus[0] has no member "colour"`},
		"other case":          {"a.yaml", "menus:\n  - {ID: 1, name: x}\n", `line 2: menus[0] has no member "ID"; line 2: menus[0] lacks the member id`},
		"all are named":       {"a.yaml", "charts: {}\nmenus:\n  - {id: x, name: 1}\n", "line 1: charts is not a list but an object; line 3: menus[0].id is not an integer but a text; line 3: menus[0].name is not a text but a number"},
		"not so many":         {"a.yaml", "menus: [" + strings.Repeat("1,", 30) + "]\n", "and 20 more"},
		"wrong type":          {"a.yaml", "variables:\n  - id: 1\n    name: x\n    calc: yes\n    varsTs: {}\n", "line 4: variables[0].calc is not true or false but a text"},
		"fraction":            {"a.yaml", "diagrams:\n  - id: 1.5\n", "line 2: diagrams[0].id is not an integer of 64 bits: 1.5"},
		"huge":                {"a.yaml", "diagrams:\n  - id: 99999999999999999999\n", "line 2: diagrams[0].id is not an integer of 64 bits"},
		"id of a variable":    {"a.yaml", "variables:\n  - {id: 1.5, name: x, varsTs: {}}\n", "line 2: variables[0].id is neither a text nor an integer"},
		"type of a variable":  {"a.yaml", "variables:\n  - {id: 1, name: x, type: median, varsTs: {}}\n", "line 2: variables[0].type is none of number, last,"},
		"half a series":       {"a.yaml", "variables:\n  - {id: 1, name: x,\n     varsTs: {measurement: m}}\n", "line 3: variables[0].varsTs lacks the member field"},
		"operand":             {"a.yaml", "variables:\n  - id: 1\n    name: x\n    varsTs:\n      a: {measure: m}\n", "line 5: variables[0].varsTs.a lacks the member calc_field"},
		"line without an id":  {"a.yaml", "diagrams:\n  - id: 1\n    lines:\n      - {id_tsvars: 1}\n", "line 4: diagrams[0].lines[0] lacks the member id"},
		"bound to a fraction": {"a.yaml", "diagrams:\n  - id: 1\n    lines: [{id: 1,\n      id_tsvars: 1.5}]\n", "line 4: diagrams[0].lines[0].id_tsvars is neither"},
		"zero":                {"a.yaml", "menus:\n  - {id: 1, name: x}\n  - {id: 0, name: y}\n", "line 3: menus[1]: not valid: id 0 is not positive"},
		"both holders":        {"a.yaml", "permissions:\n\n  - {id: 1, id_menu: 1, id_user: 1, id_profile: 1}\n", "line 3: permissions[0]: not valid: exactly one of"},
		"id twice":            {"a.yaml", "variables:\n  - {id: 7, name: x, varsTs: {}}\n  - {id: \"7\", name: y, varsTs: {}}\n", "line 3: variables[1] has the id of line 2, 7"},
		"hexadecimal twice":   {"a.yaml", "menus:\n  - {id: 31, name: x}\n  - {id: 0x1f, name: y}\n", "line 3: menus[1] has the id of line 2, 31"},
		"object twice":        {"a.yaml", "diagrams:\n  - {id: 1, texts: [{id: 5}]}\n  - {id: 2, texts: [{id: 5}]}\n", "line 3: text 5 is also in the diagram of line 2"},
		"object twice in one": {"a.yaml", "diagrams:\n  - {id: 1, texts: [{id: 5}, {id: 5}]}\n", "line 2: diagrams[0]: not valid: text 5"},
		"member twice":        {"a.yaml", "menus:\n  - id: 1\n    name: x\n    name: y\n", `line 4: menus[0] has the member "name" twice, first in line 3`},
		"twice in a chart":    {"a.json", "{\"charts\": [{\"id\": 1, \"data\": [{\"x\": 1,\n\"x\": 2}]}]}", `line 2: charts[0].data[0] has the member "x" twice, first in line 1`},
		"NUL":                 {"a.yaml", "menus:\n  - {id: 1, name: \"a\\0\"}\n", "line 2: menus[0]: not valid: name contains a NUL"},
		"not a number":        {"a.yaml", "charts:\n  - id: 1\n    x: .inf\n", `line 3: ".inf" is not a number`},
		"tag":                 {"a.yaml", "charts:\n  - id: 1\n    x: !!binary aGk=\n", `line 3: the tag "!!binary" is not supported`},
		"own tag":             {"a.yaml", "charts:\n  - id: 1\n    x: !own {}\n", `line 3: the tag "!own" is not supported`},
		"false boolean":       {"a.yaml", "charts:\n  - id: 1\n    x: !!bool maybe\n", `line 3: "maybe" is neither true nor false`},
		"bomb":                {"a.yaml", bomb, "line 1: anchors and aliases are not supported"},
		"an equation":         {"a.yaml", "variables:\n  - {id: 1, name: a, calc: true, equation: a +, varsTs: {a: {measure: m, calc_field: f}}}\n", "line 2: variables[0]: equation"},
		"no equation":         {"a.yaml", "variables:\n  - {id: 1, name: a, calc: true, varsTs: {a: {measure: m, calc_field: f}}}\n", "line 2: variables[0]: equation is missing"},
		"a field's name":      {"a.yaml", "variables:\n  - {id: 1, name: a, varsTs: {measurement: m, field: _f}}\n", "line 2: variables[0]: varsTs"},
		"a chart's variable":  {"a.yaml", "charts:\n  - id: 1\n    component: Gauge\n    data:\n      tsVar: {varsTs: {measurement: m}}\n", "line 5: charts[0].data.tsVar.varsTs lacks the member field"},
		"a chart's equation":  {"a.yaml", "charts:\n  - id: 1\n    data:\n      v: {calc: true, equation: 1 +, varsTs: {measurement: m, field: f}}\n", "line 4: charts[0].data.v: equation"},
		"a pump":              {"a.yaml", "charts:\n  - id: 1\n    component: PumpControl\n    data:\n      initialPumps:\n        - {varId: 1, name: B1, value: 5}\n", "line 6: charts[0].data.initialPumps[0].value is not an object"},
		"a pump's state":      {"a.yaml", "charts:\n  - id: 1\n    component: PumpControl\n    data:\n      initialStates:\n        - {varId: 1, value: {measurement: m, field: f}}\n", "line 6: charts[0].data.initialStates[0] lacks the member name"},
		"a pump's equation":   {"a.yaml", "charts:\n  - id: 1\n    component: PumpControl\n    data:\n      initialPumps:\n        - {varId: 1, name: B1, calc: true, equation: f +* 1, value: {measurement: m, field: f}}\n", "line 6: charts[0].data.initialPumps[0]: equation"},
		"a boolean's":         {"a.yaml", "charts:\n  - id: 1\n    component: MultipleBooleanChart\n    data:\n      items:\n        - tsVar: {name: x}\n", "line 6: charts[0].data.items[0].tsVar lacks the member varsTs"},
		"circle":              {"a.yaml", "charts: &a [*a]\n", "line 1: anchors and aliases are not supported"},
		"merge":               {"a.yaml", "charts:\n  - {id: 1, <<: {x: 1}}\n", "line 2: the name of a member must be a text"},
		"list as a name":      {"a.yaml", "charts:\n  - {id: 1, ? [a] : 1}\n", "line 2: the name of a member must be a text"},
		"deep YAML":           {"a.yaml", "charts:\n  - {id: 1, x: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}\n", "line 2: nested deeper than 64 levels"},
		"very deep YAML":      {"a.yaml", strings.Repeat("[", 1<<20), "exceeded max depth"},
		"very deep blocks":    {"a.yaml", strings.Repeat("- ", 1<<20), "exceeded max depth"},
		"deep JSON":           {"a.json", "[\n" + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "]", "line 2: nested deeper than 64 levels"},
		"very deep JSON":      {"a.json", strings.Repeat("[", 1<<20), "line 1: not JSON: invalid character '[' exceeded max depth"},
		"two documents":       {"a.yaml", "menus: []\n---\nmenus: []\n", "a second document begins"},
		"not YAML":            {"a.yaml", "menus: 1\n  charts: [\n", "line 2"},
		"not JSON":            {"a.json", "{\n\"menus\": [],\n}", "line 3: not JSON"},
		"JSON that ends":      {"a.json", "{\n\"menus\": [\n", "line 2: not JSON: unexpected end"},
		"JSON twice":          {"a.json", "{}\n{}", "line 2: not JSON: invalid character '{' after top-level value"},
		"a list":              {"a.yaml", "- 1\n", "line 1: the file is not an object but a list"},
		"not UTF-8":           {"a.json", "{\"menus\": [{\"id\": 1, \"name\": \"\xff\"}]}", "line 1: not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(c.file, strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), c.file+": ") {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%v is not ErrInvalid", err)
			}
			if err != nil && len(err.Error()) > 4000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestContentEmpty(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "{}", "menus: []\n"} {
		if _, err := Read("a.yaml", strings.NewReader(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzContent holds that whatever is read is written as something that is read
// as the same, both ways, and that neither way can act on a terminal.
func FuzzContent(f *testing.F) {
	network, err := os.ReadFile("../../../cmd/tsmon/testdata/content/network.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(network))
	f.Add(`{"charts": [{"id": 1, "x": "\u0085\u2028\ufeff\n  a: b\t", "": 1e400, "~": -0, "y": 0.10}]}`)
	f.Add("charts: [{id: 0x1f, x: 1_000, y: 2024-01-01, z: .5, ? : x, 'é ': |\n  a\n\n  }]")
	f.Add("notifications: {a: {? \"\\x85\" : {1.0: []}}}")
	f.Add("users: [{id: 1, email: é@b, profile: 0x7, disabled: true, token_digest: '" + strings.Repeat("00", 32) + "'}]")
	f.Fuzz(func(t *testing.T, text string) {
		first, err := Read("a.yaml", strings.NewReader(text))
		if err != nil {
			return
		}
		for name, encode := range map[string]func(Owned) ([]byte, error){"a.yaml": EncodeYAML, "a.json": EncodeJSON} {
			written, err := encode(first.Owned)
			if err != nil {
				t.Fatal(err)
			}
			if strings.ContainsFunc(string(written), isActive) {
				t.Fatalf("%s acts: %q", name, written)
			}
			second, err := Read(name, bytes.NewReader(written))
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, written)
			}
			if got, want := decoded(t, second.Owned), decoded(t, first.Owned); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %v, want %v\n%s", name, got, want, written)
			}
		}
	})
}

// decoded is a content as values, numbers as they are written.
func decoded(t *testing.T, c Owned) (v any) {
	data, err := json.Marshal(c.filled())
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
