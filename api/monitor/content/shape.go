package content

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// shape checks a value of a file. place is its path, for messages.
type shape func(c *checker, n *yaml.Node, place string)

type checker struct{ mistakes []error }

func (c *checker) add(n *yaml.Node, format string, args ...any) {
	c.mistakes = append(c.mistakes, mistakef(n.Line, format, args...))
}

// member is a known member of an object.
type member struct {
	shape    shape
	required bool
}

func required(s shape) member { return member{s, true} }
func optional(s shape) member { return member{s, false} }

// The shapes of a file.
var (
	fileShape = closed(map[string]member{
		"variables":     optional(list(variableShape)),
		"diagrams":      optional(list(diagramShape)),
		"menus":         optional(list(menuShape)),
		"permissions":   optional(list(permissionShape)),
		"notifications": optional(mapping(mapping(mapping(list(entryShape))))),
		"charts":        optional(list(chartShape)),
		"users":         optional(list(userShape)),
	})
	userShape = closed(map[string]member{
		"id": required(integerShape), "email": required(textShape), "profile": optional(integerShape),
		"admin": optional(boolShape), "disabled": optional(boolShape), "token_digest": optional(digestShape),
	})
	variableShape = computable("varsTs", closed(map[string]member{
		"id": required(idShape), "name": required(textShape), "unit": optional(orNull(textShape)),
		"type": optional(oneOf("number", "last", "mean", "max", "min", "sum")), "calc": optional(boolShape),
		"equation": optional(orNull(textShape)), "status": optional(boolShape), "varsTs": required(varsTsShape),
	}))
	diagramShape = open(map[string]member{
		"id": required(integerShape), "title": optional(textShape), "status": optional(integerShape),
		"backgroundColor": optional(textShape), "backgroundImg": optional(textShape),
		"lines":  optional(list(open(map[string]member{"id": required(integerShape), "id_tsvars": optional(orNull(idShape))}))),
		"images": optional(list(placedShape)), "texts": optional(list(placedShape)), "polylines": optional(list(placedShape)),
	})
	placedShape = open(map[string]member{"id": required(integerShape)})
	menuShape   = closed(map[string]member{
		"id": required(integerShape), "name": required(textShape), "icon": optional(textShape), "path": optional(textShape),
		"status": optional(boolShape),
	})
	permissionShape = closed(map[string]member{
		"id": required(integerShape), "id_menu": required(integerShape), "id_profile": optional(orNull(integerShape)),
		"id_user": optional(orNull(integerShape)), "status": optional(boolShape),
	})
	entryShape = closed(map[string]member{
		"id": required(integerShape), "id_event_ts": required(integerShape), "alarm": required(boolShape),
	})
	seriesShape = closed(map[string]member{
		"measurement": required(textShape), "field": required(textShape), "calc_field": optional(textShape),
	})
	operandsShape = mapping(closed(map[string]member{"measure": required(textShape), "calc_field": required(textShape)}))
)

// varsTsShape is one series if it has a measurement that is a scalar, else an
// object of operands.
func varsTsShape(c *checker, n *yaml.Node, place string) {
	if m := find(n, "measurement"); m != nil && m.Kind == yaml.ScalarNode {
		seriesShape(c, n, place)
		return
	}
	operandsShape(c, n, place)
}

// closed is an object without other members.
func closed(members map[string]member) shape {
	return func(c *checker, n *yaml.Node, place string) { c.object(n, place, members, true) }
}

// open is an object that may have other members.
func open(members map[string]member) shape {
	return func(c *checker, n *yaml.Node, place string) { c.object(n, place, members, false) }
}

