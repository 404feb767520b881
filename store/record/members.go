package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// split picks the named members of a JSON object, the last of each name. rest is an object
// with all others, byte for byte and in order.
func split(data []byte, names ...string) (picked map[string]json.RawMessage, rest json.RawMessage, err error) {
	picked, rest = make(map[string]json.RawMessage, len(names)), append(make(json.RawMessage, 0, len(data)), '{')
	err = each(data, func(name string, rawName, value []byte) {
		if slices.Contains(names, name) {
			picked[name] = value
		} else {
			rest = appendRaw(rest, rawName, value)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	return picked, append(rest, '}'), nil
}

// each calls f with each member of a JSON object: its name, the JSON text of its name, and its
// value. It is faster than json.Decoder.
func each(data []byte, f func(name string, rawName, value []byte)) error {
	rest := skipSpace(data)
	switch {
	case !utf8.Valid(data):
		return fmt.Errorf("%w: it is not UTF-8", ErrInvalid)
	case len(rest) == 0 || rest[0] != '{' || !json.Valid(rest):
		return fmt.Errorf("%w: it is not a JSON object", ErrInvalid)
	}
	for rest = skipSpace(rest[1:]); rest[0] == '"'; {
		rawName, after := rest[:stringEnd(rest)], rest[stringEnd(rest):]
		after = skipSpace(skipSpace(after)[1:]) // the colon
		end := valueEnd(after)
		name, err := unquote(rawName)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		f(name, rawName, after[:end:end])
		if rest = skipSpace(after[end:]); rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
	}
	return nil
}

func skipSpace(data []byte) []byte { return bytes.TrimLeft(data, " \t\r\n") }

// stringEnd returns the length of the string at the beginning of valid JSON.
func stringEnd(data []byte) int {
	i := 1
	for data[i] != '"' {
		if data[i] == '\\' {
			i++
		}
		i++
	}
	return i + 1
}

// valueEnd returns the length of the value at the beginning of data, which is the rest
// of a valid JSON object.
func valueEnd(data []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch c := data[i]; c {
		case '"':
			i += stringEnd(data[i:]) - 1
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case ' ', '\t', '\r', '\n', ',', '}', ']':
			if depth == 0 { // after a number or a word
				return i
			}
			if c == '}' || c == ']' {
				depth--
				if depth == 0 {
					return i + 1
				}
			}
		}
	}
}

func unquote(raw []byte) (s string, err error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	err = json.Unmarshal(raw, &s)
	return s, err
}

// appendRaw appends a member to an unfinished object.
func appendRaw(dst, rawName, value []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(append(dst, rawName...), ':')
	return append(dst, value...)
}

// appendMember appends a member whose name needs no escapes.
func appendMember(dst []byte, name string, value []byte) []byte {
	return appendRaw(dst, strconv.AppendQuote(nil, name), value)
}

// appendMembers appends all members of an object; none if it is empty.
func appendMembers(dst []byte, object json.RawMessage) []byte {
	inner := bytes.TrimSpace(object)
	if len(inner) < 2 {
		return dst
	}
	if inner = bytes.TrimSpace(inner[1 : len(inner)-1]); len(inner) == 0 {
		return dst
	}
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(dst, inner...)
}

// marshal returns JSON without HTML escapes.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func quote(s string) []byte {
	text, err := marshal(s)
	if err != nil {
		return []byte(`""`) // a string can't fail
	}
	return text
}

// unmarshal decodes a member if it exists. Its error names the member.
func unmarshal(picked map[string]json.RawMessage, name string, into any) error {
	value, ok := picked[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
