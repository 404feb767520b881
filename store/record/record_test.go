package record

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func ptr[T any](v T) *T { return &v }

func TestGranted(t *testing.T) {
	user := func(menu int64, status bool) Permission {
		return Permission{Menu: menu, User: ptr(int64(1)), Status: status}
	}
	profile := func(menu int64, status bool) Permission {
		return Permission{Menu: menu, Profile: ptr(int64(1)), Status: status}
	}
	for name, c := range map[string]struct {
		rows []Permission
		want bool
	}{
		"Nothing":           {nil, false},
		"OtherMenu":         {[]Permission{user(2, true), profile(2, true)}, false},
		"User":              {[]Permission{user(1, true)}, true},
		"Profile":           {[]Permission{profile(1, true)}, true},
		"UserDenied":        {[]Permission{user(1, false), profile(1, true)}, false},
		"UserDeniedLast":    {[]Permission{profile(1, true), user(1, false)}, false},
		"UserAllowed":       {[]Permission{profile(1, false), user(1, true)}, true},
		"ProfileDenied":     {[]Permission{profile(1, false)}, false},
		"UserTwice":         {[]Permission{user(1, true), user(1, false)}, false},
		"UserTwiceReversed": {[]Permission{user(1, false), user(1, true)}, false},
		"ProfileTwice":      {[]Permission{profile(1, true), profile(1, false), user(2, true)}, false},
	} {
		if got := Granted(c.rows, 1); got != c.want {
			t.Errorf("%s: granted is %t", name, got)
		}
	}
}

