package recordtest

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"tsmon/store/record"
)

func saveNew(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	d := record.Diagram{
		Title: "Depósito Nº 3 — 水塔 🚰 \u2028 </script>", Status: math.MinInt64, BackgroundColor: "#ffF", BackgroundImg: "",
		Members: raw(`{"zoom":1.50,"grid":null}`),
		Objects: record.Objects{
			Lines: drawing(3, "a"), Images: []record.Object{{Members: raw(`{"src":"x.png"}`)}},
			Texts: []record.Object{{}, {Members: raw(`{}`)}}, Polylines: []record.Object{{Members: raw(`{"points":[]}`)}},
		},
	}
	first, second := save(t, s, schema, d), save(t, s, schema, d)
	if first < 1 || second == first {
		t.Fatalf("ids of two new diagrams are %d and %d", first, second)
	}
	used := map[record.Ref]bool{}
	for _, id := range []int64{first, second} {
		got := read(t, s, schema, id)
		n := 0
		for kind, o := range got.All() {
			n++
			ref := record.Ref{Kind: kind, ID: o.ID}
			if o.ID < 1 || used[ref] || o.Variable != nil {
				t.Fatalf("%v is %+v", ref, o)
			}
			used[ref] = true
		}
		equal(t, "number of objects", n, 7)
		equal(t, "members of a line", string(got.Lines[1].Members), string(d.Lines[1].Members))
		equal(t, "members of a text", string(got.Texts[0].Members), "{}")
		got.ID, got.Objects = 0, d.Objects
		equal(t, "the diagram", got, d)
	}
}

func saveAgain(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	id := save(t, s, schema, record.Diagram{Title: "one", Members: raw(`{"a":1}`), Objects: record.Objects{Lines: drawing(4, "a"), Texts: drawing(1, "a")}})
	d := read(t, s, schema, id)
	lines := ids(d.Lines)

	change := record.Diagram{ID: id, Title: "two", Status: 5, Objects: record.Objects{Lines: drawing(2, "b")}}
	change.Lines[0].ID = lines[1]
	deleted := record.Deleted{Lines: []int64{lines[0], 1 << 40}, Images: []int64{1, 2}, Polylines: []int64{d.Texts[0].ID}}
	equal(t, "id", must(s.SaveDiagram(t.Context(), schema, change, deleted))(t).Diagram, id)

	d = read(t, s, schema, id)
	if d.Title != "two" || d.Status != 5 || d.Members != nil || len(d.Texts) != 1 {
		t.Fatalf("the diagram is %s", show(d))
	}
	equal(t, "lines that stayed", ids(d.Lines)[:3], lines[1:])
	equal(t, "marks", marks(t, d), map[string]int{"a": 2, "b": 2})
	equal(t, "the changed line", string(d.Lines[0].Members), string(change.Lines[0].Members))
	if d.Lines[3].ID <= lines[3] {
		t.Fatalf("the new line has the id %d, after %v", d.Lines[3].ID, lines)
	}
}

func saveUnknown(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	save(t, s, schema, record.Diagram{Title: "one"})
	for _, id := range []int64{2, 12345, math.MaxInt64} {
		demand(t, errorOf(s.Diagram(t.Context(), schema, id)), record.ErrNotFound, "read")
		demand(t, errorOf(s.SaveDiagram(t.Context(), schema, record.Diagram{ID: id, Objects: record.Objects{Lines: drawing(1, "x")}}, record.Deleted{})), record.ErrNotFound, "save")
		demand(t, errorOf(s.Diagram(t.Context(), schema, id)), record.ErrNotFound, "read again")
	}
	for _, id := range []int64{0, -1, math.MinInt64} {
		demand(t, errorOf(s.Diagram(t.Context(), schema, id)), record.ErrNotFound, "read")
	}
}

