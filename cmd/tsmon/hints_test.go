package main

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestHints: every hint that the program can print is followed by a test to its end.
// In a script, `follows TEXT`, which a condition may precede, stands before the commands
// that do what the hint says; in a Go test, the comment `// follows: TEXT` does. TEXT is
// the hint, or a long part of it; … stands for what is filled in.
func TestHints(t *testing.T) {
	hints, err := collectHints("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(hints) < 300 {
		t.Errorf("only %d hints were found", len(hints))
	}
	used := map[string]bool{}
	marks := followed(t)
	for _, h := range hints {
		found := false
		for _, mark := range marks {
			if h.has(mark) {
				found, used[mark] = true, true
			}
		}
		if !found {
			t.Errorf("no test follows this hint: %s", h)
		}
	}
	for _, mark := range marks {
		if !used[mark] {
			t.Errorf("no hint has the text that a test follows: %s", mark)
		}
	}
	t.Logf("%d hints", len(hints))
}

// TestFindingsHaveMends: every finding of the doctor that is not ok has a mend. TestHints checks that
// a test follows it.
func TestFindingsHaveMends(t *testing.T) {
	files := token.NewFileSet()
	found := 0
	err := walk("doctor", func(path string) error {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		p := &pkg{folder: "cmd/tsmon/doctor"}
		ast.Inspect(file, func(n ast.Node) bool {
			var mend ast.Expr
			switch n := n.(type) {
			case *ast.CallExpr:
				if m, ok := makers[nameOf(n.Fun)]; ok && m.folder == p.folder && m.at < len(n.Args) {
					mend = n.Args[m.at]
				}
			case *ast.CompositeLit:
				if mend = p.mendOf(n); mend != nil && nameOf(n.Elts[1]) == "OK" {
					return true
				}
				for _, element := range n.Elts {
					if pair, ok := element.(*ast.KeyValueExpr); ok && nameOf(n.Type) == "Finding" {
						t.Errorf("%s: write the members of a Finding without names: %s", files.Position(n.Pos()), nameOf(pair.Key))
					}
				}
			}
			if mend == nil {
				return true
			}
			found++
			if text, ok := mend.(*ast.BasicLit); ok && text.Value == `""` {
				t.Errorf("%s: this finding has no mend", files.Position(n.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil || found < 70 {
		t.Errorf("%v; %d findings", err, found)
	}
}

var markPattern = regexp.MustCompile(`^(?:(?:\[\w+\] )?follows '(.+)'|\s*// follows: (.+))$`)

// followed returns the texts that tests follow. A quote in a script is written twice.
func followed(t *testing.T) []string {
	t.Helper()
	var marks []string
	err := walk("../..", func(path string) error {
		if !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".txtar") {
			return nil
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if m := markPattern.FindStringSubmatch(lines.Text()); m != nil {
				marks = append(marks, strings.TrimSpace(strings.ReplaceAll(m[1], "''", "'")+m[2]))
			}
		}
		return lines.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return marks
}

// walk calls f for each file of the project's packages.
func walk(root string, f func(path string) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "packaging") {
			return filepath.SkipDir
		}
		if d.IsDir() {
			return nil
		}
		return f(path)
	})
}

// hint is an expression that makes a hint.
type hint struct {
	folder string
	parts  []string // literal texts; what lies between them is filled in
}

func (h hint) String() string { return h.folder + ": " + strings.Join(h.parts, "…") }

// has reports whether a mark is the hint, or a part of it that is long enough to be unique.
func (h hint) has(mark string) bool {
	text := strings.Join(h.parts, "…")
	return strings.TrimSpace(text) == mark || len(mark) >= 20 && strings.Contains(text, mark)
}

// makers are the functions that take a hint, with the number of its argument and the folder whose
// packages use that name.
var makers = map[string]struct {
	at     int
	folder string
}{
	"refuse": {1, "release"}, "Refuse": {1, "release"}, "find": {2, "release"}, "WithHint": {1, "cmd/tsmon"},
	"malformed": {1, "signing"}, "misplaced": {3, "signing"}, "report": {3, "manifest"}, "distrust": {2, "manifest"}, "earlier": {2, "manifest"},
	"warn": {0, "cmd/tsmon/doctor"}, "fail": {0, "cmd/tsmon/doctor"}, "failed": {1, "cmd/tsmon/doctor"},
	"mistake": {1, "cmd/tsmon/scaffold"},
}

// pkg is a parsed package.
type pkg struct {
	folder string
	files  []*ast.File
	funcs  map[string][]*ast.FuncDecl
	values map[string]ast.Expr // of constants and variables
	hints  []hint
	seen   map[ast.Node]bool
}

// collectHints parses the packages below a folder and returns their hints.
func collectHints(root string) ([]hint, error) {
	packages := map[string]*pkg{}
	files := token.NewFileSet()
	err := walk(root, func(path string) error {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, _ := filepath.Rel(root, filepath.Dir(path))
		if packages[folder] == nil {
			packages[folder] = &pkg{folder: folder, funcs: map[string][]*ast.FuncDecl{}, values: map[string]ast.Expr{}, seen: map[ast.Node]bool{}}
		}
		packages[folder].add(file)
		return nil
	})
	var all []hint
	for _, p := range packages {
		p.collect()
		all = append(all, p.hints...)
	}
	return all, err
}

func (p *pkg) add(file *ast.File) {
	p.files = append(p.files, file)
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			p.funcs[d.Name.Name] = append(p.funcs[d.Name.Name], d)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok {
					for i := range min(len(v.Names), len(v.Values)) {
						p.values[v.Names[i].Name] = v.Values[i]
					}
				}
			}
		}
	}
}

// collect finds the places where a hint is made.
func (p *pkg) collect() {
	for _, file := range p.files {
		var within *ast.FuncDecl
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				within = n
			case *ast.CallExpr:
				if m, ok := makers[nameOf(n.Fun)]; ok && strings.HasPrefix(p.folder, m.folder) && m.at < len(n.Args) {
					p.take(n.Args[m.at], within)
				}
			case *ast.CompositeLit:
				if mend := p.mendOf(n); mend != nil {
					p.take(mend, within)
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Mend" || key.Name == "Hint") {
					p.take(n.Value, within)
				}
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if selector, ok := left.(*ast.SelectorExpr); ok && (selector.Sel.Name == "Mend" || selector.Sel.Name == "Hint") && i < len(n.Rhs) {
						p.take(n.Rhs[i], within)
					}
				}
			case *ast.ValueSpec:
				if len(n.Names) == 1 && n.Names[0].Name == "hints" && len(n.Values) == 1 { // the table of package cli
					for _, row := range n.Values[0].(*ast.CompositeLit).Elts {
						p.take(row.(*ast.CompositeLit).Elts[1], nil)
					}
				}
			}
			return true
		})
	}
}

