package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"

	"golang.org/x/term"
)

// Print writes a result to stdout: as JSON with --json, else as plain writes it.
func (a *App) Print(result any, plain func(w io.Writer)) error {
	var text bytes.Buffer
	if a.JSON {
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(result); err != nil {
			return err
		}
	} else {
		plain(&text)
	}
	return a.Write(text.Bytes())
}

// Write ends the progress, and writes a result to stdout as it is.
func (a *App) Write(text []byte) error {
	a.EndProgress()
	if _, err := a.Stdout.Write(text); err != nil {
		return unwritten(err)
	}
	return nil
}

// Say writes a line for people, except with --quiet.
func (a *App) Say(format string, args ...any) {
	if !a.Quiet {
		a.line(fmt.Sprintf(format, args...))
	}
}

// Warn writes each warning on a line, as JSON with --json.
func (a *App) Warn(warnings []string) {
	for _, text := range warnings {
		if a.JSON {
			data, _ := json.Marshal(map[string]string{"warning": text}) // can't fail
			a.line(string(data))
		} else {
			a.line("warning: " + text)
		}
	}
}

func (a *App) line(text string) { fmt.Fprintln(a.Stderr, OneLine(text)) }

// checkedWriter keeps the first error.
type checkedWriter struct {
	io.Writer
	err error
}

func (w *checkedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.err = cmp.Or(w.err, err)
	return n, err
}

// PlainWriter protects terminals. Control characters, except line breaks and tabs, and characters
// that change the direction of text become \xNN or \uNNNN.
type PlainWriter struct{ io.Writer }

func (w PlainWriter) Write(p []byte) (int, error) {
	if !bytes.ContainsFunc(p, isActive) {
		return w.Writer.Write(p)
	}
	if _, err := io.WriteString(w.Writer, escape(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case !isActive(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// isActive reports whether a character acts on a terminal.
func isActive(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// OneLine joins the lines of a text, so that it can't look like several messages or rows.
func OneLine(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(text, "\t", " ")) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case strings.HasSuffix(b.String(), ":"):
			b.WriteByte(' ')
		case b.Len() > 0:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// Table writes aligned columns; the first row is the heading.
func Table(w io.Writer, rows [][]string) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = OneLine(cell)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	tw.Flush()
}

// Size formats a number of bytes in binary units.
func Size(n int64) string {
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

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	if plain, ok := stream.(PlainWriter); ok {
		stream = plain.Writer
	}
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Verb says what was done, or with --dry-run what is only planned.
func Verb(dryRun bool, done, planned string) string {
	if dryRun {
		return planned
	}
	return done
}

// Count formats a number of things, such as 1 entry or 2 entries.
func Count[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}
