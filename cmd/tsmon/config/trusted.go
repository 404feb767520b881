package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// TrustedKey is a public key, or the path of its file, and the versions of the application that
// it is built into: From and later, below Until, each unbounded if empty. In the file it is a
// text, or a mapping if it has a bound.
type TrustedKey struct {
	Key   string `yaml:"key"`
	From  string `yaml:"from"`
	Until string `yaml:"until"`
}

// String formats the key as in the file, on one line.
func (k TrustedKey) String() string {
	if k.From == "" && k.Until == "" {
		return k.Key
	}
	text := "{key: " + k.Key
	if k.From != "" {
		text += ", from: " + k.From
	}
	if k.Until != "" {
		text += ", until: " + k.Until
	}
	return text + "}"
}

// UnmarshalYAML reads a text or a mapping.
func (k *TrustedKey) UnmarshalYAML(node *yaml.Node) error {
	type plain TrustedKey
	return decodeKey(node, &k.Key, (*plain)(k), reflect.TypeFor[TrustedKey]())
}

// decodeKey reads a key that is a text, or a mapping with the members of a type.
func decodeKey(node *yaml.Node, text *string, mapping any, of reflect.Type) error {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind == yaml.ScalarNode {
		return node.Decode(text)
	}
	// KnownFields has no effect on node.Decode.
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		name := node.Content[i]
		if !slices.ContainsFunc(reflect.VisibleFields(of), func(f reflect.StructField) bool { return yamlName(f) == name.Value }) {
			return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: field %s not found in type %s", name.Line, name.Value, of)}}
		}
	}
	return node.Decode(mapping)
}

// TrustedKeys are the keys of trusted_keys.
type TrustedKeys []TrustedKey

// UnmarshalText reads the format of TSMON_TRUSTED_KEYS: comma-separated keys, or a list in
// brackets as in the file.
func (ks *TrustedKeys) UnmarshalText(text []byte) error {
	*ks = nil
	if strings.HasPrefix(strings.TrimSpace(string(text)), "[") {
		return yaml.Unmarshal(text, (*[]TrustedKey)(ks))
	}
	for key := range strings.SplitSeq(string(text), ",") {
		*ks = append(*ks, TrustedKey{Key: key})
	}
	if len(text) > 0 && len(ks.trimmed()) == 0 { // such as a variable made of two that are not set
		return errors.New("only commas")
	}
	return nil
}

// String formats the keys as in TSMON_TRUSTED_KEYS.
func (ks TrustedKeys) String() string {
	texts, spans := make([]string, len(ks)), false
	for i, k := range ks {
		texts[i] = k.String()
		spans = spans || texts[i] != k.Key
	}
	if spans {
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return strings.Join(texts, ",")
}

// Later returns the key, or its file, that only newer versions have; empty if there is none.
func (ks TrustedKeys) Later() string {
	for _, k := range ks {
		if k.From != "" && k.Until == "" {
			return k.Key
		}
	}
	return ""
}

// trimmed drops white space around keys, and empty keys.
func (ks TrustedKeys) trimmed() TrustedKeys {
	var kept TrustedKeys
	for _, k := range ks {
		if k.Key = strings.TrimSpace(k.Key); k != (TrustedKey{}) {
			kept = append(kept, k)
		}
	}
	return kept
}
