package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const fileName = "tsmon.yaml"

// maxFile bounds the configuration file, in bytes.
const maxFile = 1 << 20

// Inspection is a configuration with the sources of its values.
type Inspection struct {
	// Config is what could be read, even if there are mistakes.
	Config   *Config
	File     string // empty if there is none
	Mistakes Mistakes

	root *yaml.Node        // of File, nil if it can't be parsed
	vars map[string]string // the environment
}

// open reads the file, the default one only if it exists.
func (i *Inspection) open(path string) ([]byte, error) {
	named := path != ""
	if !named {
		path = fileName
	}
	file, err := os.Open(path) //nolint:gosec // the user names it
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, nil
	}
	i.File = path
	if err != nil {
		return nil, errors.Unwrap(err) // the mistake names the file
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("larger than %d bytes", maxFile)
	}
	return data, err
}

func (i *Inspection) decode(data []byte) (found Mistakes) {
	var root yaml.Node
	if yaml.Unmarshal(data, &root) == nil && len(root.Content) > 0 {
		i.root = root.Content[0]
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var second yaml.Node
	if err := dec.Decode(i.Config); err != nil && !errors.Is(err, io.EOF) { // EOF: an empty file
		found = explainYAML(i.File, err)
	} else if dec.Decode(&second) == nil {
		found = Mistakes{{File: i.File, Line: second.Line, Text: "a second document begins here; put all settings into one"}}
	}
	found = append(found, i.fractions()...)
	i.Config.resolve(filepath.Dir(i.File))
	return found
}

// fractions returns a mistake for each number that the decoder would round down.
func (i *Inspection) fractions() (found Mistakes) {
	leaves(reflect.ValueOf(*i.Config), "", func(path string, v reflect.Value) {
		if node, line := i.find(path); node != nil && node.ShortTag() == "!!float" && v.CanInt() {
			kind := strings.Replace(kindName(v.Type().String()), "a number", "a whole number", 1)
			found = append(found, Mistake{File: i.File, Line: line, Text: strconv.Quote(node.Value) + " is not " + kind})
		}
	})
	return found
}

// find returns a setting's node in the file and its line. If the file does not set it, node is nil
// and the line is that of the nearest parent, 0 if there is none.
func (i *Inspection) find(setting string) (node *yaml.Node, line int) {
	node = i.root
	for name := range strings.SplitSeq(setting, ".") {
		next, at := member(node, name)
		if next == nil {
			return nil, line
		}
		node, line = next, at
	}
	return node, line
}

// member returns a member of a mapping, or an element of a list, and its line.
func member(node *yaml.Node, name string) (*yaml.Node, int) {
	for node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch {
	case node == nil:
	case node.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				return node.Content[i+1], node.Content[i].Line
			}
		}
	case node.Kind == yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line
		}
	}
	return nil, 0
}

// locate adds to a mistake where its setting was read from.
func (i *Inspection) locate(m Mistake) Mistake {
	name := m.Setting
	if list, index := lastName(name); strings.Trim(index, "0123456789") == "" {
		name = list
	}
	if variable := variables()[name]; i.vars[variable] != "" {
		m.Variable = variable
	} else {
		m.File = i.File
		_, m.Line = i.find(m.Setting)
	}
	return m
}

func lastName(setting string) (before, last string) {
	i := strings.LastIndex(setting, ".")
	return setting[:max(i, 0)], setting[i+1:]
}

// variables returns the environment variable of each setting that has one.
func variables() map[string]string {
	names := map[string]string{}
	eachKey(reflect.TypeFor[Config](), "", func(path string, _ reflect.Type, f reflect.StructField) {
		if variable := f.Tag.Get("env"); variable != "" {
			names[path] = variable
		}
	})
	return names
}

// Add adds mistakes found by the packages that use the configuration.
func (i *Inspection) Add(found Mistakes) {
	for _, m := range found {
		i.Mistakes = append(i.Mistakes, i.locate(m))
	}
}

// Mistyped returns the unknown environment variables that resemble a known one, with the name of
// that one.
func (i *Inspection) Mistyped() map[string]string {
	known := append(slices.Sorted(maps.Values(variables())), "TSMON_CONFIG")
	found := map[string]string{}
	for name := range i.vars {
		if !strings.HasPrefix(name, "TSMON") || slices.Contains(known, name) {
			continue
		}
		near := slices.MinFunc(known, func(a, b string) int { return edits(name, a) - edits(name, b) })
		if edits(name, near) < 3 {
			found[name] = near
		}
	}
	return found
}

