package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestPlainWriter: untrusted text can't act on a terminal.
func TestPlainWriter(t *testing.T) {
	for in, want := range map[string]string{
		"plain ñ 日本\tand\nlines\n": "plain ñ 日本\tand\nlines\n",
		"\x1b]0;title\x07\x1b[2J":  `\x1b]0;title\x07\x1b[2J`,
		"back\rspace\b\x00\x7f":    `back\x0dspace\x08\x00\x7f`,
		"c1 \u009b31m":             `c1 \x9b31m`,
		"turned \u202egnp.exe":     `turned \u202egnp.exe`,
		"isolated \u2066x\u2069":   `isolated \u2066x\u2069`,
	} {
		var out bytes.Buffer
		if n, err := fmt.Fprint(PlainWriter{&out}, in); err != nil || n != len(in) || out.String() != want {
			t.Errorf("%q: wrote %q (%d, %v), want %q", in, out.String(), n, err, want)
		}
	}
}

// TestRowsStayRows: a line break in a cell can't forge a row.
func TestRowsStayRows(t *testing.T) {
	var out bytes.Buffer
	Table(&out, [][]string{{"A", "B"}, {"1", "x\n2  forged"}})
	if strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%q", out.String())
	}
}

// TestOneLine: the lines of a message are joined, not shown as escapes.
func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		errors.Join(errors.New("a"), errors.New("b")).Error(): "a; b",
		"yaml:\n  line 1":  "yaml: line 1",
		"\nBUNDLE":         "BUNDLE",
		"a\tb":             "a b",
		"first\n\n second": "first; second",
		"kept: as it is":   "kept: as it is",
	} {
		if got := OneLine(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