func (c *checker) object(n *yaml.Node, place string, members map[string]member, only bool) {
	if !c.isMapping(n, place) {
		return
	}
	seen := map[string]bool{}
	for key, value := range pairs(n) {
		seen[key.Value] = true
		m, known := members[key.Value]
		switch {
		case known:
			m.shape(c, value, place+"."+key.Value)
		case only:
			c.add(key, "%s has no member %.80q", orFile(place), key.Value)
		default:
			c.anything(value, place+"."+key.Value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if members[name].required && !seen[name] {
			c.add(n, "%s lacks the member %s", orFile(place), name)
		}
	}
}

// isMapping also reports repeated names, of which JSON keeps one value only.
func (c *checker) isMapping(n *yaml.Node, place string) bool {
	if n.Kind != yaml.MappingNode {
		c.add(n, "%s is not an object but %s", orFile(place), kindOf(n))
		return false
	}
	lines := map[string]int{}
	for key := range pairs(n) {
		if first, twice := lines[key.Value]; twice {
			c.add(key, "%s has the member %.80q twice, first in line %d", orFile(place), key.Value, first)
		}
		lines[key.Value] = key.Line
	}
	return true
}

// anything checks an unknown value for repeated names.
func (c *checker) anything(n *yaml.Node, place string) {
	switch n.Kind {
	case yaml.SequenceNode:
		for i, element := range n.Content {
			c.anything(element, fmt.Sprintf("%s[%d]", place, i))
		}
	case yaml.MappingNode:
		c.isMapping(n, place)
		for key, value := range pairs(n) {
			c.anything(value, place+"."+key.Value)
		}
	}
}

func orFile(place string) string {
	if place == "" {
		return "the file"
	}
	return strings.TrimPrefix(place, ".")
}

func list(element shape) shape {
	return func(c *checker, n *yaml.Node, place string) {
		if n.Kind != yaml.SequenceNode {
			c.add(n, "%s is not a list but %s", orFile(place), kindOf(n))
			return
		}
		for i, e := range n.Content {
			element(c, e, fmt.Sprintf("%s[%d]", place, i))
		}
	}
}

// mapping is an object of any names whose values have one shape.
func mapping(value shape) shape {
	return func(c *checker, n *yaml.Node, place string) {
		if !c.isMapping(n, place) {
			return
		}
		for key, v := range pairs(n) {
			value(c, v, place+"."+key.Value)
		}
	}
}

func orNull(s shape) shape {
	return func(c *checker, n *yaml.Node, place string) {
		if kindOf(n) != "null" {
			s(c, n, place)
		}
	}
}

func oneOf(words ...string) shape {
	return func(c *checker, n *yaml.Node, place string) {
		if kindOf(n) != "a text" || !slices.Contains(words, n.Value) {
			c.add(n, "%s is none of %s", orFile(place), strings.Join(words, ", "))
		}
	}
}

func textShape(c *checker, n *yaml.Node, place string) {
	if kindOf(n) != "a text" {
		c.add(n, "%s is not a text but %s", orFile(place), kindOf(n))
	}
}

func boolShape(c *checker, n *yaml.Node, place string) {
	if kindOf(n) != "a boolean" {
		c.add(n, "%s is not true or false but %s", orFile(place), kindOf(n))
	}
}

func integerShape(c *checker, n *yaml.Node, place string) {
	if kindOf(n) != "a number" {
		c.add(n, "%s is not an integer but %s", orFile(place), kindOf(n))
		return
	}
	text, err := appendNumber(nil, n)
	if err == nil {
		_, err = strconv.ParseInt(string(text), 10, 64)
	}
	if err != nil {
		c.add(n, "%s is not an integer of 64 bits: %.80s", orFile(place), n.Value)
	}
}

// idShape is a text, or an integer of any size.
func idShape(c *checker, n *yaml.Node, place string) {
	switch text, err := appendScalar(nil, n); {
	case kindOf(n) == "a text":
	case kindOf(n) != "a number" || err != nil || strings.Trim(string(text), "-0123456789") != "":
		c.add(n, "%s is neither a text nor an integer", orFile(place))
	}
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "null"
	case "!!bool":
		return "a boolean"
	case "!!int", "!!float":
		return "a number"
	}
	return "a text"
}

// pairs returns the names and values of an object's members.
func pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		for pair := range slices.Chunk(n.Content, 2) {
			if !yield(pair[0], pair[1]) {
				return
			}
		}
	}
}

// find returns the value of a member, or nil.
func find(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for key, value := range pairs(n) {
		if key.Value == name {
			return value
		}
	}
	return nil
}

// digestShape is the SHA-256 of a token.
func digestShape(c *checker, n *yaml.Node, place string) {
	if sum, err := hex.DecodeString(n.Value); kindOf(n) != "a text" || err != nil || len(sum) != sha256.Size {
		c.add(n, "%s is not the %d hexadecimal digits of a digest, as a text", orFile(place), 2*sha256.Size)
	}
}
