package main

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
		if n, err := fmt.Fprint(plainWriter{&out}, in); err != nil || n != len(in) || out.String() != want {
			t.Errorf("%q: wrote %q (%d, %v), want %q", in, out.String(), n, err, want)
		}
	}
}

// TestRowsStayRows: a cell with a line break can't forge a row.
func TestRowsStayRows(t *testing.T) {
	var out bytes.Buffer
	table(&out, [][]string{{"A", "B"}, {"1", "x\n2  forged"}})
	if strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%q", out.String())
	}
}

// TestKeysAreNotShown: a private key that was given where its path belongs, or as
// an argument, stands in no output.
func TestKeysAreNotShown(t *testing.T) {
	data, err := os.ReadFile("testdata/unencrypted.key")
	if err != nil {
		t.Fatal(err)
	}
	_, payload, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	empty := t.TempDir()
	for name, c := range map[string]struct {
		env  string
		args []string
	}{
		"--key":            {"", []string{"release", "sign", "--version", "1.0.0", "--key", payload, "x"}},
		"whole as --key":   {"", []string{"release", "sign", "--version", "1.0.0", "--key", string(data), "x"}},
		"_PATH":            {"TAURI_SIGNING_PRIVATE_KEY_PATH=" + payload, []string{"keys", "show"}},
		"cut _PATH":        {"TAURI_SIGNING_PRIVATE_KEY_PATH=" + payload[:150], []string{"keys", "show"}},
		"cut":              {"TAURI_SIGNING_PRIVATE_KEY=" + payload[:150], []string{"keys", "show"}},
		"argument":         {"", []string{"keys", "show", payload}},
		"as a trusted key": {"TSMON_TRUSTED_KEYS=" + payload, []string{"keys", "show"}},
		"as a public key":  {"", []string{"update", "check", "--endpoint", "http://127.0.0.1:1", "--current", "1.0.0", "--public-key", payload}},
	} {
		for _, format := range []string{"", "--json"} {
			args := c.args
			if format != "" {
				args = append(args, format)
			}
			stdout, stderr, code := command(t, []string{c.env, "TSMON_STORAGE=" + filepath.Join(empty, "s")}, "tsmon", args...)
			if code == 0 {
				t.Errorf("%s: exit code 0", name)
			}
			for i := 0; i+40 <= len(payload); i += 20 {
				if strings.Contains(stdout+stderr, payload[i:i+40]) {
					t.Errorf("%s %s: shows the key: %s", name, format, stderr)
					break
				}
			}
		}
	}
}

// TestWriteFile: a file is replaced, with nothing left beside it, and errors name it.
func TestWriteFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	if err := writeFile(path, 0o600, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := writeFile(path, 0o644, []byte("new")); err != nil {
		t.Error(err)
	}
	data, err := os.ReadFile(path)
	left, err2 := os.ReadDir(folder)
	if string(data) != "new" || len(left) != 1 || err != nil || err2 != nil {
		t.Errorf("%q beside %d files, %v, %v", data, len(left)-1, err, err2)
	}
	if err := writeFile(filepath.Join(folder, "no", "file"), 0o644, nil); err == nil || !strings.Contains(err.Error(), filepath.Join("no", "file")) || strings.Contains(err.Error(), ".tsmon-") {
		t.Errorf("a missing folder: %v", err)
	}
}
