package content

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"tsmon/store/record"
)

// maxDepth bounds the nesting of values.
const maxDepth = 64

// mistake is an error in a line of a file.
type mistake struct {
	line int
	text string
}

func (m *mistake) Error() string { return fmt.Sprintf("line %d: %s", m.line, m.text) }

func mistakef(line int, format string, args ...any) error {
	return &mistake{line, fmt.Sprintf(format, args...)}
}

// parseTree parses a file to nodes with their lines, and to JSON. A JSON file keeps
// its numbers and escapes as they are.
func parseTree(data []byte, isJSON bool) (*yaml.Node, json.RawMessage, error) {
	if isJSON || json.Valid(data) {
		root, err := parseJSON(data)
		if err != nil {
			return nil, nil, err
		}
		var compact bytes.Buffer
		err = json.Compact(&compact, data)
		return root, compact.Bytes(), err
	}
	root, err := parseYAML(data)
	if err != nil || root == nil {
		return nil, nil, err
	}
	text, err := appendJSON(nil, root, 1)
	return root, text, err
}

// parseYAML returns the root of the one document of a file, or nil if it is empty.
func parseYAML(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	err := dec.Decode(&document)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	case len(document.Content) != 1:
		return nil, nil
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, mistakef(max(second.Line, 1), "a second document begins, or this is not YAML")
	}
	return document.Content[0], nil
}

// number matches numbers that JSON and YAML write alike.
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// appendJSON appends a node as JSON. It refuses aliases, which let a small file
// expand to any size.
func appendJSON(dst []byte, n *yaml.Node, depth int) ([]byte, error) {
	switch {
	case depth > maxDepth:
		return nil, mistakef(n.Line, "nested deeper than %d levels", maxDepth)
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return nil, mistakef(n.Line, "anchors and aliases are not supported")
	case n.Kind == yaml.ScalarNode:
		return appendScalar(dst, n)
	case n.Kind == yaml.SequenceNode && n.ShortTag() == "!!seq":
		return appendAll(dst, n, depth)
	case n.Kind == yaml.MappingNode && n.ShortTag() == "!!map":
		return appendObject(dst, n, depth)
	}
	return nil, mistakef(n.Line, "the tag %.80q is not supported", n.Tag)
}

func appendAll(dst []byte, n *yaml.Node, depth int) (_ []byte, err error) {
	dst = append(dst, '[')
	for i, element := range n.Content {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendJSON(dst, element, depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendObject(dst []byte, n *yaml.Node, depth int) (_ []byte, err error) {
	dst = append(dst, '{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.ShortTag() == "!!merge" {
			return nil, mistakef(key.Line, "the name of a member must be a text")
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendText(dst, key); err != nil {
			return nil, err
		}
		if dst, err = appendJSON(append(dst, ':'), n.Content[i+1], depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendScalar(dst []byte, n *yaml.Node) ([]byte, error) {
	switch tag := n.ShortTag(); tag {
	case "!!null":
		return append(dst, "null"...), nil
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return nil, mistakef(n.Line, "%.80q is neither true nor false", n.Value)
		}
		return strconv.AppendBool(dst, b), nil
	case "!!int", "!!float":
		return appendNumber(dst, n)
	case "!!str", "!!timestamp":
		return appendText(dst, n)
	default:
		return nil, mistakef(n.Line, "the tag %.80q is not supported", n.Tag)
	}
}

func appendText(dst []byte, n *yaml.Node) ([]byte, error) {
	if !record.Storable(strings.ReplaceAll(n.Value, "\x00", "")) {
		return nil, mistakef(n.Line, "not UTF-8")
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(n.Value)
	return append(dst, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...), err
}

// appendNumber keeps a number as it is written if that is JSON, else, as for 0x1f
// or 1_000, it appends the value.
func appendNumber(dst []byte, n *yaml.Node) ([]byte, error) {
	if number.MatchString(n.Value) {
		return append(dst, n.Value...), nil
	}
	if whole, ok := new(big.Int).SetString(strings.ReplaceAll(n.Value, "_", ""), 0); ok && n.ShortTag() == "!!int" {
		return whole.Append(dst, 10), nil
	}
	var f float64
	if err := n.Decode(&f); err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, mistakef(n.Line, "%.80q is not a number", n.Value)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64), nil
}

// jsonReader parses JSON to nodes.
type jsonReader struct {
	data []byte
	dec  *json.Decoder
	at   int // end of the data whose lines are counted
	line int
}

func parseJSON(data []byte) (*yaml.Node, error) {
	if err := checkJSON(data); err != nil {
		return nil, err
	}
	r := &jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber()
	return r.value(1)
}

// here returns the line of the last token.
func (r *jsonReader) here() int {
	end := int(r.dec.InputOffset())
	r.line += bytes.Count(r.data[r.at:end], []byte("\n"))
	r.at = end
	return r.line
}

func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	line := r.here()
	if depth > maxDepth {
		return nil, mistakef(line, "nested deeper than %d levels", maxDepth)
	}
	switch v := token.(type) {
	case json.Delim:
		return r.collection(v, line, depth)
	case string:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v, Line: line}, nil
	case json.Number:
		tag := "!!int"
		if strings.ContainsAny(v.String(), ".eE") {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: v.String(), Line: line}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v), Line: line}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null", Line: line}, nil
}

// collection reads an array, or an object, whose nodes are names and values in
// turn.
func (r *jsonReader) collection(open json.Delim, line, depth int) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: line}
	if open == '{' {
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	}
	for r.dec.More() {
		element, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, element)
	}
	if _, err := r.dec.Token(); err != nil {
		return nil, err
	}
	return n, nil
}

