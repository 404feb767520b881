package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
)

// The bounds for structs, files and packages, except tests and their kits. For packages only lines
// with code count, neither blank lines nor comments.
const (
	mostMethods   = 30
	mostFileLines = 500
	mostLines     = 2500
)

// TestSizes checks these bounds for every package.
func TestSizes(t *testing.T) {
	list := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Skip("needs a checkout: ", err)
	}
	methods, lines, files := map[string]int{}, map[string]int{}, 0
	for _, name := range strings.Fields(string(out)) {
		dir := path.Dir(name)
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(dir, "test") {
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
		lines[dir] += codeLines(src)
		for _, typ := range receivers(t, name, src) {
			methods[dir+"."+typ]++
		}
	}
	for typ, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods, more than %d", typ, n, mostMethods)
		}
	}
	for dir, n := range lines {
		if n > mostLines {
			t.Errorf("%s has %d lines of code, more than %d", dir, n, mostLines)
		}
	}
	if files < 100 {
		t.Errorf("only %d files were checked", files)
	}
}

// codeLines counts the lines that hold a token which is not a comment.
func codeLines(src []byte) int {
	file := token.NewFileSet().AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	on := map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		switch {
		case tok == token.EOF:
			return len(on)
		case tok == token.SEMICOLON && text == "\n": // was added by the scanner
			continue
		}
		for i := range strings.Count(text, "\n") + 1 {
			on[file.Line(pos)+i] = true
		}
	}
}

func TestCodeLines(t *testing.T) {
	src := "// Package x is short.\npackage x\n\n/* two\nlines */\nvar a = `1\n2` // both\n\nfunc f() {\n}\n"
	if n := codeLines([]byte(src)); n != 5 {
		t.Errorf("%d lines", n)
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
