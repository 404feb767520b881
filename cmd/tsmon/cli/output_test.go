package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlainWriter: text from elsewhere can't act on a terminal.
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

// TestRowsStayRows: a cell with a line break can't forge a row.
func TestRowsStayRows(t *testing.T) {
	var out bytes.Buffer
	Table(&out, [][]string{{"A", "B"}, {"1", "x\n2  forged"}})
	if strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%q", out.String())
	}
}

// TestWriteFile: a file is replaced, with nothing left beside it, and errors name it.
func TestWriteFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	if err := WriteFile(path, 0o600, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := WriteFile(path, 0o644, []byte("new")); err != nil {
		t.Error(err)
	}
	data, err := os.ReadFile(path)
	left, err2 := os.ReadDir(folder)
	if string(data) != "new" || len(left) != 1 || err != nil || err2 != nil {
		t.Errorf("%q beside %d files, %v, %v", data, len(left)-1, err, err2)
	}
	if err := WriteFile(filepath.Join(folder, "no", "file"), 0o644, nil); err == nil || !strings.Contains(err.Error(), filepath.Join("no", "file")) || strings.Contains(err.Error(), ".tsmon-") {
		t.Errorf("a missing folder: %v", err)
	}
}
