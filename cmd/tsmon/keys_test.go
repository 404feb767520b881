package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeysAreNotShown: no output shows a private key that was given in place of its
// path, or as an argument.
func TestKeysAreNotShown(t *testing.T) {
	t.Parallel()
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
		"as the new key":   {"", []string{"keys", "rotate", "--to", payload}},
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
