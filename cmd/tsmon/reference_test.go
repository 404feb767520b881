package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
)

// TestReference compares the pages of the reference with the commands, the configuration and the
// description of the interface. TSMON_WRITE_REFERENCE=1 writes them.
func TestReference(t *testing.T) {
	for name, want := range map[string]string{
		"reference/commands.md": commandPages(), "reference/settings.md": settingPages(t), "reference/routes.md": routePages(t),
	} {
		if os.Getenv("TSMON_WRITE_REFERENCE") == "1" {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s is not what the sources give: run TSMON_WRITE_REFERENCE=1 go test ./cmd/tsmon -run TestReference (%v)", name, err)
		}
	}
}

// TestRouteBodies: the page of the routes names every member of every request body.
func TestRouteBodies(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromFile("../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for section := range strings.SplitSeq(read(t, "reference/routes.md"), "\n## ") {
		title, text, _ := strings.Cut(section, "\n")
		sections[title] = text
	}
	members := 0
	for path, item := range doc.Paths.Map() {
		for method, o := range item.Operations() {
			if o.RequestBody == nil {
				continue
			}
			text := sections[method+" "+path]
			for kind, media := range o.RequestBody.Value.Content {
				if !strings.Contains(text, "- body, `"+kind+"`") {
					t.Errorf("%s %s: the body %s is not shown", method, path, kind)
				}
				visitMembers(media.Schema.Value, func(name string) {
					members++
					if !strings.Contains(text, "- `"+name+"`, ") {
						t.Errorf("%s %s: the member %s is not shown", method, path, name)
					}
				})
			}
		}
	}
	if members < 50 {
		t.Errorf("only %d members", members)
	}
}

// visitMembers visits the members of a schema, at any depth.
func visitMembers(s *openapi3.Schema, visit func(name string)) {
	if s.Items != nil {
		visitMembers(s.Items.Value, visit)
	}
	for name, member := range s.Properties {
		visit(name)
		visitMembers(member.Value, visit)
	}
}

// TestManPages: each command has a man page with its flags and examples. The program writes them, and
// the packages contain them.
func TestManPages(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "man1")
	if _, stderr, code := command(t, nil, "tsmon", "man", folder); code != 0 {
		t.Fatal(stderr)
	}
	pages := 0
	eachCommand(rootCommand(cli.New()), func(c *cobra.Command) {
		pages++
		page := strings.ReplaceAll(read(t, filepath.Join(folder, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")), `\-`, "-")
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(page, "--"+f.Name) {
				t.Errorf("the man page of %s lacks --%s", c.CommandPath(), f.Name)
			}
		})
		if c.Example != "" && !strings.Contains(page, "EXAMPLE") {
			t.Errorf("the man page of %s has no example", c.CommandPath())
		}
	})
	if pages < 40 {
		t.Errorf("only %d pages", pages)
	}
}

const generated = "<!-- Generated: TSMON_WRITE_REFERENCE=1 go test ./cmd/tsmon -run TestReference -->\n\n"

// commandPages returns a section for each command, with its help.
func commandPages() string {
	var b strings.Builder
	b.WriteString("# Commands\n\n" + generated)
	root := rootCommand(cli.New())
	fmt.Fprintf(&b, "```\n%s\n```\n\nEvery command has these flags:\n\n```\n%s```\n", rootHelp, root.PersistentFlags().FlagUsages())
	eachCommand(root, func(c *cobra.Command) {
		if c.HasSubCommands() {
			return
		}
		c.InitDefaultHelpFlag()
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n```\n%s\n```\n", c.CommandPath(), c.Short, c.UseLine())
		if c.Long != "" {
			fmt.Fprintf(&b, "\n```\n%s\n```\n", strings.TrimSpace(c.Long))
		}
		own := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				own.AddFlag(f)
			}
		})
		if own.HasFlags() {
			fmt.Fprintf(&b, "\n```\n%s```\n", own.FlagUsages())
		}
		if c.Example != "" {
			fmt.Fprintf(&b, "\n```\n%s\n```\n", c.Example)
		}
	})
	return b.String()
}

