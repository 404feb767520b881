package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"unicode/utf8"
)

// node is one value of a JSON document and where it begins. Unlike package json
// it keeps every member that was written, duplicates included.
type node struct {
	kind    kind
	offset  int
	value   any      // of a scalar: string, json.Number, bool or nil
	members []member // of an object; of an array, without names
}

type member struct {
	name   string
	offset int // of the name
	value  *node
}

type kind int

const (
	scalar kind = iota
	object
	array
)

// last returns the last member of that name, nil if there is none.
func (n *node) last(name string) *node {
	for i := len(n.members) - 1; i >= 0; i-- {
		if n.members[i].name == name {
			return n.members[i].value
		}
	}
	return nil
}

func (n *node) isNull() bool { return n.kind == scalar && n.value == nil }

// errSyntax is where and why a text is not a JSON document.
type errSyntax struct {
	offset int
	text   string
}

func (e *errSyntax) Error() string { return e.text }

// parseTree reads one JSON document with only white space after it, in which
// values nest up to depth levels below the first. The error is an *errSyntax.
func parseTree(data []byte, depth int) (*node, error) {
	if !utf8.Valid(data) {
		return nil, &errSyntax{invalidAt(data), "not UTF-8"}
	}
	p := &treeParser{data: data, dec: json.NewDecoder(bytes.NewReader(data)), depth: depth}
	p.dec.UseNumber()
	root, err := p.value(0)
	if err != nil {
		return nil, locate(data, err)
	}
	if rest := bytes.TrimLeft(data[p.dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return nil, &errSyntax{len(data) - len(rest), "something follows the document"}
	}
	return root, nil
}

func invalidAt(data []byte) int {
	for i, r := range string(data) {
		if r == utf8.RuneError && !bytes.HasPrefix(data[i:], []byte("\uFFFD")) {
			return i
		}
	}
	return len(data)
}

// locate says where a document stops being JSON. The decoder's offsets skip the text
// between tokens, so the document is read once more as a whole.
func locate(data []byte, err error) *errSyntax {
	if deep, ok := errors.AsType[*errSyntax](err); ok {
		return deep
	}
	var syntax *json.SyntaxError
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return &errSyntax{0, "the document is empty"}
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return &errSyntax{len(data), "the document ends in the middle"}
	case errors.As(json.Unmarshal(data, new(json.RawMessage)), &syntax):
		return &errSyntax{int(syntax.Offset) - 1, syntax.Error()}
	}
	return &errSyntax{0, err.Error()}
}

type treeParser struct {
	data  []byte
	dec   *json.Decoder
	depth int
}

// next returns the next token and the offset of its first byte.
func (p *treeParser) next() (json.Token, int, error) {
	start := int(p.dec.InputOffset())
	start += len(p.data[start:]) - len(bytes.TrimLeft(p.data[start:], " \t\r\n,:"))
	tok, err := p.dec.Token()
	return tok, start, err
}

func (p *treeParser) value(depth int) (*node, error) {
	tok, offset, err := p.next()
	if err != nil {
		return nil, err
	}
	n := &node{offset: offset, value: tok}
	switch tok {
	case json.Delim('{'):
		n.kind = object
	case json.Delim('['):
		n.kind = array
	default:
		return n, nil
	}
	if depth > p.depth {
		return nil, &errSyntax{offset, fmt.Sprintf("nested deeper than %d levels", p.depth)}
	}
	n.value = nil
	for p.dec.More() {
		var m member
		if n.kind == object {
			if tok, m.offset, err = p.next(); err != nil {
				return nil, err
			}
			m.name = tok.(string)
		}
		if m.value, err = p.value(depth + 1); err != nil {
			return nil, err
		}
		n.members = append(n.members, m)
	}
	_, err = p.dec.Token()
	return n, err
}

// clientDepth is how deep serde_json, the updater's JSON parser, lets values nest
// below the first.
const clientDepth = 126

// largestNumber is a little below what serde_json can hold: multiplying mantissa
// and power of ten overflows for some numbers that are just within a double.
const largestNumber = 1e308

// escapes matches escapes of strings, whole surrogate pairs first.
var escapes = regexp.MustCompile(`\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u[dD][89a-fA-F]..|.)`)

// parseClientTree reads a document as serde_json does, which refuses more than
// package json: half surrogate pairs, numbers beyond a double, and deep nesting.
func parseClientTree(data []byte) (*node, error) {
	root, err := parseTree(data, clientDepth)
	if err != nil {
		return nil, err
	}
	for _, escape := range escapes.FindAll(data, -1) {
		if len(escape) == len(`\uD800`) && strings.ContainsRune("dD", rune(escape[2])) {
			return nil, errors.New("a string holds half a surrogate pair")
		}
	}
	return root, root.checkNumbers()
}

func (n *node) checkNumbers() error {
	if number, ok := n.value.(json.Number); ok {
		if f, err := number.Float64(); err != nil || math.Abs(f) > largestNumber {
			return errors.New("a number is out of range")
		}
	}
	for _, m := range n.members {
		if err := m.value.checkNumbers(); err != nil {
			return err
		}
	}
	return nil
}
