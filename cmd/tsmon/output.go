package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// print writes a result: as JSON with --json, else through the given function.
func (a *app) print(result any, plain func()) error {
	if !a.json {
		plain()
		return nil
	}
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(result)
}

// plainWriter writes text that came from elsewhere so that it can't act on a
// terminal: control characters, but for line breaks and tabs, and those that turn
// the direction of text are written as \xNN or \uNNNN.
type plainWriter struct{ io.Writer }

func (w plainWriter) Write(p []byte) (int, error) {
	if isPlain(p) {
		return w.Writer.Write(p)
	}
	if _, err := io.WriteString(w.Writer, escape(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// isPlain says that a text is ASCII and none of it acts: that is quick to tell.
func isPlain(p []byte) bool {
	for _, b := range p {
		if b < ' ' && b != '\n' && b != '\t' || b >= 0x7f {
			return false
		}
	}
	return true
}

// escape spells out the characters that act.
func escape(text string) string {
	if !strings.ContainsFunc(text, acts) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case !acts(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// acts says that a character does something to a terminal.
func acts(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// oneLine keeps a text from looking like several lines.
func oneLine(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", " ").Replace(text)
}

// table writes aligned columns; the first row is the heading.
func table(w io.Writer, rows [][]string) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(tw, "\t")
			}
			fmt.Fprint(tw, oneLine(cell))
		}
		fmt.Fprintln(tw)
	}
	tw.Flush()
}

// say writes a line for people.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.stderr, oneLine(fmt.Sprintf(format, args...)))
}

func (a *app) warn(warnings []string) {
	for _, w := range warnings {
		a.say("warning: %s", w)
	}
}

// bytesText writes a size in binary units.
func bytesText(n int64) string {
	const units = "KMGT"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}
