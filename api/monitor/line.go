package monitor

import (
	"encoding/json"
	"regexp"

	"tsmon/api/web"
	"tsmon/store/record"
)

// whole is an integer of any size, as JSON writes it.
var whole = regexp.MustCompile(`^-?[0-9]+(\.0+)?$`)

// lineMembers are the kinds of the documented members of a line. Each may be absent or null.
var lineMembers = []struct {
	name, kind string
	is         func(json.RawMessage) bool
}{
	{"points", "an object whose start and end have numbers left and top", arePoints},
	{"stroke", "a text", func(v json.RawMessage) bool { return v[0] == '"' }},
	{"strokeWidth", "a number", isNumber},
	{"animation", "an integer", isWhole},
	{"invertAnimation", "true or false", func(v json.RawMessage) bool { return v[0] == 't' || v[0] == 'f' }},
	{"status", "an integer", isWhole},
}

func isNull(v json.RawMessage) bool { return string(v) == "null" }

func isWhole(v json.RawMessage) bool { return whole.Match(v) }

func isNumber(v json.RawMessage) bool { return v[0] == '-' || v[0] >= '0' && v[0] <= '9' }

// arePoints takes objects that lack members: a client may draw what it knows.
func arePoints(v json.RawMessage) bool {
	var points struct{ Start, End map[string]json.RawMessage }
	if json.Unmarshal(v, &points) != nil || v[0] != '{' {
		return false
	}
	for _, end := range []map[string]json.RawMessage{points.Start, points.End} {
		for _, name := range []string{"left", "top"} {
			if n, ok := end[name]; ok && !isNumber(n) {
				return false
			}
		}
	}
	return true
}

// checkLine adds what is wrong with the described members of a line.
func checkLine(wrong *web.Problems, i int, line record.Object) {
	var members map[string]json.RawMessage
	if len(line.Members) == 0 || json.Unmarshal(line.Members, &members) != nil {
		return // record.Prepare says what is wrong
	}
	for _, m := range lineMembers {
		if v, ok := members[m.name]; ok && !isNull(v) && !m.is(v) {
			wrong.Add("lines: %s of item %d has to be %s", m.name, i, m.kind)
		}
	}
}
