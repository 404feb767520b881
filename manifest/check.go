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

// Rules say what Check demands beyond the form.
type Rules struct {
	// Keys are the keys that clients trust. If empty, keys are not checked.
	Keys signing.Keyring
	// AllowUnbound accepts signatures that name no version; clients that
	// require a signed version refuse them.
	AllowUnbound bool
	// AnyFile accepts bundles that the updater of their platform can't install.
	AnyFile bool
}

// Document is a checked manifest and the positions of its members.
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

// Decode reads a manifest by the strict rules of form. The error is a Problems.
func Decode(data []byte) (*Manifest, error) {
	doc, problems := Check(data, Rules{AllowUnbound: true, AnyFile: true})
	if len(problems) > 0 {
		return nil, problems
	}
	return &doc.Manifest, nil
}

// Check reads a manifest by the strict rules and returns every problem with it.
// The document has all that could be read nevertheless.
func Check(data []byte, rules Rules) (*Document, Problems) {
	c := &checker{doc: &Document{places: map[string]int{}, lines: lineStarts(data)}, rules: rules}
	switch {
	case len(data) > MaxSize:
		c.report("", "", fmt.Sprintf("%d bytes long, at most %d are allowed", len(data), MaxSize), "shorten the notes")
		return c.doc, c.problems
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		c.report("", "", "begins with a byte order mark, which is a syntax error to the updater", "save it as UTF-8 without BOM")
		return c.doc, c.problems
	}
	root, err := parseTree(data, maxDepth)
	if syntax, ok := errors.AsType[*errSyntax](err); ok {
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

// report adds a problem at a member path. detail, if given, is the member below it
// that is missing.
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
	members := c.object("", root, []string{"version", "notes", "pub_date", "platforms"}, []string{"minimum_version", "critical", "critical_below", "watershed", "sequence"})
	m := &c.doc.Manifest
	m.Version, _, _ = c.version("version", members["version"])
	m.Notes, _ = c.text("notes", members["notes"])
	m.PubDate = c.date(members["pub_date"])
	m.Sequence = c.sequence(members["sequence"])
	m.Critical = c.flag("critical", members["critical"])
	m.Watershed = c.flag("watershed", members["watershed"])
	m.MinimumVersion = c.earlier("minimum_version", members["minimum_version"], "no client could have it: lower it, or publish that version")
	m.CriticalBelow = c.earlier("critical_below", members["critical_below"], "write the newest version up to this one that is critical")
	m.Platforms = c.platforms(members["platforms"])
}

// object reports a value that is no object, and unknown, duplicate and missing
// members. It returns the known ones by name.
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

// unique records the positions of the members, and reports and drops repeated ones.
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

// join returns the path of a member. It quotes names that would make a path
// ambiguous.
func join(place, name string) string {
	if quoted := strconv.Quote(name); name == "" || strings.Contains(name, ".") || quoted != `"`+name+`"` {
		name = quoted
	}
	if place == "" {
		return name
	}
	return place + "." + name
}

// text reads a string. An absent member, nil here and below, was reported already if
// it is required.
func (c *checker) text(place string, n *node) (string, bool) {
	if n == nil {
		return "", false
	}
	s, ok := n.value.(string)
	switch {
	case !ok:
		c.report(place, "", "must be a string", "put the value in quotes")
	case strings.ContainsRune(s, '\uFFFD'):
		c.report(place, "", "holds a character that was lost (U+FFFD or half a surrogate pair)", "write the text again as UTF-8")
		return "", false
	}
	return s, ok
}

// version reads a version that may be published. ok is false if it is none.
func (c *checker) version(name string, n *node) (text string, v Version, ok bool) {
	if text, ok = c.text(name, n); !ok {
		return "", v, false
	}
	v, err := ParseVersion(text)
	if err != nil {
		c.report(name, "", err.Error(), "write MAJOR.MINOR.PATCH, such as 1.4.0")
	}
	return text, v, err == nil
}

// utcDate is RFC 3339 in UTC as the updater and ISO 8601 both read it.
var utcDate = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$`)

func (c *checker) date(n *node) time.Time {
	s, ok := c.text("pub_date", n)
	if !ok {
		return time.Time{}
	}
	t, err := parseDate(s)
	if err != nil {
		c.report("pub_date", "", fmt.Sprintf("%q is not an RFC 3339 date", s), "write it like 2026-11-21T10:00:00Z")
		return time.Time{}
	}
	if !utcDate.MatchString(s) {
		c.report("pub_date", "", fmt.Sprintf("%q is not in UTC", s), "write the same time in UTC: "+t.UTC().Format(time.RFC3339))
	}
	return t.UTC().Truncate(time.Second)
}

func (c *checker) flag(name string, n *node) bool {
	if n == nil {
		return false
	}
	set, ok := n.value.(bool)
	if !ok {
		c.report(name, "", "must be true or false", "write it without quotes, or leave it out")
	}
	return set
}

// earlier reads a version that must not be above that of the manifest.
func (c *checker) earlier(name string, n *node, mend string) string {
	text, earlier, ok := c.version(name, n)
	if version, err := ParseVersion(c.doc.Version); ok && err == nil && earlier.Compare(version) > 0 {
		c.report(name, "", "is above version", mend)
	}
	return text
}

func (c *checker) sequence(n *node) uint64 {
	if n == nil {
		return 0
	}
	number, _ := n.value.(json.Number)
	seq, err := strconv.ParseUint(number.String(), 10, 64)
	if err != nil || seq == 0 || seq > MaxSequence {
		c.report("sequence", "", "must be a whole number from 1", "leave it to the publishing command, or leave it out")
		return 0
	}
	return seq
}

func (c *checker) platforms(n *node) map[string]Platform {
	switch {
	case n == nil:
		return nil
	case n.kind != object:
		c.report("platforms", "", "must be an object", "write one member a platform, such as windows-x86_64")
		return nil
	case len(n.members) == 0:
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

func (c *checker) platform(place, key string, n *node) (p Platform) {
	members := c.object(place, n, []string{"signature", "url"}, nil)
	var ok bool
	if p.Signature, ok = c.text(place+".signature", members["signature"]); ok {
		c.signature(place+".signature", key, p.Signature)
	}
	if p.URL, ok = c.text(place+".url", members["url"]); ok {
		c.url(place+".url", key, p)
	}
	return p
}

// signature checks everything about a signature that needs no bundle.
func (c *checker) signature(place, key, line string) {
	_, err := c.rules.Keys.Accept(line, signing.Claim{
		Version: c.doc.Version, Targets: []string{key}, AllowUnbound: c.rules.AllowUnbound, AnyKey: len(c.rules.Keys) == 0,
	})
	if format, ok := errors.AsType[*signing.FormatError](err); ok {
		c.report(place, "", format.Problem, format.Mend)
	}
	faults, _ := errors.AsType[signing.Faults](err)
	for _, f := range faults {
		c.distrust(place, f.Err, f.Mend)
	}
}

// url checks the address and, unless the rules allow any file, whether the updater
// of the platform can install what it names.
func (c *checker) url(place, key string, p Platform) {
	if problem, mend := badURL(p.URL); problem != "" {
		c.report(place, "", problem, mend)
		return
	}
	k, err := ParseKey(key)
	if err != nil || c.rules.AnyFile {
		return
	}
	name := bundleName(p)
	if fits, known := k.Installs(name); known && !fits {
		c.report(place, "", fmt.Sprintf("%q can't be installed on %s", name, key), "publish a "+k.Installable()+" file for it")
	}
}

// FileOf returns the file name in a bundle's address, unescaped; empty if it is not an address.
func FileOf(address string) string {
	if _, rest, ok := strings.Cut(address, "://"); ok && !strings.ContainsAny(rest, "%?#") {
		if i := strings.LastIndexByte(rest, '/'); i >= 0 && i < len(rest)-1 {
			return rest[i+1:] // without parsing it, for every client that asks
		}
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return path.Base(u.Path)
}

// bundleName returns the file name in a bundle's address. If that does not show the kind of
// file, it returns the name that was signed.
func bundleName(p Platform) string {
	name := FileOf(p.URL)
	if _, _, known := fileKind(name); known {
		return name
	}
	sig, _ := signing.ParseSignature(p.Signature)
	return sig.Filename()
}