// eachCommand visits the commands that help lists, in its order.
func eachCommand(c *cobra.Command, visit func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "completion" && sub.Name() != "help" {
			visit(sub)
			eachCommand(sub, visit)
		}
	}
}

// settingPages lists the settings in the source of the configuration.
func settingPages(t *testing.T) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "config/config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]*ast.StructType{}
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
			spec := g.Specs[0].(*ast.TypeSpec)
			if s, ok := spec.Type.(*ast.StructType); ok {
				types[spec.Name.Name] = s
			}
		}
	}
	defaults := map[string]string{}
	for _, s := range config.Inspect("", []string{"TSMON_DATA=/var/lib/tsmon"}).Settings() {
		defaults[s.Name] = s.Value
	}
	var b strings.Builder
	b.WriteString("# Settings\n\n" + generated + "Of `tsmon.yaml`, and the variables that override it. Defaults are those with\n`TSMON_DATA=/var/lib/tsmon`.\n\n| setting | variable | default | |\n|---|---|---|---|\n")
	rows, named, words := 0, spoken(file), regexp.MustCompile(`\b[A-Z]+[a-z][A-Za-z]*\b`)
	var list func(prefix, of string)
	list = func(prefix, of string) {
		for _, f := range types[of].Fields.List {
			if f.Tag == nil || len(f.Names) != 1 {
				continue
			}
			tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
			name, _, _ := strings.Cut(tag.Get("yaml"), ",")
			variable := tag.Get("env")
			inner, kind := f.Type, ""
			if m, ok := inner.(*ast.MapType); ok {
				inner, kind = m.Value, ".NAME"
			}
			if id, ok := inner.(*ast.Ident); ok && types[id.Name] != nil && id.Name != "Operator" && name != "-" {
				list(prefix+name+kind+".", id.Name)
				continue
			}
			if name == "-" || name == "" {
				name = ""
				if variable == "" {
					continue
				}
			}
			said := cmp.Or(f.Doc.Text(), f.Comment.Text())
			if said == "" {
				t.Errorf("nothing is said of %s%s", prefix, name)
			}
			said = words.ReplaceAllStringFunc(oneLine(said), func(w string) string { return cmp.Or(named[w], w) })
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", code(prefix, name), code("", variable), code("", defaults[prefix+name]), said)
			rows++
		}
	}
	list("", "Config")
	list("", "Signing")
	if rows < 50 {
		t.Errorf("only %d settings were found", rows)
	}
	return b.String()
}

// spoken maps the Go names of settings and constants in a source to their names in tsmon.yaml.
func spoken(file *ast.File) map[string]string {
	names := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			if n.Tag == nil || len(n.Names) != 1 {
				break
			}
			tag := reflect.StructTag(strings.Trim(n.Tag.Value, "`"))
			name, _, _ := strings.Cut(tag.Get("yaml"), ",")
			if name == "" || name == "-" { // only a variable sets it
				name, _, _ = strings.Cut(tag.Get("env"), ",")
			}
			if name != "" && name != "url" && names[n.Names[0].Name] == "" {
				names[n.Names[0].Name] = "`" + name + "`"
			}
		case *ast.ValueSpec:
			if len(n.Values) != 1 {
				break
			}
			if text, ok := n.Values[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
				names[n.Names[0].Name] = "`" + strings.Trim(text.Value, `"`) + "`"
			}
		}
		return true
	})
	return names
}

func code(prefix, name string) string {
	if name == "" {
		return ""
	}
	return "`" + prefix + name + "`"
}

