package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/caarlos0/env/v11"
	"go.yaml.in/yaml/v3"
)

// Mistake is one mistake in a configuration.
type Mistake struct {
	Setting  string // such as server.refresh; empty if it is about no setting
	File     string // where it was read; empty if the file does not set it
	Line     int    // of File, 0 if unknown
	Variable string // variable that it was read from instead
	Text     string // what is wrong
	Mend     string // how to fix it, if Text does not say so
}

// Where returns FILE:LINE or the variable.
func (m Mistake) Where() string {
	switch {
	case m.Variable != "":
		return m.Variable
	case m.Line > 0:
		return fmt.Sprintf("%s:%d", m.File, m.Line)
	}
	return m.File
}

func (m Mistake) Error() string {
	text := m.Text
	if m.Variable == "" && m.Line > 0 {
		text = fmt.Sprintf("line %d: %s", m.Line, text)
	}
	if source := m.source(); source != "" {
		text = source + ": " + text
	}
	return text
}

func (m Mistake) source() string {
	if m.Variable != "" {
		return "environment"
	}
	return m.File
}

// Mistakes is the error of a configuration that can't be used.
type Mistakes []Mistake

func (ms Mistakes) Error() string {
	texts := make([]string, len(ms))
	for i, m := range ms {
		texts[i] = m.Error()
		if i > 0 && m.source() == ms[i-1].source() {
			texts[i] = strings.TrimPrefix(texts[i], m.source()+": ")
		}
	}
	return strings.Join(texts, "; ")
}

// wrong returns a mistake in a setting, whose name begins the text.
func wrong(setting, format string, args ...any) Mistake {
	return Mistake{Setting: setting, Text: setting + " " + fmt.Sprintf(format, args...)}
}

// unless adds a mistake made by wrong, unless ok.
func (ms *Mistakes) unless(ok bool, setting, format string, args ...any) {
	if !ok {
		*ms = append(*ms, wrong(setting, format, args...))
	}
}

var (
	lineNumber = regexp.MustCompile(`^line (\d+): `)
	unknownKey = regexp.MustCompile(`^field (\S+) not found in type (\S+)$`)
	wrongKind  = regexp.MustCompile("(?s)^cannot unmarshal !!(\\w+)(?: `(.*)`)? into (\\S+)$")
)

// explainYAML rewrites errors of the YAML decoder, which name Go types, in terms of the file.
func explainYAML(file string, err error) (found Mistakes) {
	texts := []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	if typed, ok := errors.AsType[*yaml.TypeError](err); ok {
		texts = typed.Errors
	}
	for _, text := range texts {
		m := Mistake{File: file}
		if at := lineNumber.FindStringSubmatch(text); at != nil {
			m.Line, _ = strconv.Atoi(at[1]) // digits
			text = text[len(at[0]):]
		}
		m.Text = text
		if parts := unknownKey.FindStringSubmatch(text); parts != nil {
			m.Text = "unknown key " + parts[1]
			if near := nearest(parts[1], parts[2]); near != "" {
				m.Text += "; did you mean " + near + "?"
			}
		}
		if parts := wrongKind.FindStringSubmatch(text); parts != nil {
			value := cmp.Or(map[string]string{"seq": "a list", "map": "a mapping"}[parts[1]], strconv.Quote(parts[2]))
			m.Text = value + " is not " + kindName(strings.TrimLeft(parts[3], "*"))
		}
		found = append(found, m)
	}
	return found
}

// explainEnvironment returns a mistake for each invalid environment variable.
func explainEnvironment(err error) (found Mistakes) {
	causes := []error{err}
	if all, ok := errors.AsType[env.AggregateError](err); ok {
		causes = all.Errors
	}
	for _, cause := range causes {
		m := Mistake{Variable: "environment", Text: cause.Error()}
		if bad, ok := errors.AsType[env.ParseError](cause); ok {
			m.Variable = bad.Name
			eachKey(reflect.TypeFor[Config](), "", func(path string, _ reflect.Type, f reflect.StructField) {
				if f.Name == bad.Name && f.Type == bad.Type && f.Tag.Get("env") != "" {
					m.Setting, m.Variable = path, f.Tag.Get("env")
				}
			})
			m.Text = m.Variable + " is not " + kindName(bad.Type.String())
		}
		found = append(found, m)
	}
	return found
}

// kindName describes a Go type in terms of the file.
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
	case goType == "config.TrustedKeys":
		return "keys with commas between them, or a list such as [{key: RWT…, from: 1.6.0}]"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	}
	return "a mapping"
}

// eachKey calls visit with each field of a struct and of the structs in it, and with the field's
// path in the file, where CHANNEL is the name of any channel.
func eachKey(t reflect.Type, above string, visit func(path string, of reflect.Type, f reflect.StructField)) {
	for _, f := range reflect.VisibleFields(t) {
		path := keyOf(above, f)
		visit(path, t, f)
		inner := f.Type
		if inner.Kind() == reflect.Map {
			inner, path = inner.Elem(), path+".CHANNEL"
		}
		if inner.Kind() == reflect.Struct {
			eachKey(inner, path, visit)
		}
	}
}

// nearest returns the known key that a mistyped one resembles: a key of the same mapping, whose
// Go type is given, or else the path of a key elsewhere.
func nearest(key, goType string) string {
	best, least := "", 3 // edits
	elsewhere, fewest := "", 2
	visit := func(path string, of reflect.Type, f reflect.StructField) {
		known := yamlName(f)
		d := edits(key, known)
		if d >= len(known) {
			return
		}
		if of.String() == goType && d < least {
			best, least = known, d
		}
		if d < fewest {
			elsewhere, fewest = path, d
		}
	}
	eachKey(reflect.TypeFor[Config](), "", visit)
	eachKey(reflect.TypeFor[TrustedKey](), "trusted_keys", visit)
	return cmp.Or(best, elsewhere)
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