// Setting is a value that is in force.
type Setting struct {
	Name   string `json:"name"` // its path in the file, or the variable if the file can't set it
	Value  string `json:"value"`
	Source string `json:"source"`          // file, environment or default
	Where  string `json:"where,omitempty"` // FILE:LINE or the variable
}

// Sources of a Setting.
const (
	FromFile        = "file"
	FromEnvironment = "environment"
	FromDefault     = "default"
)

// Settings returns the values in force, except settings that have neither a value nor a
// default. Secrets are masked.
func (i *Inspection) Settings() (all []Setting) {
	names := variables()
	leaves(reflect.ValueOf(*i.Config), "", func(path string, v reflect.Value) {
		s := Setting{Name: path, Value: text(path, v), Source: FromDefault}
		variable := names[path]
		node, line := i.find(path)
		above, _ := lastName(path)
		if parent, at := i.find(above); node == nil && !v.IsZero() && parent != nil && parent.Kind == yaml.ScalarNode {
			node, line = parent, at // such as ann: ssh-ed25519 AAAA…
		}
		if i.vars[variable] != "" {
			s.Source, s.Where = FromEnvironment, variable
		} else if node != nil {
			s.Source, s.Where = FromFile, Mistake{File: i.File, Line: line}.Where()
		}
		if path != "" && (!v.IsZero() || s.Source != FromDefault) {
			all = append(all, s)
		}
	})
	return all
}

// Changed returns the names of the settings that differ between two configurations, in
// order.
func Changed(a, b *Config) []string {
	before, after := values(a), values(b)
	all := maps.Clone(before)
	maps.Copy(all, after)
	maps.DeleteFunc(all, func(path string, _ any) bool { return reflect.DeepEqual(before[path], after[path]) })
	return slices.Sorted(maps.Keys(all))
}

func values(c *Config) map[string]any {
	all := map[string]any{}
	leaves(reflect.ValueOf(*c), "", func(path string, v reflect.Value) { all[path] = v.Interface() })
	return all
}

// leaves calls visit with the path of each value. If only the environment can set it, the path is
// the name of the variable.
func leaves(v reflect.Value, path string, visit func(path string, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(v.Type()) {
			leaves(v.FieldByIndex(f.Index), keyOf(path, f), visit)
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			leaves(v.MapIndex(key), path+"."+key.String(), visit)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			leaves(v.Elem(), path, visit)
		}
	default:
		visit(path, v)
	}
}

func keyOf(above string, f reflect.StructField) string {
	if name := yamlName(f); name != "" {
		return strings.TrimPrefix(above+"."+name, ".")
	}
	if variable := f.Tag.Get("env"); variable != "" || f.Type.Kind() != reflect.Struct {
		return variable
	}
	return above
}

// yamlName returns the key of a field in the file, empty if the file can't set it.
func yamlName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return strings.TrimPrefix(name, "-")
}

// text formats a value as in the file.
func text(path string, v reflect.Value) string {
	switch value := v.Interface().(type) {
	case Secret:
		if slices.Contains(places, path) {
			return value.place()
		}
		return strings.Repeat("*", min(len(value), 3))
	case []string:
		return strings.Join(value, ", ")
	case fmt.Stringer: // a duration, or the trusted keys
		return value.String()
	}
	return fmt.Sprint(v.Interface())
}

// places are the secret settings whose file or server may be shown.
var places = []string{"server.records", "server.series.url", "server.mqtt.url", "server.webhook"}

// place returns the path of a file, or the scheme and host of an address, without anything that
// may be secret.
func (s Secret) place() string {
	u, err := url.Parse(string(s))
	switch {
	case err == nil && u.Scheme != "" && u.Host != "":
		return u.Scheme + "://" + u.Host + strings.Repeat("/***", min(len(u.Path+u.RawQuery), 1))
	case strings.ContainsAny(string(s), "=@:"): // a mistyped address
		return "***"
	}
	return string(s)
}

// ChannelNames returns the configured channels, stable first and followers last.
func (c *Config) ChannelNames() []string {
	names := slices.Sorted(maps.Keys(c.Channels))
	rank := func(name string) int {
		switch {
		case name == "stable":
			return 0
		case c.Channels[name].Follows == "":
			return 1
		}
		return 2
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return names
}

// ChannelLike returns the lines of the file for a channel with the settings of another, and with
// follows if that is not empty.
func (c *Config) ChannelLike(channel, like, follows string) string {
	settings := c.Channels[like]
	settings.Follows = cmp.Or(follows, settings.Follows)
	var node yaml.Node
	_ = node.Encode(settings) // lists and plain values always encode
	node.Style = yaml.FlowStyle
	flow, _ := yaml.Marshal(&node)
	return "channels:\n  " + channel + ": " + strings.TrimSpace(string(flow))
}
