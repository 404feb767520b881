package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"tsmon/cmd/tsmon/cli"
)

// TestGuides: every line of a guide that begins with tsmon is run by a script exactly as written.
// Every command in a guide's text exists with these flags and arguments, and a test runs it with
// each of the flags.
func TestGuides(t *testing.T) {
	run, typed := tested(t), typedLines(t)
	lines := 0
	for _, guide := range documents(t) {
		text := read(t, guide)
		for _, line := range linesOf(text) {
			if program(line) == "tsmon" {
				lines++
				if !typed[line] {
					t.Errorf("%s: no script runs, with `typed`, %s", guide, line)
				}
			}
		}
		for _, line := range inText(text, []string{"tsmon"}) {
			path, flags, err := understand(line)
			if err != nil {
				t.Errorf("%s: %s: %v", guide, line, err)
			} else if !run(path, "") {
				t.Errorf("%s: %s: no test runs %s", guide, line, path)
			}
			for _, flag := range flags {
				if !run(path, flag) {
					t.Errorf("%s: %s: no test runs %s --%s", guide, line, path, flag)
				}
			}
		}
	}
	if lines < 70 {
		t.Errorf("only %d lines were found", lines)
	}
}

// typedLines returns the lines that scripts run with typed.
func typedLines(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	scripts, _ := filepath.Glob("testdata/script/*.txtar") // the pattern is good
	for _, name := range scripts {
		for line := range strings.Lines(read(t, name)) {
			if rest, ok := strings.CutPrefix(line, "typed '"); ok {
				rest = strings.ReplaceAll(rest, "''", "\x00")
				rest, _, _ = strings.Cut(rest, "'")
				found[strings.ReplaceAll(rest, "\x00", "'")] = true
			}
		}
	}
	return found
}

// scriptTyped runs a line of a guide.
func scriptTyped(ts *testscript.TestScript, args []string) {
	line, known := args[0], false
	guides, err := guides()
	ts.Check(err)
	for _, guide := range guides {
		text := ts.ReadFile(guide)
		known = known || slices.Contains(linesOf(text), line) || slices.Contains(inText(text, otherPrograms), line)
	}
	if !known {
		ts.Fatalf("no guide has the line %s", line)
	}
	for _, change := range args[1:] {
		from, to, ok := strings.Cut(change, "=>")
		if !ok || !strings.Contains(line, from) {
			ts.Fatalf("the line has no %q", from)
		}
		line = strings.ReplaceAll(line, from, to)
	}
	if words, err := split(line); err == nil && len(words) > 1 && words[0] == "tsmon" && words[1] == "serve" {
		scriptServe(ts, words[2:])
		return
	}
	ts.Check(ts.Exec("sh", "-c", line))
}

// documents returns the guides.
func documents(t *testing.T) []string {
	t.Helper()
	files, err := guides()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// guides finds the guides: all Markdown of the project that people read. The paths are
// absolute.
var guides = sync.OnceValues(func() (files []string, err error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		if err == nil && d.IsDir() && (name == "testdata" || name == "node_modules" || name == "reference" || name == ".tools" || name == ".git") {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".md") && name != "CHANGELOG.md" {
			files = append(files, path)
		}
		return err
	})
	return files, err
})

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// comment matches a remark after a command.
var comment = regexp.MustCompile(`\s+#\s.*$`)

// linesOf returns the commands in a guide's blocks of code, without remarks. A loop is one line.
func linesOf(guide string) (lines []string) {
	fence, blank, loop := "", true, ""
	guide = regexp.MustCompile(`\\\n +`).ReplaceAllString(guide, "")
	for line := range strings.Lines(guide) {
		if strings.HasPrefix(line, "```") {
			if fence == "" {
				fence = strings.TrimSpace(line)
			} else {
				fence = ""
			}
			continue
		}
		text := strings.TrimSpace(line)
		block := fence == "" && blank && strings.HasPrefix(line, "    ")
		blank = text == "" || block
		text = comment.ReplaceAllString(text, "")
		switch {
		case !block && fence != "```" && fence != "```sh":
		case text == "done":
			lines, loop = append(lines, loop+" done"), ""
		case loop != "":
			loop += " " + text + ";"
		case strings.HasSuffix(text, "; do"):
			loop = text
		case slices.Contains(programs, program(text)):
			lines = append(lines, text)
		}
	}
	return lines
}

// program returns the program that a line runs.
func program(line string) string {
	for word := range strings.FieldsSeq(line) {
		name, value, variable := strings.Cut(word, "=")
		if !variable || name != strings.ToUpper(name) {
			return word
		}
		if inner, ok := strings.CutPrefix(value, "$("); ok {
			return inner
		}
	}
	return ""
}

// inText returns the commands of programs that the text of a guide has in backquotes.
func inText(guide string, programs []string) (lines []string) {
	var text strings.Builder
	fenced := false
	for line := range strings.Lines(guide) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		} else if !fenced && !strings.HasPrefix(line, "    ") {
			text.WriteString(line)
		}
	}
	for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.ReplaceAll(text.String(), "\n", " "), -1) {
		name, rest, _ := strings.Cut(match[1], " ")
		if rest != "" && slices.Contains(programs, name) && rest != "help" && !strings.HasPrefix(rest, "COMMAND ") { // which show what there is
			lines = append(lines, match[1])
		}
	}
	return lines
}

// understand returns the command that a line names, such as release publish, and its flags.
// A line in a text may lack arguments.
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
	for _, word := range rest {
		name, found := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		if found && name != "help" && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
			return "", nil, fmt.Errorf("%s has no flag --%s", cmd.CommandPath(), name)
		}
		if found && cmd.Flags().Lookup(name) != nil {
			flags = append(flags, name)
		}
	}
	return strings.TrimPrefix(cmd.CommandPath(), "tsmon "), flags, nil
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

// tested returns a function that reports whether a script runs a command with a flag, or the source
// of a test has both in quotes. An empty flag stands for the command alone.
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
