package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsmon/signing"
)

// Rules say how far a check goes beyond the form.
type Rules struct {
	// Keys are the keys that clients trust. Empty: keys are not judged.
	Keys signing.Keyring
	// AllowUnbound accepts signatures that name no version; clients that
	// require a signed version refuse them.
	AllowUnbound bool
	// AnyFile accepts bundles that the updater of their platform can't install.
	AnyFile bool
}

// Document is a checked manifest and where its members stand.
type Document struct {
	Manifest
	places map[string]int // offsets of the members
	lines  []int          // offsets of the first byte of each line
}

// At returns line and column (from 1) of a member path such as
// platforms.linux-x86_64.url, or of the nearest member above it.
func (d *Document) At(place string) (line, column int) {
	for {
		if offset, ok := d.places[place]; ok {
			return d.position(offset)
		}
		i := strings.LastIndexByte(place, '.')
		if i < 0 {
			return 1, 1
		}
		place = place[:i]
	}
}

// position turns an offset into a line and a column, both from 1.
func (d *Document) position(offset int) (line, column int) {
	line, exact := slices.BinarySearch(d.lines, offset)
	if exact {
		line++
	}
	return line, offset - d.lines[line-1] + 1
}

func lineStarts(data []byte) []int {
	starts := []int{0}
	for i, b := range data {
		if b == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// Decode reads a manifest by the strict rules of form. The error, a Problems,
// names every deviation.
func Decode(data []byte) (*Manifest, error) {
	doc, problems := Check(data, Rules{AllowUnbound: true, AnyFile: true})
	if len(problems) > 0 {
		return nil, problems
	}
	return &doc.Manifest, nil
}

// Check reads a manifest by the strict rules and returns all that is wrong with
// it. The document holds what could be read, also when there are problems.
func Check(data []byte, rules Rules) (*Document, Problems) {
	c := &checker{doc: &Document{places: map[string]int{}, lines: lineStarts(data)}, rules: rules}
	switch {
	case len(data) > MaxSize:
		c.report("", "", fmt.Sprintf("%d bytes long, at most %d are allowed", len(data), MaxSize), "shorten the notes")
		return c.doc, c.problems
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		c.report("", "", "begins with a byte order mark, which the updater takes for a syntax error", "save it as UTF-8 without BOM")
		return c.doc, c.problems
	}
	root, err := parseTree(data, maxDepth)
	if syntax := (*errSyntax)(nil); errors.As(err, &syntax) {
		c.doc.places[""] = syntax.offset
		c.report("", "", syntax.text, "write one JSON object; the updater aborts on anything else")
		return c.doc, c.problems
	}
	c.document(root)
	slices.SortStableFunc(c.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return c.doc, c.problems
}

// maxDepth is how deep a document may nest; a manifest needs three levels.
const maxDepth = 16

type checker struct {
	doc      *Document
	rules    Rules
	problems Problems
}

// report adds a problem at the place of a member path; detail, where given, is
// the absent or additional member that the problem is about.
func (c *checker) report(place, detail, problem, mend string) {
	line, column := c.doc.At(place)
	if detail != "" {
		place = join(place, detail)
	}
	c.problems = append(c.problems, Problem{Place: place, Line: line, Column: column, Problem: problem, Mend: mend})
}

func (c *checker) distrust(place string, err error, mend string) {
	c.report(place, "", err.Error(), mend)
	last := &c.problems[len(c.problems)-1]
	last.Trust, last.Err = true, err
}

func (c *checker) document(root *node) {
	c.doc.places[""] = root.offset
	members := c.object("", root, []string{"version", "notes", "pub_date", "platforms"}, []string{"minimum_version", "critical", "watershed", "sequence"})
	m := &c.doc.Manifest
	if n, ok := members["version"]; ok {
		m.Version = c.version(n)
	}
	if n, ok := members["notes"]; ok {
		m.Notes, _ = c.text("notes", n)
	}
	if n, ok := members["pub_date"]; ok {
		m.PubDate = c.date(n)
	}
	if n, ok := members["sequence"]; ok {
		m.Sequence = c.sequence(n)
	}
	c.extra(members)
	if n, ok := members["platforms"]; ok {
		m.Platforms = c.platforms(n)
	}
}

// object reports wrong kinds, and unknown, duplicate and missing members, and
// returns the known ones by name.
func (c *checker) object(place string, n *node, required, optional []string) map[string]*node {
	if n.kind != object {
		c.report(place, "", "must be an object", "write an object with the members "+strings.Join(required, ", "))
		return nil
	}
	known := map[string]*node{}
	for _, m := range c.unique(place, n) {
		if !slices.Contains(required, m.name) && !slices.Contains(optional, m.name) {
			c.report(join(place, m.name), "", "unknown member", unknownMend(m.name, slices.Concat(required, optional)))
			continue
		}
		known[m.name] = m.value
	}
	for _, name := range required {
		if _, ok := known[name]; !ok {
			c.report(place, name, "missing", "add the member "+strconv.Quote(name))
		}
	}
	return known
}

// unique records where the members stand and drops repeated ones.
func (c *checker) unique(place string, n *node) []member {
	var kept []member
	seen := map[string]bool{}
	for _, m := range n.members {
		path := join(place, m.name)
		if seen[m.name] {
			line, column := c.doc.position(m.offset)
			c.problems = append(c.problems, Problem{Place: path, Line: line, Column: column,
				Problem: "written twice", Mend: "keep one; readers disagree about which one counts"})
			continue
		}
		seen[m.name], c.doc.places[path] = true, m.offset
		kept = append(kept, m)
	}
	return kept
}

func unknownMend(name string, known []string) string {
	plain := strings.NewReplacer("-", "", "_", "", " ", "")
	for _, k := range known {
		if strings.EqualFold(plain.Replace(name), plain.Replace(k)) {
			return fmt.Sprintf("write it %q", k)
		}
	}
	return "leave it out"
}

// join returns the path of a member. Names that would make a path ambiguous
// stand in quotes.
func join(place, name string) string {
	if quoted := strconv.Quote(name); name == "" || strings.Contains(name, ".") || quoted != `"`+name+`"` {
		name = quoted
	}
	if place == "" {
		return name
	}
	return place + "." + name
}

// text reports values that are no string, and strings that lost characters.
func (c *checker) text(place string, n *node) (string, bool) {
	s, ok := n.value.(string)
	switch {
	case !ok:
		c.report(place, "", "must be a string", "put the value in quotes")
	case strings.ContainsRune(s, '\uFFFD'):
		c.report(place, "", "holds a character that was lost (U+FFFD or half a surrogate pair)", "write the text anew as UTF-8")
		return "", false
	}
	return s, ok
}

func (c *checker) version(n *node) string {
	s, ok := c.text("version", n)
	if !ok {
		return ""
	}
	if _, err := ParseVersion(s); err != nil {
		c.report("version", "", err.Error(), "write MAJOR.MINOR.PATCH, such as 1.4.0")
	}
	return s
}

// utcDate is RFC 3339 in UTC as the updater's parser and ISO 8601 both read it.
var utcDate = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$`)

func (c *checker) date(n *node) time.Time {
	s, ok := c.text("pub_date", n)
	if !ok {
		return time.Time{}
	}
	t, err := parseDate(s)
	if err != nil {
		c.report("pub_date", "", fmt.Sprintf("%q is no RFC 3339 date", s), "write it like 2026-11-21T10:00:00Z")
		return time.Time{}
	}
	if !utcDate.MatchString(s) {
		c.report("pub_date", "", fmt.Sprintf("%q is not in UTC", s), "write "+t.UTC().Format(time.RFC3339))
	}
	return t.UTC().Truncate(time.Second)
}

// extra reads the members that are for the application.
func (c *checker) extra(members map[string]*node) {
	m := &c.doc.Manifest
	for name, into := range map[string]*bool{"critical": &m.Critical, "watershed": &m.Watershed} {
		n, there := members[name]
		if !there {
			continue
		}
		var ok bool
		if *into, ok = n.value.(bool); !ok {
			c.report(name, "", "must be true or false", "write it without quotes, or leave it out")
		}
	}
	n, there := members["minimum_version"]
	if !there {
		return
	}
	text, ok := c.text("minimum_version", n)
	if !ok {
		return
	}
	m.MinimumVersion = text
	minimum, err := ParseVersion(text)
	if err != nil {
		c.report("minimum_version", "", err.Error(), "write MAJOR.MINOR.PATCH, such as 1.2.0")
		return
	}
	if version, err := ParseVersion(m.Version); err == nil && minimum.Compare(version) > 0 {
		c.report("minimum_version", "", "is above version", "no client could have it: lower it, or publish that version")
	}
}

func (c *checker) sequence(n *node) uint64 {
	number, _ := n.value.(json.Number)
	seq, err := strconv.ParseUint(number.String(), 10, 64)
	if err != nil || seq == 0 || seq > MaxSequence {
		c.report("sequence", "", "must be a whole number from 1", "leave it to the publishing command, or leave it out")
		return 0
	}
	return seq
}

func (c *checker) platforms(n *node) map[string]Platform {
	if n.kind != object {
		c.report("platforms", "", "must be an object", "write one member a platform, such as windows-x86_64")
		return nil
	}
	if len(n.members) == 0 {
		c.report("platforms", "", "names no platform", "add at least one")
	}
	platforms := map[string]Platform{}
	for _, m := range c.unique("platforms", n) {
		place := join("platforms", m.name)
		if _, err := ParseKey(m.name); err != nil {
			c.report(place, "", err.Error(), "rename or remove it")
		}
		platforms[m.name] = c.platform(place, m.name, m.value)
	}
	return platforms
}

func (c *checker) platform(place, key string, n *node) Platform {
	members := c.object(place, n, []string{"signature", "url"}, nil)
	var p Platform
	if n, ok := members["signature"]; ok {
		if s, ok := c.text(place+".signature", n); ok {
			p.Signature = s
			c.signature(place+".signature", key, s)
		}
	}
	if n, ok := members["url"]; ok {
		if s, ok := c.text(place+".url", n); ok {
			p.URL = s
			c.url(place+".url", s)
			if !c.rules.AnyFile {
				c.bundleFile(place+".url", key, p)
			}
		}
	}
	return p
}

// signature checks the form of a signature member and, where keys are known,
// all that can be said of it without the bundle.
func (c *checker) signature(place, key, line string) {
	_, err := c.rules.Keys.Accept(line, signing.Claim{
		Version: c.doc.Version, Targets: []string{key}, AllowUnbound: c.rules.AllowUnbound, AnyKey: len(c.rules.Keys) == 0,
	})
	var format *signing.FormatError
	var faults signing.Faults
	switch {
	case errors.As(err, &format):
		c.report(place, "", format.Problem, format.Mend)
	case errors.As(err, &faults):
		for _, f := range faults {
			c.distrust(place, f.Err, f.Mend)
		}
	}
}

// bundleFile reports a bundle whose name shows that the updater of its platform
// can't install it. An address may have no file name; then the one that was signed
// counts.
func (c *checker) bundleFile(place, key string, p Platform) {
	k, err := ParseKey(key)
	u, err2 := url.Parse(p.URL)
	if err != nil || err2 != nil {
		return // reported already
	}
	sig, _ := signing.ParseSignature(p.Signature)
	for _, name := range []string{path.Base(u.Path), sig.Filename()} {
		if fits, known := k.installs(name); known {
			if !fits {
				c.report(place, "", fmt.Sprintf("%q can't be installed on %s", name, key), "publish a "+installable[k.OS]+" file for it")
			}
			return
		}
	}
}

func (c *checker) url(place, s string) {
	if problem, mend := badURL(s); problem != "" {
		c.report(place, "", problem, mend)
	}
}
