package main

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// typesOf returns the schemas of an OpenAPI document as TypeScript types.
func typesOf(document string) ([]byte, error) {
	doc, err := openapi3.NewLoader().LoadFromFile(document)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("// Code generated from openapi.yaml by go generate. DO NOT EDIT.\n")
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		fmt.Fprintf(&b, "\nexport type %s = %s;\n", name, typeOf(doc.Components.Schemas[name]))
	}
	return b.Bytes(), nil
}

func typeOf(ref *openapi3.SchemaRef) string {
	if ref.Ref != "" {
		return ref.Ref[strings.LastIndex(ref.Ref, "/")+1:]
	}
	s := ref.Value
	text := "unknown"
	switch {
	case len(s.OneOf) > 0:
		text = joined(s.OneOf, " | ")
	case len(s.AllOf) > 0:
		text = joined(s.AllOf, " & ")
	case s.Type.Is("string"):
		text = "string"
	case s.Type.Is("boolean"):
		text = "boolean"
	case s.Type.Is("integer"), s.Type.Is("number"):
		text = "number"
	case s.Type.Is("array"):
		text = "Array<" + typeOf(s.Items) + ">"
	case s.Type.Is("object"):
		text = objectOf(s)
	}
	if s.Nullable {
		text += " | null"
	}
	return text
}

func joined(refs openapi3.SchemaRefs, with string) string {
	var parts []string
	for _, ref := range refs {
		parts = append(parts, "("+typeOf(ref)+")")
	}
	return strings.Join(parts, with)
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func objectOf(s *openapi3.Schema) string {
	if len(s.Properties) == 0 && s.AdditionalProperties.Schema != nil {
		return "Record<string, " + typeOf(s.AdditionalProperties.Schema) + ">"
	}
	var members []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		optional := "?"
		if slices.Contains(s.Required, name) {
			optional = ""
		}
		if text := typeOf(s.Properties[name]); plainName.MatchString(name) {
			members = append(members, name+optional+": "+text)
		} else {
			members = append(members, strconv.Quote(name)+optional+": "+text)
		}
	}
	if extra := s.AdditionalProperties.Has; extra != nil && *extra {
		members = append(members, "[member: string]: unknown")
	}
	if len(members) == 0 {
		return "Record<string, unknown>"
	}
	return "{ " + strings.Join(members, "; ") + " }"
}
