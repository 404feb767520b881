package tauri

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/titanous/json5"
)

// maxFile bounds each file that is read, in bytes.
const maxFile = 1 << 20

// format is one of the formats that the Tauri CLI reads.
type format struct {
	name    string // of the main file
	overlay string // of a platform's overlay, with %s for the platform
	decode  func(data []byte, tree any) error
}

// formats are in the Tauri CLI's order of preference.
var formats = []format{
	{"tauri.conf.json", "tauri.%s.conf.json", decodeJSON},
	{"tauri.conf.json5", "tauri.%s.conf.json5", json5.Unmarshal},
	{"Tauri.toml", "Tauri.%s.toml", toml.Unmarshal},
}

type document struct {
	path   string
	format format
	data   []byte
	tree   map[string]any
}

func readDocument(path string) (*document, error) {
	i := slices.IndexFunc(formats, func(f format) bool { return filepath.Ext(f.name) == filepath.Ext(path) })
	if i < 0 {
		return nil, fmt.Errorf("%s: a Tauri configuration file ends in .json, .json5 or .toml", path)
	}
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	d := &document{path: path, format: formats[i], data: data}
	if err := d.format.decode(data, &d.tree); err != nil {
		return nil, d.errorAt(err)
	}
	if d.tree == nil {
		return nil, fmt.Errorf("%s: null is not a configuration", path)
	}
	return d, nil
}

// readFile reads a text file of up to maxFile bytes, without its byte order mark.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxFile:
		return nil, fmt.Errorf("%s: larger than %d bytes", path, maxFile)
	case !utf8.Valid(data):
		return nil, fmt.Errorf("%s: not UTF-8", path)
	}
	return bytes.TrimPrefix(data, []byte("\ufeff")), nil
}

// decodeJSON accepts JSON5 too, as the Tauri CLI does. Its errors are those of JSON.
func decodeJSON(data []byte, tree any) error {
	err := json.Unmarshal(data, tree)
	if err != nil && json5.Unmarshal(data, tree) == nil {
		return nil
	}
	return err
}

// errorAt adds the file and the line to a decoder's error.
func (d *document) errorAt(err error) error {
	var syntax *json.SyntaxError
	var syntax5 *json5.SyntaxError
	var inTOML *toml.DecodeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s:%d: %w", d.path, d.lineAt(syntax.Offset), err)
	case errors.As(err, &syntax5):
		return fmt.Errorf("%s:%d: %w", d.path, d.lineAt(syntax5.Offset), err)
	case errors.As(err, &inTOML):
		row, _ := inTOML.Position()
		return fmt.Errorf("%s:%d: %s", d.path, row, strings.TrimPrefix(inTOML.Error(), "toml: "))
	}
	return fmt.Errorf("%s: the configuration is not an object", d.path)
}

// lineAt returns the line of the byte before an offset.
func (d *document) lineAt(offset int64) int {
	end := max(0, min(int(offset)-1, len(d.data)))
	return 1 + bytes.Count(d.data[:end], []byte("\n"))
}

// memberError reports a member, such as bundle.targets, with its line if the name occurs only
// once in the file.
func (d *document) memberError(member, problem string) error {
	name := member[strings.LastIndex(member, ".")+1:]
	key := regexp.MustCompile(`["'.\s{,]` + regexp.QuoteMeta(name) + `["']?\s*[:=]`)
	if found := key.FindAllIndex(d.data, 2); len(found) == 1 {
		return fmt.Errorf("%s:%d: %s %s", d.path, d.lineAt(int64(found[0][1])), member, problem)
	}
	return fmt.Errorf("%s: %s %s", d.path, member, problem)
}

// mergePatch applies a JSON merge patch (RFC 7396) and changes neither argument.
func mergePatch(tree, patch map[string]any) map[string]any {
	merged := map[string]any{}
	maps.Copy(merged, tree)
	for name, value := range patch {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(merged, name)
		case isObject:
			before, _ := merged[name].(map[string]any)
			merged[name] = mergePatch(before, inner)
		default:
			merged[name] = value
		}
	}
	return merged
}
