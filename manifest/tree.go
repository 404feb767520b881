package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// maxDepth is how deep a document may nest; a manifest needs three levels.
const maxDepth = 16

// node is one value of a JSON document, with its place, so that problems can
// name it, and with every member that was written, duplicates included.
type node struct {
	offset  int // of the value's first byte
	value   any // string, json.Number, bool or nil for scalars
	kind    kind
	members []member
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

// errSyntax is where and why a document is no JSON.
type errSyntax struct {
	offset int
	text   string
}

func (e *errSyntax) Error() string { return e.text }

// parseTree reads one JSON document with nothing but white space behind it.
func parseTree(data []byte) (*node, error) {
	if !utf8.Valid(data) {
		return nil, &errSyntax{invalidAt(data), "not UTF-8"}
	}
	p := &treeParser{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	n, err := p.value(0)
	if err != nil {
		return nil, p.locate(err)
	}
	end := int(p.dec.InputOffset())
	if rest := bytes.TrimLeft(data[end:], " \t\r\n"); len(rest) > 0 {
		return nil, &errSyntax{len(data) - len(rest), "something follows the document"}
	}
	return n, nil
}

type treeParser struct {
	data []byte
	dec  *json.Decoder
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
	if depth > maxDepth {
		return nil, &errSyntax{offset, fmt.Sprintf("nested deeper than %d levels", maxDepth)}
	}
	n := &node{offset: offset, value: tok}
	switch tok {
	case json.Delim('{'):
		n.kind, n.value = object, nil
		return n, p.object(n, depth)
	case json.Delim('['):
		n.kind, n.value = array, nil
		return n, p.array(depth)
	}
	return n, nil
}

func (p *treeParser) object(n *node, depth int) error {
	for p.dec.More() {
		name, offset, err := p.next()
		if err != nil {
			return err
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.members = append(n.members, member{name.(string), offset, v})
	}
	_, err := p.dec.Token()
	return err
}

func (p *treeParser) array(depth int) error {
	for p.dec.More() {
		if _, err := p.value(depth + 1); err != nil {
			return err
		}
	}
	_, err := p.dec.Token()
	return err
}

// locate says where a document stops being JSON. The decoder's own offsets leave
// out what stands between tokens, so the document is read once more as a whole.
func (p *treeParser) locate(err error) error {
	var known *errSyntax
	if errors.As(err, &known) {
		return known
	}
	var syntax *json.SyntaxError
	errors.As(json.Unmarshal(p.data, new(json.RawMessage)), &syntax)
	switch {
	case len(bytes.TrimSpace(p.data)) == 0:
		return &errSyntax{0, "the document is empty"}
	case syntax == nil:
		return &errSyntax{int(p.dec.InputOffset()), err.Error()}
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return &errSyntax{len(p.data), "the document ends in the middle"}
	}
	return &errSyntax{int(syntax.Offset) - 1, syntax.Error()}
}

func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}
