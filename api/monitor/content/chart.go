package content

import (
	"go.yaml.in/yaml/v3"

	"tsmon/api/monitor"
)

// Charts may have any members, except in their variables, whose place depends on
// the component.
var (
	chartHead = open(map[string]member{"id": required(idShape), "component": optional(orNull(textShape))})
	pumpShape = computable("value", open(map[string]member{
		"varId": required(idShape), "name": required(textShape), "unit": optional(orNull(textShape)),
		"calc": optional(orNull(boolShape)), "equation": optional(orNull(textShape)), "value": required(varsTsShape),
	}))
	pumpsShape    = open(map[string]member{"initialPumps": optional(list(pumpShape)), "initialStates": optional(list(pumpShape))})
	booleansShape = open(map[string]member{"items": optional(list(open(map[string]member{"tsVar": optional(orNull(shownVariable))})))})
	shownVariable = computable("varsTs", open(shownMembers))
	shownMembers  = map[string]member{
		"id": optional(idShape), "unit": optional(orNull(textShape)), "calc": optional(orNull(boolShape)),
		"type":     optional(orNull(oneOf("number", "last", "mean", "max", "min", "sum"))),
		"equation": optional(orNull(textShape)), "varsTs": required(varsTsShape),
	}
)

func chartShape(c *checker, n *yaml.Node, place string) {
	chartHead(c, n, place)
	data := find(n, "data")
	if data == nil || data.Kind != yaml.MappingNode {
		return
	}
	place += ".data"
	component := ""
	if named := find(n, "component"); named != nil {
		component = named.Value
	}
	switch component {
	case "PumpControl":
		pumpsShape(c, data, place)
	case "MultipleBooleanChart":
		booleansShape(c, data, place)
	default:
		for key, value := range pairs(data) {
			if find(value, "varsTs") != nil {
				shownVariable(c, value, place+"."+key.Value)
			}
		}
	}
}

// computable is a variable of a shape whose value can also be computed. operands
// names the member that holds its series.
func computable(operands string, s shape) shape {
	return func(c *checker, n *yaml.Node, place string) {
		before := len(c.mistakes)
		s(c, n, place)
		if len(c.mistakes) > before {
			return
		}
		text, err := appendJSON(nil, renamed(n, operands, "varsTs"), 1)
		if err == nil {
			err = monitor.CheckVariable(text)
		}
		if err != nil {
			c.add(n, "%s: %s", orFile(place), err)
		}
	}
}

func renamed(n *yaml.Node, from, to string) *yaml.Node {
	other := *n
	other.Content = nil
	for key, value := range pairs(n) {
		name := *key
		switch name.Value {
		case from:
			name.Value = to
		case to:
			continue
		}
		other.Content = append(other.Content, &name, value)
	}
	return &other
}
