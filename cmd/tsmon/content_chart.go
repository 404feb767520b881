package main

import (
	"go.yaml.in/yaml/v3"

	"tsmon/api/monitor"
)

// Charts are open, except where their variables lie; that depends on component.
var (
	chartHead = open(map[string]part{"id": required(idShape), "component": optional(orNull(textShape))})
	pumpShape = computable("value", open(map[string]part{
		"varId": required(idShape), "name": required(textShape), "unit": optional(orNull(textShape)),
		"calc": optional(orNull(boolShape)), "equation": optional(orNull(textShape)), "value": required(varsTsShape),
	}))
	pumpsShape    = open(map[string]part{"initialPumps": optional(list(pumpShape)), "initialStates": optional(list(pumpShape))})
	booleansShape = open(map[string]part{"items": optional(list(open(map[string]part{"tsVar": optional(orNull(shownVariable))})))})
	shownVariable = computable("varsTs", open(shownMembers))
	shownMembers  = map[string]part{
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
		for i := 0; i+1 < len(data.Content); i += 2 {
			if member := data.Content[i+1]; find(member, "varsTs") != nil {
				shownVariable(c, member, place+"."+data.Content[i].Value)
			}
		}
	}
}

// computable is a variable whose equation can be computed, too; its operands are
// in the member of that name.
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

// renamed is an object one of whose members has another name.
func renamed(n *yaml.Node, from, to string) *yaml.Node {
	other := *n
	other.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := *n.Content[i]
		switch {
		case key.Value == from:
			key.Value = to
		case key.Value == to:
			continue
		}
		other.Content = append(other.Content, &key, n.Content[i+1])
	}
	return &other
}
