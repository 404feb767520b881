package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"tsmon/store/record"
)

// maxContent bounds a file of a tenant, in bytes.
const maxContent = 32 << 20

// maxMistakes is how many mistakes of a file are named.
const maxMistakes = 10

// contentFile is a file of a tenant that was checked.
type contentFile struct {
	name    string
	root    *yaml.Node // knows the lines; nil in an empty file
	content record.Content
}

// readContentFile reads and checks a file; its errors name all lines that are wrong.
func readContentFile(name string, r io.Reader) (*contentFile, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxContent+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxContent {
		return nil, refuseFile(name, fmt.Errorf("it is larger than %d MiB", maxContent>>20))
	}
	root, text, err := parseTree(data, strings.HasSuffix(name, ".json"))
	if err != nil {
		return nil, refuseFile(name, err)
	}
	f := &contentFile{name: name, root: root}
	if root == nil {
		return f, nil
	}
	c := &checker{}
	if fileShape(c, root, ""); len(c.mistakes) > 0 {
		return nil, refuseFile(name, c.mistakes...)
	}
	if err := json.Unmarshal(text, &f.content); err != nil {
		return nil, refuseFile(name, err)
	}
	f.checkValues(c)
	if len(c.mistakes) == 0 {
		if err := f.content.Validate(); err != nil {
			c.mistakes = append(c.mistakes, err)
		}
	}
	return f, refuseFile(name, c.mistakes...)
}

// refuseFile names the first mistakes of a file; nil if there is none.
func refuseFile(name string, mistakes ...error) error {
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
	return &hinted{&refused{fmt.Errorf("%s: %s", name, strings.Join(texts, "; "))}, "mend the file; nothing was imported"}
}

func lineOf(err error) int {
	var m *mistake
	if errors.As(err, &m) {
		return m.line
	}
	return 0
}

// elements returns the nodes of a section's list.
func (f *contentFile) elements(section string) []*yaml.Node {
	if n := find(f.root, section); n != nil {
		return n.Content
	}
	return nil
}

// checkValues holds every element by itself to the rules of the store, and finds
// ids that stand twice, so that each mistake has its line.
func (f *contentFile) checkValues(c *checker) {
	all := f.content
	for i, n := range f.elements("variables") {
		c.alone(n, "variables", i, record.Content{Variables: all.Variables[i : i+1]})
	}
	objects := map[record.Ref]int{}
	for i, n := range f.elements("diagrams") {
		c.alone(n, "diagrams", i, record.Content{Diagrams: all.Diagrams[i : i+1]})
		c.apart(n, objects)
	}
	for i, n := range f.elements("menus") {
		c.alone(n, "menus", i, record.Content{Menus: all.Menus[i : i+1]})
	}
	for i, n := range f.elements("permissions") {
		c.alone(n, "permissions", i, record.Content{Permissions: all.Permissions[i : i+1]})
	}
	for i, n := range f.elements("charts") {
		c.alone(n, "charts", i, record.Content{Charts: all.Charts[i : i+1]})
	}
	for _, section := range []string{"variables", "diagrams", "menus", "permissions", "charts"} {
		c.uniqueIDs(section, f.elements(section))
	}
}

// alone checks one element. What the store's error begins with is the place in a
// list of one, which is replaced.
func (c *checker) alone(n *yaml.Node, section string, i int, content record.Content) {
	err := content.Validate()
	if err == nil {
		return
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	c.add(n, "%s[%d]: %v", section, i, err)
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

// idText is what ids are compared by: 7, "7" and 0x7 are one.
func idText(id *yaml.Node) string {
	if kindOf(id) == "a number" {
		if text, err := appendNumber(nil, id); err == nil {
			return string(text)
		}
	}
	return id.Value
}

// apart demands that no two diagrams have one object. That one diagram has it
// twice is found in the diagram itself.
func (c *checker) apart(diagram *yaml.Node, lines map[record.Ref]int) {
	own := map[record.Ref]int{}
	for _, kind := range []record.Kind{record.Line, record.Image, record.Text, record.Polyline} {
		section := find(diagram, string(kind)+"s")
		if section == nil {
			continue
		}
		for _, object := range section.Content {
			id := find(object, "id")
			var ref record.Ref
			ref.Kind = kind
			if json.Unmarshal([]byte(idText(id)), &ref.ID) != nil {
				continue // not an integer, which is named already
			}
			if first, twice := lines[ref]; twice {
				c.add(id, "%s %d is also in the diagram of line %d", kind, ref.ID, first)
			}
			own[ref] = id.Line
		}
	}
	for ref, line := range own {
		lines[ref] = line
	}
}

// checkMenus demands that every permission names a menu item of the file or one
// that is known.
func (f *contentFile) checkMenus(known []record.Menu) error {
	there := map[int64]bool{}
	for _, menu := range append(known, f.content.Menus...) {
		there[menu.ID] = true
	}
	c := &checker{}
	for i, n := range f.elements("permissions") {
		if id := f.content.Permissions[i].Menu; !there[id] {
			c.add(find(n, "id_menu"), "permissions[%d] is for the menu item %d, which is neither in the file nor in the store", i, id)
		}
	}
	return refuseFile(f.name, c.mistakes...)
}
