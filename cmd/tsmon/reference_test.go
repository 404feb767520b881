package main

import (
	"cmp"
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

// TestReference: the pages of reference are what the commands, the configuration and the
// description of the interface give. TSMON_WRITE_REFERENCE=1 writes them.
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

// TestManPages: each command has a man page with its flags and examples. Packages contain
// them as the program writes them.
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

// commandPages has a section for each command: what help says of it.
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

// settingPages lists the settings as the configuration's source has them.
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
			name, variable := tag.Get("yaml"), tag.Get("env")
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

// spoken returns what settings and constants of a source are called in tsmon.yaml, by
// their names in Go.
func spoken(file *ast.File) map[string]string {
	names := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			if n.Tag == nil || len(n.Names) != 1 {
				break
			}
			tag := reflect.StructTag(strings.Trim(n.Tag.Value, "`"))
			name := tag.Get("yaml")
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

// routePages lists the routes of the description with what they take and answer.
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

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