// routePages lists the routes of the description with their requests and responses.
func routePages(t *testing.T) string {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Routes\n\n" + generated + doc.Info.Description)
	for _, path := range doc.Paths.InMatchingOrder() {
		operations := doc.Paths.Value(path).Operations()
		for _, method := range slices.Sorted(maps.Keys(operations)) {
			o := operations[method]
			fmt.Fprintf(&b, "\n## %s %s\n\n%s.\n", method, path, strings.TrimSuffix(o.Summary, "."))
			if o.Description != "" {
				fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(o.Description))
			}
			b.WriteString("\n")
			for _, p := range append(slices.Clone(doc.Paths.Value(path).Parameters), o.Parameters...) {
				fmt.Fprintf(&b, "- `%s` in %s: %s\n", p.Value.Name, p.Value.In, oneLine(p.Value.Description))
			}
			bodyPages{&b, doc.Components.Schemas}.body(o.RequestBody)
			for _, status := range slices.Sorted(maps.Keys(o.Responses.Map())) {
				r := o.Responses.Value(status)
				said := ""
				if r.Value.Description != nil {
					said = *r.Value.Description
				}
				fmt.Fprintf(&b, "- %s: %s\n", status, oneLine(said))
			}
		}
	}
	return b.String()
}

// bodyPages writes request bodies. schemas are those that descriptions refer to as "As NAME".
type bodyPages struct {
	*strings.Builder
	schemas openapi3.Schemas
}

// body lists the members of a request body, and an example.
func (b bodyPages) body(body *openapi3.RequestBodyRef) {
	if body == nil {
		return
	}
	for _, kind := range slices.Sorted(maps.Keys(body.Value.Content)) {
		media := body.Value.Content[kind]
		fmt.Fprintf(b, "- body, `%s`, %s\n", kind, saying(typeOf(media.Schema.Value), body.Value.Description))
		b.members(media.Schema.Value, "  ")
		if example, err := json.Marshal(media.Example); err == nil && kind == "application/json" {
			fmt.Fprintf(b, "  - example: `%s`\n", example)
		}
	}
}

var reference = regexp.MustCompile(`^As (\w+)`)

// members lists the members of an object, of the objects of an array, or of the forms of a value,
// and what is in them.
func (b bodyPages) members(s *openapi3.Schema, indent string) {
	if s.Items != nil {
		s = s.Items.Value
	}
	for _, form := range s.OneOf {
		if form.Value.Type.Is("object") {
			fmt.Fprintf(b, "%s- %s\n", indent, saying("object", form.Value.Description))
			b.members(form.Value, indent+"  ")
		}
	}
	if rest := s.AdditionalProperties.Schema; rest != nil {
		fmt.Fprintf(b, "%s- any key, %s\n", indent, saying(typeOf(rest.Value), rest.Value.Description))
		b.members(rest.Value, indent+"  ")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		member := s.Properties[name].Value
		kind, said := typeOf(member), member.Description
		if m := reference.FindStringSubmatch(said); m != nil && b.schemas[m[1]] != nil {
			named := b.schemas[m[1]].Value
			said = strings.TrimSuffix(named.Description, ".") + said[len(m[0]):]
			member = named
		} else if member.Items != nil {
			said = cmp.Or(said, member.Items.Value.Description)
		}
		if slices.Contains(s.Required, name) {
			kind += ", required"
		}
		fmt.Fprintf(b, "%s- `%s`, %s\n", indent, name, saying(kind, said))
		b.members(member, indent+"  ")
	}
}

func saying(kind, description string) string {
	if description == "" {
		return kind
	}
	return kind + ": " + oneLine(description)
}

// typeOf names the type of a value in JSON.
func typeOf(s *openapi3.Schema) string {
	types := s.Type.Slice()
	switch {
	case len(s.OneOf) > 0:
		types = nil
		for _, form := range s.OneOf {
			types = append(types, typeOf(form.Value))
		}
	case len(s.Enum) > 0:
		types = nil
		for _, value := range s.Enum {
			types = append(types, fmt.Sprintf("`%v`", value))
		}
	case s.Items != nil:
		types = []string{"array of (" + typeOf(s.Items.Value) + ")"}
	case s.Format == "binary":
		types = []string{"bytes"}
	}
	switch {
	case len(types) == 0:
		return "any value"
	case s.Nullable:
		types = append(types, "null")
	}
	return strings.Join(slices.Compact(types), " or ")
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
