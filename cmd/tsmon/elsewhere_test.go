package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestElsewhere type-checks every package and its tests for systems on which no tests run. It reads
// only the declarations of imported packages, which takes a tenth of the time of a build.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("type-checks everything twice")
	}
	ours, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, system := range []string{"windows/amd64", "darwin/arm64"} {
		t.Run(system, func(t *testing.T) {
			goos, goarch, _ := strings.Cut(system, "/")
			loaded, err := packages.Load(&packages.Config{
				Context: t.Context(),
				Mode:    packages.LoadAllSyntax,
				Dir:     ours,
				Env:     append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
				Tests:   true,
				ParseFile: func(files *token.FileSet, name string, source []byte) (*ast.File, error) {
					file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
					if err == nil && !strings.HasPrefix(name, ours+string(filepath.Separator)) {
						withoutBodies(file)
					}
					return file, err
				},
			}, "./...")
			if err != nil {
				t.Fatal(err)
			}
			tests := 0
			for _, p := range loaded {
				if strings.HasSuffix(p.ID, ".test") { // a generated main, whose body is gone
					continue
				}
				if strings.HasSuffix(p.ID, ".test]") {
					tests++
				}
				for _, problem := range p.Errors {
					t.Errorf("%s: %v", p.ID, problem)
				}
			}
			if tests < 30 {
				t.Errorf("only %d packages with tests were checked", tests)
			}
		})
	}
}

func withoutBodies(file *ast.File) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			f.Body = nil
		}
	}
}