func saveInvalid(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	lines := func(list ...record.Object) record.Diagram {
		return record.Diagram{ID: 1, Title: "bad", Objects: record.Objects{Lines: list}}
	}
	save(t, s, schema, record.Diagram{Title: "good"})
	for name, c := range map[string]struct {
		d       record.Diagram
		deleted record.Deleted
	}{
		"NegativeDiagram":  {d: record.Diagram{ID: -1}},
		"NegativeLine":     {d: lines(record.Object{ID: -1})},
		"NUL":              {d: record.Diagram{ID: 1, Title: "a\x00"}},
		"NotUTF8":          {d: record.Diagram{ID: 1, BackgroundImg: "\xff"}},
		"MembersNotUTF8":   {d: lines(record.Object{Members: json.RawMessage("{\"a\":\"\xff\"}")})},
		"MembersArray":     {d: lines(record.Object{Members: raw(`[]`)})},
		"MembersTruncated": {d: lines(record.Object{Members: raw(`{"a":`)})},
		"MembersTrailing":  {d: lines(record.Object{Members: raw(`{} {}`)})},
		"MembersOfHead":    {d: record.Diagram{ID: 1, Members: raw(`{"title":"x"}`)}},
		"MembersNull":      {d: record.Diagram{ID: 1, Members: raw(`null`)}},
		"VariableBoolean":  {d: lines(record.Object{Members: raw(`{"id_tsvars":true}`)})},
		"VariableFloat":    {d: lines(record.Object{Members: raw(`{"id_tsvars":1.5}`)})},
		"VariableNUL":      {d: lines(record.Object{Members: raw(`{"id_tsvars":"\u0000"}`)})},
		"Twice":            {d: lines(record.Object{ID: 5}, record.Object{ID: 5})},
		"TwiceDeleted":     {d: lines(record.Object{ID: 5}), deleted: record.Deleted{Lines: []int64{5}}},
	} {
		t.Run(name, func(t *testing.T) {
			demand(t, errorOf(s.SaveDiagram(t.Context(), schema, c.d, c.deleted)), record.ErrInvalid, "save")
			equal(t, "what stands", read(t, s, schema, 1), record.Diagram{ID: 1, Title: "good"})
		})
	}
}

func saveForeignObjects(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	theirs := save(t, s, schema, record.Diagram{Title: "theirs", Objects: record.Objects{Lines: drawing(2, "t"), Images: drawing(1, "t"), Texts: drawing(1, "t"), Polylines: drawing(1, "t")}})
	mine := save(t, s, schema, record.Diagram{Title: "mine", Objects: record.Objects{Lines: drawing(2, "m")}})
	before, other := read(t, s, schema, mine), read(t, s, schema, theirs)
	for kind, foreign := range other.All() {
		d := record.Diagram{ID: mine, Title: "stolen", Objects: record.Objects{Lines: drawing(2, "new")}}
		deleted := record.Deleted{Lines: []int64{before.Lines[0].ID}}
		deleted.Add(kind, foreign.ID)
		_, err := s.SaveDiagram(t.Context(), schema, d, deleted)
		conflict(t, err, kind, foreign.ID)

		d.Add(kind, record.Object{ID: foreign.ID, Members: raw(`{"mark":"stolen"}`)})
		_, err = s.SaveDiagram(t.Context(), schema, d, record.Deleted{})
		conflict(t, err, kind, foreign.ID)
		d.ID = 0
		_, err = s.SaveDiagram(t.Context(), schema, d, record.Deleted{})
		conflict(t, err, kind, foreign.ID)
	}
	equal(t, "the other diagram", read(t, s, schema, theirs), other)
	equal(t, "the diagram", read(t, s, schema, mine), before)
	equal(t, "number of diagrams", len(must(s.Export(t.Context(), schema))(t).Diagrams), 2)
}

func conflict(t *testing.T, err error, kind record.Kind, id int64) {
	t.Helper()
	var c *record.ConflictError
	if !errors.As(err, &c) || !errors.Is(err, record.ErrConflict) || c.Object != (record.Ref{Kind: kind, ID: id}) {
		t.Fatalf("the error is %v, want a conflict about %s %d", err, kind, id)
	}
}

// saveChosenIDs saves objects with ids that the store would assign next.
func saveChosenIDs(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	var chosen []record.Object
	for _, id := range []int64{2, 3, 5, 8, 9, 10, 11, 12, 13, 1 << 53, math.MaxInt64} {
		chosen = append(chosen, record.Object{ID: id, Members: raw(`{"mark":"chosen"}`)})
	}
	one := save(t, s, schema, record.Diagram{Objects: record.Objects{Lines: chosen}})
	two := save(t, s, schema, record.Diagram{Objects: record.Objects{Lines: append(drawing(10, "new"), record.Object{ID: 16, Members: raw(`{"mark":"new"}`)})}})
	equal(t, "chosen ids", ids(read(t, s, schema, one).Lines), ids(chosen))
	equal(t, "lines of the first", marks(t, read(t, s, schema, one)), map[string]int{"chosen": len(chosen)})
	equal(t, "lines of the second", marks(t, read(t, s, schema, two)), map[string]int{"new": 11})
	save(t, s, schema, record.Diagram{ID: one, Objects: record.Objects{Texts: drawing(3, "x"), Lines: drawing(3, "more")}})
	equal(t, "lines then", marks(t, read(t, s, schema, one)), map[string]int{"chosen": len(chosen), "more": 3})
}

