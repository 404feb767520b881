package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"tsmon/cmd/tsmon/cli"
)

// TestGuides: every command in a guide is one of the program's, with flags and arguments
// that it takes; and a script or another test runs that command with each of these flags.
func TestGuides(t *testing.T) {
	run := tested(t)
	commands := 0
	for _, guide := range documents(t) {
		for _, line := range typedIn(read(t, guide)) {
			commands++
			path, flags, err := understand(line)
			if err != nil {
				t.Errorf("%s: %s: %v", guide, line, err)
				continue
			}
			if !run(path, "") {
				t.Errorf("%s: %s: no test runs %s", guide, line, path)
			}
			for _, flag := range flags {
				if !run(path, flag) {
					t.Errorf("%s: %s: no test runs %s --%s", guide, line, path, flag)
				}
			}
		}
	}
	if commands < 70 {
		t.Errorf("only %d commands were found", commands)
	}
}

// documents returns the guides: all Markdown of the project that people read.
func documents(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		if err == nil && d.IsDir() && (name == "testdata" || name == "node_modules" || name == "reference" || name == ".tools" || name == ".git") {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".md") && name != "CHANGELOG.md" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// typedIn returns the lines of a guide's blocks of code that begin with the program.
func typedIn(guide string) (lines []string) {
	fenced := false
	for line := range strings.Lines(strings.ReplaceAll(guide, "\\\n", " ")) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		code, block := strings.CutPrefix(line, "    ")
		code = strings.TrimSpace(code)
		code = strings.TrimPrefix(strings.Replace(code, "go run ./cmd/tsmon", "tsmon", 1), "TSMON_SECRET=$(openssl rand -base64 32) ")
		if (block || fenced) && strings.HasPrefix(code, "tsmon ") {
			lines = append(lines, code)
		}
	}
	return lines
}

// understand returns the command that a line says, such as release publish, and its flags.
func understand(line string) (path string, flags []string, err error) {
	words, err := split(line)
	if err != nil {
		return "", nil, err
	}
	cmd, rest, err := rootCommand(cli.New()).Find(words[1:])
	if err != nil {
		return "", nil, err
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return "", nil, fmt.Errorf("%s is no command of %s", rest[0], cmd.CommandPath())
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return "", nil, err
	}
	cmd.Flags().Visit(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	return strings.TrimPrefix(cmd.CommandPath(), "tsmon "), flags, cmd.ValidateArgs(cmd.Flags().Args())
}

// split splits a line into words as a shell does, up to a comment or whatever joins commands.
func split(line string) (words []string, err error) {
	var word strings.Builder
	quote, begun := rune(0), false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case strings.ContainsRune("|;&<>", r) || r == '#' && !begun:
			end()
			return words, nil
		case r == ' ':
			end()
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	return words, nil
}

// tested reports whether a command is run with a flag by a script, or is in the source of
// a test in quotes; an empty flag is the command alone.
func tested(t *testing.T) func(path, flag string) bool {
	t.Helper()
	known, root, long := map[string]bool{}, rootCommand(cli.New()), regexp.MustCompile(` --([a-z0-9-]+)`)
	scripts, _ := filepath.Glob("testdata/script/*.txtar") // the pattern is good
	for _, name := range scripts {
		for line := range strings.Lines(read(t, name)) {
			_, line, found := strings.Cut(" "+strings.TrimSpace(line), " tsmon ")
			cmd, _, err := root.Find(strings.Fields(line))
			if !found || err != nil { // which scripts also try
				continue
			}
			path := strings.TrimPrefix(cmd.CommandPath(), "tsmon ")
			known[path] = true
			for _, match := range long.FindAllStringSubmatch(line, -1) {
				known[path+" --"+match[1]] = true
			}
		}
	}
	sources, _ := filepath.Glob("*_test.go")
	more, _ := filepath.Glob("*/*_test.go")
	quoted := regexp.MustCompile(`"([a-z0-9-]+)(?:=[^"]*)?"|\b(serve)\(`) // serve is a function of the tests
	for _, name := range append(sources, more...) {
		for line := range strings.Lines(read(t, name)) {
			var words []string
			for _, match := range quoted.FindAllStringSubmatch(line, -1) {
				words = append(words, match[1]+match[2])
			}
			for i := range words {
				path := strings.Join(words[max(0, i-1):i+1], " ")
				for _, of := range []string{words[i], path} {
					known[of] = true
					for _, flag := range words[i+1:] {
						if strings.HasPrefix(flag, "--") {
							known[of+" "+flag] = true
						}
					}
				}
			}
		}
	}
	return func(path, flag string) bool {
		if flag == "" {
			return known[path]
		}
		return known[path+" --"+flag]
	}
}