// mendOf returns the mend of a doctor's Finding whose members have no names, else nil.
func (p *pkg) mendOf(l *ast.CompositeLit) ast.Expr {
	const members, mend = 5, 4
	if p.folder != "cmd/tsmon/doctor" || len(l.Elts) != members || l.Type != nil && nameOf(l.Type) != "Finding" {
		return nil
	}
	if _, named := l.Elts[mend].(*ast.KeyValueExpr); named {
		return nil
	}
	return l.Elts[mend]
}

func nameOf(f ast.Expr) string {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// take adds the hints that an expression can become.
func (p *pkg) take(e ast.Expr, within *ast.FuncDecl) {
	if p.seen[e] {
		return
	}
	p.seen[e] = true
	switch e := e.(type) {
	case *ast.Ident:
		if value, ok := p.values[e.Name]; ok {
			p.take(value, nil)
			return
		}
		p.assigned(e.Name, within)
		return
	case *ast.CallExpr:
		if declared := p.funcs[nameOf(e.Fun)]; len(declared) > 0 {
			for _, f := range declared {
				p.returned(f, 0)
			}
			return
		}
	case *ast.IndexExpr: // of a map of hints
		p.take(e.X, within)
		return
	case *ast.CompositeLit:
		for _, element := range e.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				p.take(pair.Value, within)
			}
		}
		return
	}
	if parts := p.literals(e); len(parts) > 0 {
		p.hints = append(p.hints, hint{p.folder, parts})
	}
}

// assigned adds what a function assigns to a variable.
func (p *pkg) assigned(name string, within *ast.FuncDecl) {
	if within == nil {
		return
	}
	ast.Inspect(within, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				id, ok := left.(*ast.Ident)
				switch {
				case !ok || id.Name != name:
				case i < len(n.Rhs) && len(n.Lhs) == len(n.Rhs):
					p.take(n.Rhs[i], within)
				default: // of several results of a function
					if call, ok := n.Rhs[0].(*ast.CallExpr); ok {
						for _, f := range p.funcs[nameOf(call.Fun)] {
							p.returned(f, i)
						}
					}
				}
			}
		case *ast.ValueSpec:
			for i, id := range n.Names {
				if id.Name == name && i < len(n.Values) {
					p.take(n.Values[i], within)
				}
			}
		}
		return true
	})
}

// returned adds what a function returns, as its result of a number.
func (p *pkg) returned(f *ast.FuncDecl, result int) {
	ast.Inspect(f, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok && result < len(r.Results) {
			p.take(r.Results[result], f)
		}
		return true
	})
}

var verb = regexp.MustCompile(`%[-+#0-9.]*[a-z]`)

// literals returns the literal parts of a text, in order.
func (p *pkg) literals(e ast.Expr) []string {
	var parts []string
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				for _, part := range verb.Split(text, -1) {
					if strings.ContainsFunc(part, func(r rune) bool { return r >= 'a' && r <= 'z' }) {
						parts = append(parts, part)
					}
				}
			}
		case *ast.Ident:
			if value, ok := p.values[n.Name].(*ast.BasicLit); ok {
				if text, err := strconv.Unquote(value.Value); err == nil {
					parts = append(parts, text)
				}
			}
		}
		return true
	})
	return parts
}