// members saves JSON that decoding into a struct would change.
func members(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	for name, text := range map[string]string{
		"BigInteger":  `{"n":123456789012345678901234567890,"m":-9223372036854775809,"k":9007199254740993}`,
		"Number":      `{"a":1.0,"b":1.50,"c":1e2,"d":-0,"e":0.1e-400,"f":1E+5}`,
		"Null":        `{"a":null,"points":null,"id_tsvars":null,"status":null}`,
		"Strange":     `{"":"","a b":1,"__proto__":{},"ID":3,"Id":4,"$ref":"#","'":"\""}`,
		"Escapes":     `{"a":"\u0000\u0001\ud83d\udca7\/\u00f1","\u0061":2,"b":"<>&\u003c"}`,
		"Lone":        `{"a":"\ud800","b":"\udc00x"}`,
		"Unicode":     `{"ñandú 💧":"水\u2028","rtl":"` + "\u202e" + `","nfd":"` + "n\u0303" + `"}`,
		"Duplicates":  `{"a":1,"a":2,"b":{"c":1,"c":2}}`,
		"Order":       `{"z":1,"a":2,"m":{"z":1,"a":2}}`,
		"Nested":      `{"a":[[[[[[[[[[[[[[[[{"b":[]}]]]]]]]]]]]]]]]],"c":{"d":{"e":{}}}}`,
		"OwnVariable": `{"variables":[{"variable":1}],"deleted":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			var line record.Object
			check(t, json.Unmarshal([]byte(text), &line))
			d := record.Diagram{Members: raw("%s", text), Objects: record.Objects{
				Lines: []record.Object{line}, Images: []record.Object{line}, Texts: []record.Object{line}, Polylines: []record.Object{line},
			}}
			if name == "Null" {
				d.Members = raw(`{"a":null}`) // the others are known members
			}
			got := read(t, s, schema, save(t, s, schema, d))
			equal(t, "members of the diagram", string(got.Members), string(d.Members))
			for kind, o := range got.All() {
				equal(t, "members of a "+string(kind), string(o.Members), text)
			}
			again := save(t, s, schema, got)
			equal(t, "the diagram saved again", read(t, s, schema, again), got)
		})
	}
}

func boundVariables(t *testing.T, s record.Store) {
	makeTenant(t, s, schema)
	unit := "m³/h"
	check(t, s.Import(t.Context(), schema, record.Content{Variables: []record.Variable{
		{ID: record.ID{Text: "7", Integer: true}, Name: "Caudal", Unit: &unit, Type: "number", VarsTs: raw(`{"measurement":"m","field":"f"}`)},
		{ID: record.ID{Text: "bomba 1"}, Name: "Bomba", Type: "number", VarsTs: raw(`{"k 1":{"calc_field":"c","measure":"m"}}`)},
	}}))
	flow := &record.Bound{Name: "Caudal", Unit: &unit, VarsTs: raw(`{"measurement":"m","field":"f"}`)}
	pump := &record.Bound{Name: "Bomba", VarsTs: raw(`{"k 1":{"calc_field":"c","measure":"m"}}`)}
	for text, want := range map[string]*record.Bound{
		`{"id_tsvars":7}`: flow, `{"id_tsvars":"7"}`: flow, `{"id_tsvars":"bomba 1"}`: pump, `{"id_tsvars":"\u0062omba 1"}`: pump,
		`{"id_tsvars":null}`: nil, `{"id_tsvars":""}`: nil, `{"id_tsvars":"gone"}`: nil, `{}`: nil, `{"ID_tsvars":7}`: nil,
	} {
		o := record.Object{Members: raw("%s", text)}
		withVariable := record.Object{Members: raw(`{"variable":{"name":"forged"},%s`, text[1:])}
		if text == "{}" {
			withVariable.Members = raw(`{"variable":{"name":"forged"}}`)
		}
		d := read(t, s, schema, save(t, s, schema, record.Diagram{Objects: record.Objects{Lines: []record.Object{o, withVariable}, Images: []record.Object{withVariable}}}))
		for _, line := range d.Lines {
			equal(t, "variable of "+text, line.Variable, want)
			equal(t, "members", string(line.Members), text)
		}
		if image := d.Images[0]; image.Variable != nil || string(image.Members) != string(withVariable.Members) {
			t.Fatalf("an image came back as %s", show(image))
		}
	}
}

func manyLines(t *testing.T, s record.Store) {
	const n = 10_000
	makeTenant(t, s, schema)
	id := save(t, s, schema, record.Diagram{Objects: record.Objects{Lines: drawing(n, "a")}})
	d := read(t, s, schema, id)
	equal(t, "marks", marks(t, d), map[string]int{"a": n})
	for i := range d.Lines {
		d.Lines[i].Members = raw(`{"mark":"b"}`)
	}
	must(s.SaveDiagram(t.Context(), schema, record.Diagram{ID: id, Objects: record.Objects{Lines: d.Lines[:n/2]}}, record.Deleted{Lines: ids(d.Lines[n/2:])}))(t)
	equal(t, "marks then", marks(t, read(t, s, schema, id)), map[string]int{"b": n / 2})
}
