package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// section returns a section of CONTRIBUTING.md.
func section(t *testing.T, heading string) string {
	t.Helper()
	data, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(data), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("there is no section %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// TestFoldersNamed compares the table of packages with the packages.
func TestFoldersNamed(t *testing.T) {
	var named []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9/]+)` \\| [^|]+ \\|$").FindAllStringSubmatch(section(t, "The folders"), -1) {
		named = append(named, row[1])
	}
	out, err := exec.Command("go", "list", "tsmon/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := []string{"cmd/tsmon/packaging"} // a module of its own
	for _, path := range strings.Fields(string(out)) {
		packages = append(packages, strings.TrimPrefix(path, "tsmon/"))
	}
	slices.Sort(named)
	slices.Sort(packages)
	if !slices.Equal(named, slices.Compact(packages)) {
		t.Errorf("named are\n%v\nand there are\n%v", named, packages)
	}
}

// TestPublishWalk checks the list of at most twelve files of a publish. Each file must declare the
// functions that the list names, and an earlier file must call the first of them.
func TestPublishWalk(t *testing.T) {
	steps := regexp.MustCompile("(?m)^\\d+\\. `([^`]+\\.go)`: (.*)$").FindAllStringSubmatch(section(t, "How a publish runs"), -1)
	if len(steps) < 8 || len(steps) > 12 {
		t.Fatalf("the walk has %d files", len(steps))
	}
	called := map[string]bool{"runPublish": true} // by the files so far
	for _, step := range steps {
		src, err := os.ReadFile("../../" + step[1])
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(src, []byte("\n")); n > 400 {
			t.Errorf("%s has %d lines", step[1], n)
		}
		file, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		var declared []string
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				declared = append(declared, fn.Name.Name)
			}
		}
		for i, name := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(step[2], -1) {
			if !slices.Contains(declared, name[1]) {
				t.Errorf("%s has no function %s", step[1], name[1])
			}
			if i == 0 && !called[name[1]] {
				t.Errorf("nothing before %s calls %s", step[1], name[1])
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				switch fn := call.Fun.(type) {
				case *ast.Ident:
					called[fn.Name] = true
				case *ast.SelectorExpr:
					called[fn.Sel.Name] = true
				}
			}
			return true
		})
	}
}