func TestID(t *testing.T) {
	for text, want := range map[string]ID{
		`7`: {"7", true}, `"7"`: {"7", false}, `-12`: {"-12", true}, `0`: {"0", true}, `null`: {}, `"ñ\n"`: {"ñ\n", false},
		`123456789012345678901234567890`: {Text: "123456789012345678901234567890", Integer: true},
	} {
		var id ID
		if err := json.Unmarshal([]byte(text), &id); err != nil || id != want {
			t.Errorf("%s is %+v: %v", text, id, err)
		}
		if back, err := json.Marshal(id); text != "null" && (err != nil || string(back) != text) {
			t.Errorf("%s comes back as %s: %v", text, back, err)
		}
	}
	for _, text := range []string{`1.0`, `1e3`, `-0`, `true`, `{}`, `[1]`} {
		if err := json.Unmarshal([]byte(text), new(ID)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestVariableJSON(t *testing.T) {
	var v Variable
	if err := json.Unmarshal([]byte(`{"id":"a","name":"n","varsTs":{"measurement":"m","field":"f"}}`), &v); err != nil {
		t.Fatal(err)
	}
	if !v.Status || v.Type != "number" || v.Unit != nil || v.Field() != (Field{"m", "f"}) {
		t.Fatalf("%+v", v)
	}
	for _, varsTs := range []string{``, `[]`, `{}`, `{"measurement":"m"}{`, `{"measurement":{},"field":{"measure":"m"}}`, `{"measurement":1,"field":"f"}`} {
		if f := (Variable{VarsTs: json.RawMessage(varsTs)}).Field(); f != (Field{}) {
			t.Errorf("the field of %s is %+v", varsTs, f)
		}
	}
}

func TestSettingsJSON(t *testing.T) {
	want := Tenant{Schema: "a", TsName: "b", Settings: Settings{SeriesRange: Duration(36 * time.Hour), SaveMenu: 3}}
	data, err := json.Marshal(want)
	if err != nil || !strings.Contains(string(data), `"seriesRange":"36h0m0s"`) {
		t.Fatalf("%s: %v", data, err)
	}
	var got Tenant
	if err := json.Unmarshal(data, &got); err != nil || got != want {
		t.Fatalf("%+v: %v", got, err)
	}
}

func TestClean(t *testing.T) {
	a := Audit{User: strings.Repeat("a", 1023) + "ñ", Target: "\x00\xff"}.Clean()
	if !utf8.ValidString(a.User) || a.User != strings.Repeat("a", 1023)+"\uFFFD" || a.Target != "\uFFFD\uFFFD" {
		t.Errorf("%+v", a)
	}
}

func TestDiagramJSON(t *testing.T) {
	const text = `{"id":5,"title":"<T>","status":-7,"backgroundColor":"#fff","backgroundImg":"","zoom":1.0,"a":null,` +
		`"lines":[{"id":1,"n":10000000000000000000001,"id_tsvars":"7"}],"images":[],"texts":[{"id":2}],"polylines":[{"id":3,"x":{"y":[1.50]}}]}`
	var d Diagram
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	if d.ID != 5 || d.Status != -7 || string(d.Members) != `{"zoom":1.0,"a":null}` || string(d.Lines[0].Members) != `{"n":10000000000000000000001,"id_tsvars":"7"}` {
		t.Fatalf("%+v", d)
	}
	if back, err := d.MarshalJSON(); err != nil || string(back) != text {
		t.Fatalf("%s: %v", back, err)
	}
	d.Lines[0].Variable = &Bound{Name: "n", VarsTs: json.RawMessage(`{}`)}
	back, err := d.Lines[0].MarshalJSON()
	if err != nil || string(back) != `{"id":1,"n":10000000000000000000001,"id_tsvars":"7","variable":{"name":"n","unit":null,"varsTs":{}}}` {
		t.Fatalf("%s: %v", back, err)
	}
}

func TestDiagramJSONDefaults(t *testing.T) {
	var d Diagram
	if err := json.Unmarshal([]byte(`{"id":null}`), &d); err != nil || !reflect.DeepEqual(d, Diagram{Status: 1}) {
		t.Fatalf("%+v: %v", d, err)
	}
	for _, text := range []string{`[]`, `{"id":"5"}`, `{"id":1.5}`, `{"status":true}`, `{"lines":{}}`, `{"lines":[1]}`, `{"lines":[{"id":"x"}]}`, `{"id":99999999999999999999}`} {
		if err := json.Unmarshal([]byte(text), new(Diagram)); err == nil {
			t.Errorf("%s is a diagram", text)
		}
	}
}

// FuzzDiagram holds that what is decoded and prepared comes back the same.
func FuzzDiagram(f *testing.F) {
	f.Add([]byte(`{"id":5,"title":"x","z":1.0,"lines":[{"id":1,"id_tsvars":7,"variable":{}},{"a":"\ud800"}],"texts":null}`))
	f.Add([]byte(" {\"\\u0069d\" : 1 , \"x\" :\t[ ] } "))
	f.Fuzz(func(t *testing.T, data []byte) {
		var d, again Diagram
		if d.UnmarshalJSON(data) != nil {
			return
		}
		text, err := d.MarshalJSON()
		if err != nil || !json.Valid(text) {
			t.Fatalf("%q becomes %q: %v", data, text, err)
		}
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if back, err := again.MarshalJSON(); err != nil || string(back) != string(text) {
			t.Fatalf("%q becomes %q, then %q: %v", data, text, back, err)
		}
		if s, err := Prepare(d, Deleted{}); err == nil && !json.Valid(s.Head) {
			t.Fatalf("the head of %q is %q", data, s.Head)
		}
	})
}

// FuzzSplit holds that no member is lost or changed.
func FuzzSplit(f *testing.F) {
	f.Add([]byte(`{"id":1,"a":[1,{"b":null}],"ñ":"\u0000"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		picked, rest, err := split(data, "id")
		if err != nil {
			return
		}
		var all, others map[string]json.RawMessage
		if json.Unmarshal(data, &all) != nil || json.Unmarshal(rest, &others) != nil {
			t.Fatalf("%q is split, but %q is what remains", data, rest)
		}
		for name, value := range picked {
			others[name] = value
		}
		if !reflect.DeepEqual(all, others) {
			t.Fatalf("%q is split into %q and %q", data, picked, rest)
		}
	})
}

func TestAge(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "2y": 730 * day, "1w": 7 * day, "90d": 90 * day, "36h": 36 * time.Hour, "200y": 200 * 365 * day,
	} {
		var a, again Age
		if err := a.UnmarshalText([]byte(text)); err != nil || time.Duration(a) != want {
			t.Errorf("%q is %v, %v", text, time.Duration(a), err)
		}
		if err := again.UnmarshalText([]byte(a.String())); err != nil || again != a || text != "0" && a.String() != text {
			t.Errorf("%q becomes %q, %v", text, a.String(), err)
		}
	}
	for _, text := range []string{"2", "y", "-1d", "+1d", "1.5y", "2y6w", "201y", "99999999999999999999y", "5m", "2Y", " 2y"} {
		if err := new(Age).UnmarshalText([]byte(text)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
	data, err := json.Marshal(Settings{Retention: Age(14 * day)})
	if err != nil || string(data) != `{"retention":"2w"}` {
		t.Errorf("%s, %v", data, err)
	}
}