// checkJSON reports the line in which data stops being JSON.
func checkJSON(data []byte) error {
	for i, line := range bytes.Split(data, []byte("\n")) {
		if !utf8.Valid(line) {
			return mistakef(i+1, "not UTF-8")
		}
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(data, new(json.RawMessage)); errors.As(err, &syntax) {
		end := max(int(syntax.Offset)-1, 0)
		return mistakef(1+bytes.Count(data[:end], []byte("\n")), "not JSON: %v", err)
	}
	return nil
}

// EncodeJSON returns a content as indented JSON, with numbers and escapes as they
// are stored.
func EncodeJSON(c Owned) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(c.filled()); err != nil {
		return nil, err
	}
	return []byte(escapeActive(text.String())), nil
}

// EncodeYAML returns a content as YAML that Read decodes to the same content.
func EncodeYAML(c Owned) ([]byte, error) {
	data, err := json.Marshal(c.filled())
	if err != nil {
		return nil, err
	}
	root, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	quoteUnusual(root)
	var text bytes.Buffer
	enc := yaml.NewEncoder(&text)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(root), enc.Close()); err != nil {
		return nil, err
	}
	return []byte(escapeActive(text.String())), nil
}

// quoteUnusual double-quotes texts that other styles might change.
func quoteUnusual(n *yaml.Node) {
	unusual := func(r rune) bool { return r < ' ' || r > 0x7e && !isLetterOrSign(r) }
	if n.Tag == "!!str" && strings.ContainsFunc(n.Value, unusual) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, element := range n.Content {
		quoteUnusual(element)
	}
}

// isLetterOrSign reports a character that every style keeps.
func isLetterOrSign(r rune) bool { return r >= 0xa1 && r <= 0x1fff }

// escapeActive writes characters that act on a terminal as \uNNNN, an escape in
// both JSON and double-quoted YAML.
func escapeActive(text string) string {
	if !strings.ContainsFunc(text, isActive) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isActive(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isActive reports whether a character acts on a terminal: a control character, or
// one that changes the direction of text.
func isActive(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// filled replaces missing sections by empty ones.
func (c Owned) filled() Owned {
	sections := reflect.ValueOf(&c.Content).Elem()
	for i := range sections.NumField() {
		switch section := sections.Field(i); {
		case !section.IsNil():
		case section.Kind() == reflect.Map:
			section.Set(reflect.MakeMap(section.Type()))
		default:
			section.Set(reflect.MakeSlice(section.Type(), 0, 0))
		}
	}
	return c
}
