package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMovedUsersLogIn moves the users of a tenant to another server in a file. They log in there with
// their present partner tokens, except disabled users.
func TestMovedUsersLogIn(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	old, file := filepath.Join(folder, "old"), filepath.Join(folder, "tenant.yaml")
	run := func(data string, args ...string) string {
		t.Helper()
		stdout, stderr, code := command(t, []string{"TSMON_DATA=" + data}, "tsmon", args...)
		if code != 0 {
			t.Fatalf("%v: exit code %d\n%s", args, code, stderr)
		}
		return strings.TrimSpace(stdout)
	}
	run(old, "tenant", "create", "acueducto", "--ts-name", "ts_acueducto")
	ana := run(old, "user", "create", "acueducto", "ana@example.com", "--profile", "3")
	eva := run(old, "user", "create", "acueducto", "eva@example.com")
	run(old, "user", "disable", "acueducto", "eva@example.com")
	run(old, "tenant", "export", "acueducto", "--users", "--output", file)
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), ana) || !strings.Contains(string(text), "ana@example.com") {
		t.Fatalf("%v: %s", err, text)
	}

	s := serve(t, filepath.Join(folder, "new"), nil)
	run(s.data, "tenant", "create", "acueducto", "--ts-name", "ts_acueducto")
	run(s.data, "tenant", "import", "acueducto", file)
	logIn := func(email, token string) (int, string) {
		status, text := s.ask("POST", "/loginPartner", "", map[string]string{
			"email": email, "tokenApp": token, "schemaName": "acueducto", "ts_name": "ts_acueducto",
		})
		return status, string(text)
	}
	if status, text := logIn("ana@example.com", ana); status != 200 || !strings.Contains(text, `"data":"ey`) {
		t.Errorf("with the token of before: %d %s", status, text)
	}
	for email, token := range map[string]string{"eva@example.com": eva, "ana@example.com": eva} {
		if status, text := logIn(email, token); status != 401 {
			t.Errorf("%s: %d %s", email, status, text)
		}
	}
	s.stop()
}
