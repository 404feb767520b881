package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/caarlos0/env/v11"
	"go.yaml.in/yaml/v3"
)

var (
	unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)
	wrongKind  = regexp.MustCompile("cannot unmarshal !!(\\w+)(?: `(.*)`)? into (\\S+)")
)

// explainYAML rewrites the errors of the YAML decoder, which name Go types, in the
// terms of the file.
func explainYAML(err error) error {
	var typed *yaml.TypeError
	if !errors.As(err, &typed) {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var texts []string
	for _, text := range typed.Errors {
		text = unknownKey.ReplaceAllStringFunc(text, func(match string) string {
			key := unknownKey.FindStringSubmatch(match)[1]
			if near := nearest(key); near != "" {
				return fmt.Sprintf("unknown key %s; did you mean %s?", key, near)
			}
			return "unknown key " + key
		})
		text = wrongKind.ReplaceAllStringFunc(text, func(match string) string {
			parts := wrongKind.FindStringSubmatch(match)
			value := map[string]string{"seq": "a list", "map": "a mapping"}[parts[1]]
			if value == "" {
				value = fmt.Sprintf("%q", parts[2])
			}
			return value + " is not " + kindName(strings.TrimLeft(parts[3], "*"))
		})
		texts = append(texts, text)
	}
	return errors.New(strings.Join(texts, "; "))
}

// explainEnvironment names the variables of the environment that are wrong.
func explainEnvironment(err error) error {
	var wrong env.ParseError
	if !errors.As(err, &wrong) {
		return err
	}
	name := wrong.Name
	eachField(reflect.TypeFor[Config](), func(f reflect.StructField) {
		if f.Name == wrong.Name {
			name = f.Tag.Get("env")
		}
	})
	return fmt.Errorf("%s is not %s", name, kindName(wrong.Type.String()))
}

// kindName describes a Go type to somebody who writes a value of it.
func kindName(goType string) string {
	switch {
	case goType == "bool":
		return "true or false"
	case goType == "time.Duration":
		return "a duration, such as 5s"
	case goType == "string", goType == "config.Secret":
		return "a text"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "float"):
		return "a number"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	}
	return "a mapping"
}

// eachField calls visit with the fields of a struct and of the structs in it.
func eachField(t reflect.Type, visit func(reflect.StructField)) {
	for _, f := range reflect.VisibleFields(t) {
		visit(f)
		inner := f.Type
		if inner.Kind() == reflect.Map {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			eachField(inner, visit)
		}
	}
}

// nearest returns the known key that resembles a mistyped one most, or none.
func nearest(key string) string {
	best, least := "", 3 // edits
	eachField(reflect.TypeFor[Config](), func(f reflect.StructField) {
		if known := f.Tag.Get("yaml"); known != "" && known != "-" {
			if d := edits(key, known); d < least && d < len(known) {
				best, least = known, d
			}
		}
	})
	return best
}

// edits returns the Levenshtein distance of two texts.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
