// Command build makes the console's files from its TypeScript sources, with
// esbuild as a library. It runs in api/console, as `go generate` does.
//
//	go run ./build [-out FOLDER] [-types FILE]
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	out := flag.String("out", "dist", "`FOLDER` to replace with the result")
	types := flag.String("types", "src/types.gen.ts", "`FILE` of the types of the interface")
	flag.Parse()
	if err := run(*out, *types); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(out, typesFile string) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	types, err := typesOf("../openapi.yaml")
	if err != nil {
		return err
	}
	if err := os.WriteFile(typesFile, types, 0o644); err != nil {
		return err
	}
	files, err := bundle(out)
	if err != nil {
		return err
	}
	if err := writePage(out, files); err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(out, "img"), os.DirFS("src/img"))
}

// bundle compiles the application and returns the names of the files that were
// written.
func bundle(out string) ([]string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	vendored := func(name string) string { return filepath.Join(folder, "vendor-js", name) }
	result := api.Build(api.BuildOptions{
		EntryPoints: []string{"src/main.tsx"}, Outdir: out, Write: true,
		Bundle: true, Splitting: true, Format: api.FormatESModule, Target: api.ES2022,
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true, LegalComments: api.LegalCommentsEndOfFile,
		JSX: api.JSXAutomatic, JSXImportSource: "preact",
		EntryNames: "[name]-[hash]", ChunkNames: "[name]-[hash]", AssetNames: "[name]-[hash]",
		Alias: map[string]string{
			"preact":             vendored("preact/preact.mjs"),
			"preact/hooks":       vendored("preact/hooks.mjs"),
			"preact/jsx-runtime": vendored("preact/jsxRuntime.mjs"),
			"uplot":              vendored("uplot/uPlot.esm.js"),
			"uplot.css":          vendored("uplot/uPlot.min.css"),
		},
		LogLevel: api.LogLevelWarning,
	})
	if len(result.Errors) > 0 {
		return nil, fmt.Errorf("%d errors in the sources", len(result.Errors))
	}
	var names []string
	for _, file := range result.OutputFiles {
		names = append(names, filepath.Base(file.Path))
	}
	slices.Sort(names)
	return names, nil
}

// imported matches the files that a script needs before it runs.
var imported = regexp.MustCompile(`(?:from|import)"\./(chunk-[A-Z0-9]+\.js)"`)

// writePage writes index.html with the names of the entry's script and style, and
// lets browsers load what the script needs at the same time.
func writePage(out string, files []string) error {
	page, err := os.ReadFile("src/index.html")
	if err != nil {
		return err
	}
	text := string(page)
	for _, ext := range []string{"js", "css"} {
		i := slices.IndexFunc(files, regexp.MustCompile(`^main-[A-Z0-9]+\.`+ext+`$`).MatchString)
		if i < 0 {
			return errors.New("the build made no main." + ext)
		}
		text = strings.ReplaceAll(text, "main."+ext, files[i])
	}
	script, err := os.ReadFile(filepath.Join(out, regexp.MustCompile(`main-[A-Z0-9]+\.js`).FindString(text)))
	if err != nil {
		return err
	}
	var preload strings.Builder
	for _, match := range imported.FindAllSubmatch(script, -1) {
		fmt.Fprintf(&preload, "<link rel=\"modulepreload\" href=\"%s\">\n", match[1])
	}
	text = strings.Replace(text, "<script type=\"module\"", preload.String()+"<script type=\"module\"", 1)
	return os.WriteFile(filepath.Join(out, "index.html"), []byte(text), 0o644)
}
