package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
)

// What a struct and a file may grow to, tests aside.
const (
	mostMethods   = 31
	mostFileLines = 500
)

// TestSizes holds every package to those bounds.
func TestSizes(t *testing.T) {
	list := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Skip("needs a checkout: ", err)
	}
	methods, files := map[string]int{}, 0
	for _, name := range strings.Fields(string(out)) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile("../../" + name)
		if os.IsNotExist(err) {
			continue // removed, and not yet committed
		} else if err != nil {
			t.Fatal(err)
		}
		files++
		if n := bytes.Count(src, []byte("\n")); n > mostFileLines {
			t.Errorf("%s has %d lines, more than %d", name, n, mostFileLines)
		}
		for _, typ := range receivers(t, name, src) {
			methods[path.Dir(name)+"."+typ]++
		}
	}
	for typ, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods, more than %d", typ, n, mostMethods)
		}
	}
	if files < 100 {
		t.Errorf("only %d files were checked", files)
	}
}

// receivers returns the type of each method that a file declares.
func receivers(t *testing.T, name string, src []byte) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv == nil {
			continue
		}
		typ := fn.Recv.List[0].Type
		for {
			if star, ok := typ.(*ast.StarExpr); ok {
				typ = star.X
			} else if generic, ok := typ.(*ast.IndexExpr); ok {
				typ = generic.X
			} else {
				break
			}
		}
		if id, ok := typ.(*ast.Ident); ok {
			types = append(types, id.Name)
		}
	}
	return types
}
