// Package content reads and writes what a tenant owns as a YAML or JSON file, its users
// only where that is asked for. Reading checks the whole file and reports each mistake with its
// line.
package content

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"tsmon/store/record"
)

const (
	maxContent  = 32 << 20 // bytes of a file
	maxMistakes = 10       // that an error lists
)

// ErrInvalid is the error of a file that breaks a rule.
var ErrInvalid = errors.New("invalid content")

// File is a file that was read and checked.
type File struct {
	Owned
	name string
	root *yaml.Node // with the lines; nil in an empty file
}

// Read reads and checks a file. It fails with ErrInvalid if the file breaks a rule.
// The name begins the error; a file whose name ends in .json has to be JSON.
func Read(name string, r io.Reader) (*File, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxContent+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxContent {
		return nil, invalid(name, fmt.Errorf("larger than %d MiB", maxContent>>20))
	}
	root, text, err := parseTree(data, strings.HasSuffix(name, ".json"))
	if err != nil {
		return nil, invalid(name, err)
	}
	f := &File{name: name, root: root}
	if root == nil {
		return f, nil
	}
	c := &checker{}
	if fileShape(c, root, ""); len(c.mistakes) > 0 {
		return nil, invalid(name, c.mistakes...)
	}
	if err := json.Unmarshal(text, &f.Owned); err != nil {
		return nil, invalid(name, err)
	}
	f.checkValues(c)
	if len(c.mistakes) == 0 {
		if err := cmp.Or(f.Content.Validate(), record.ValidateUsers(f.Users.Records())); err != nil {
			c.mistakes = append(c.mistakes, err)
		}
	}
	return f, invalid(name, c.mistakes...)
}

// invalid joins the first mistakes of a file to an ErrInvalid, or returns nil if
// there are none.
func invalid(name string, mistakes ...error) error {
	if len(mistakes) == 0 {
		return nil
	}
	slices.SortStableFunc(mistakes, func(a, b error) int { return lineOf(a) - lineOf(b) })
	var texts []string
	for _, m := range mistakes[:min(len(mistakes), maxMistakes)] {
		texts = append(texts, m.Error())
	}
	if more := len(mistakes) - maxMistakes; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return &invalidError{name + ": " + strings.Join(texts, "; ")}
}

type invalidError struct{ text string }

func (e *invalidError) Error() string        { return e.text }
func (e *invalidError) Is(target error) bool { return target == ErrInvalid }

func lineOf(err error) int {
	if m, ok := errors.AsType[*mistake](err); ok {
		return m.line
	}
	return 0
}

func (f *File) elements(section string) []*yaml.Node {
	if n := find(f.root, section); n != nil {
		return n.Content
	}
	return nil
}

// checkValues checks each element by the rules of the store, and that IDs are
// unique. The store checks the same, but knows no lines.
func (f *File) checkValues(c *checker) {
	all := f.Content
	for _, section := range []struct {
		name  string
		check func(i int) error // checks one element
	}{
		{"variables", func(i int) error { return record.Content{Variables: all.Variables[i : i+1]}.Validate() }},
		{"diagrams", func(i int) error { return record.Content{Diagrams: all.Diagrams[i : i+1]}.Validate() }},
		{"menus", func(i int) error { return record.Content{Menus: all.Menus[i : i+1]}.Validate() }},
		{"permissions", func(i int) error { return record.Content{Permissions: all.Permissions[i : i+1]}.Validate() }},
		{"charts", func(i int) error { return record.Content{Charts: all.Charts[i : i+1]}.Validate() }},
		{"users", func(i int) error { return record.ValidateUsers(f.Users[i : i+1].Records()) }},
	} {
		elements := f.elements(section.name)
		for i, n := range elements {
			if err := section.check(i); err != nil {
				// The error begins with the element's place, which is that of the only one.
				c.add(n, "%s[%d]: %v", section.name, i, cmp.Or(errors.Unwrap(err), err))
			}
		}
		c.uniqueIDs(section.name, elements)
	}
	objects := map[record.Ref]int{}
	for _, n := range f.elements("diagrams") {
		c.sharedObjects(n, objects)
	}
}

func (c *checker) uniqueIDs(section string, elements []*yaml.Node) {
	lines := map[string]int{}
	for i, n := range elements {
		id := find(n, "id")
		text := idText(id)
		if first, twice := lines[text]; twice {
			c.add(id, "%s[%d] has the id of line %d, %.80s", section, i, first, text)
			continue
		}
		lines[text] = id.Line
	}
}

// idText is the form in which IDs are compared: 7, "7" and 0x7 are equal.
func idText(id *yaml.Node) string {
	if kindOf(id) == "a number" {
		if text, err := appendNumber(nil, id); err == nil {
			return string(text)
		}
	}
	return id.Value
}

// sharedObjects reports objects that another diagram also has. Objects that the diagram
// has twice are reported by its own check.
func (c *checker) sharedObjects(diagram *yaml.Node, lines map[record.Ref]int) {
	own := map[record.Ref]int{}
	for _, kind := range []record.Kind{record.Line, record.Image, record.Text, record.Polyline} {
		section := find(diagram, string(kind)+"s")
		if section == nil {
			continue
		}
		for _, object := range section.Content {
			id, ref := find(object, "id"), record.Ref{Kind: kind}
			if json.Unmarshal([]byte(idText(id)), &ref.ID) != nil {
				continue // not an integer, which was reported already
			}
			if first, twice := lines[ref]; twice {
				c.add(id, "%s %d is also in the diagram of line %d", kind, ref.ID, first)
			}
			own[ref] = id.Line
		}
	}
	maps.Copy(lines, own)
}

// CheckMenus fails with ErrInvalid if a permission is for a menu item that is
// neither in the file nor stored.
func (f *File) CheckMenus(stored []record.Menu) error {
	exists := map[int64]bool{}
	for _, menu := range append(stored, f.Content.Menus...) {
		exists[menu.ID] = true
	}
	c := &checker{}
	for i, n := range f.elements("permissions") {
		if id := f.Content.Permissions[i].Menu; !exists[id] {
			c.add(find(n, "id_menu"), "permissions[%d] is for the menu item %d, which is neither in the file nor in the store", i, id)
		}
	}
	return invalid(f.name, c.mistakes...)
}
