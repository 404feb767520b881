// Package notes finds the notes of a version in a changelog.
//
// A changelog is Markdown in which each version has a section under a heading of
// any level: `## [1.4.0] - 2026-05-01` as Keep a Changelog writes it, or `## 1.4.0`,
// `## v1.4.0 (May 2026)`, `# App 1.4.0`, or the same underlined with = or -. A
// section ends at the next heading of its level or above. Headings inside fenced
// code are text.
package notes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

// ErrNoSection means that a changelog has no section for a version.
var ErrNoSection = errors.New("no section")

// maxFile bounds a changelog, in bytes.
const maxFile = 4 << 20

// Section returns the text of a version's section in a file, without its heading
// and without blank lines around it. Errors wrap ErrNoSection where the section is
// missing or empty.
func Section(file, version string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > maxFile:
		return "", fmt.Errorf("%s: larger than %d bytes", file, maxFile)
	case !utf8.Valid(data):
		return "", fmt.Errorf("%s: not UTF-8", file)
	}
	text, err := find(string(data), version)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return text, nil
}

// find is Section for a changelog in memory.
func find(changelog, version string) (string, error) {
	version = strings.TrimPrefix(version, "v")
	lines := strings.Split(strings.ReplaceAll(strings.TrimPrefix(changelog, "\ufeff"), "\r\n", "\n"), "\n")
	begin, level := -1, 0
	end := len(lines)
	for _, h := range headings(lines) {
		if begin >= 0 && h.level <= level {
			end = h.line
			break
		}
		if begin < 0 && names(h.text, version) {
			begin, level = h.line+h.height, h.level
		}
	}
	if begin < 0 {
		return "", fmt.Errorf("%w for %s", ErrNoSection, version)
	}
	text := dropLinks(strings.Join(lines[begin:end], "\n"))
	if text == "" {
		return "", fmt.Errorf("%w for %s: there is a heading and no text", ErrNoSection, version)
	}
	return text, nil
}

type heading struct {
	line   int // of its text, from 0
	height int // lines that it takes
	level  int // from 1
	text   string
}

var (
	atx       = regexp.MustCompile(`^ {0,3}(#{1,6})(?:[ \t]+(.*))?$`)
	underline = regexp.MustCompile(`^ {0,3}(=+|-+)[ \t]*$`)
	fence     = regexp.MustCompile("^ {0,3}(```+|~~~+)")
)

func headings(lines []string) []heading {
	var found []heading
	open := "" // the fence of a code block
	for i, line := range lines {
		if mark := fence.FindStringSubmatch(line); mark != nil {
			switch {
			case open == "":
				open = mark[1]
			case strings.HasPrefix(mark[1], open):
				open = ""
			}
			continue
		}
		if open != "" {
			continue
		}
		if m := atx.FindStringSubmatch(line); m != nil {
			found = append(found, heading{i, 1, len(m[1]), m[2]})
			continue
		}
		if m := underline.FindStringSubmatch(line); m != nil && i > 0 && isText(lines[i-1]) {
			level := 1
			if m[1][0] == '-' {
				level = 2
			}
			found = append(found, heading{i - 1, 2, level, lines[i-1]})
		}
	}
	return found
}

// isText reports whether a line can be the text of an underlined heading, which
// lists, quotes and headings can't.
func isText(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && !strings.ContainsAny(line[:1], "#-*+>|")
}

// word is what may be a version in a heading.
var word = regexp.MustCompile(`[0-9A-Za-z.+-]+`)

// names reports whether a heading is that of a version: the first word of it that
// begins like one. `1.4.0` is not named by `1.4.0-beta.1`, nor by "Since 1.3.0, 1.4.0".
func names(text, version string) bool {
	for _, w := range word.FindAllString(text, -1) {
		w = strings.TrimPrefix(strings.TrimPrefix(w, "v"), "V")
		if w != "" && w[0] >= '0' && w[0] <= '9' && strings.Contains(w, ".") {
			return strings.TrimRight(w, ".-+") == version
		}
	}
	return false
}

// linkDefinition is a line such as `[1.4.0]: https://…`, which a changelog keeps
// at its end.
var linkDefinition = regexp.MustCompile(`^\[[^\]]+\]:\s+\S+$`)

// dropLinks removes the link definitions at the end of a text, and blank lines around it.
func dropLinks(text string) string {
	for {
		text = strings.TrimSpace(text)
		start := strings.LastIndexByte(text, '\n') + 1
		if !linkDefinition.MatchString(strings.TrimSpace(text[start:])) {
			return text
		}
		text = text[:start]
	}
}
