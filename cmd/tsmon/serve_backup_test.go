package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsmon/cmd/tsmon/admin"
)

// TestBackup: what was copied of a running server is verified, and served by another.
func TestBackup(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	data, file, restored := filepath.Join(folder, "data"), filepath.Join(folder, "tsmon.tar.zst"), filepath.Join(folder, "restored")
	env := []string{"TSMON_DATA=" + data}
	s := serve(t, data, nil, "--demo")
	who := s.demoReady()
	var token string
	s.dataOf(&token, "POST", "/loginPartner", "", who)
	run := func(code int, args ...string) (stdout, stderr string) {
		t.Helper()
		stdout, stderr, got := command(t, env, "tsmon", args...)
		if got != code {
			t.Fatalf("%v: exit code %d, want %d\n%s", args, got, code, stderr)
		}
		return stdout, stderr
	}
	var made, verified admin.Backup
	stdout, _ := run(0, "backup", "create", file, "--json")
	if err := json.Unmarshal([]byte(stdout), &made); err != nil || len(made.Files) < 4 {
		t.Fatalf("%v: %s", err, stdout)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// follows: name another FILE, or move that one away
	if _, stderr := run(3, "backup", "create", file); !strings.HasSuffix(stderr, "hint: name another FILE, or move that one away\n") {
		t.Error(stderr)
	}
	run(0, "backup", "create", file+".2")
	stdout, _ = run(0, "backup", "restore", file, "--dry-run", "--json")
	if err := json.Unmarshal([]byte(stdout), &verified); err != nil || len(verified.Files) != len(made.Files) || verified.Folder != "" {
		t.Errorf("%v: %s", err, stdout)
	}
	// follows: name another folder with --data, or move that one away
	if _, stderr := run(3, "backup", "restore", file); !strings.HasSuffix(stderr, "hint: name another folder with --data, or move that one away\n") {
		t.Error(stderr)
	}
	run(0, "backup", "restore", file, "--data", restored)
	s.stop()
	left, err := filepath.Glob(filepath.Join(folder, ".tsmon-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	again := serve(t, restored, nil)
	if status, text := again.ask("GET", "/getVarsTs", token, nil); status != 200 || !strings.Contains(string(text), "varsTs") {
		t.Errorf("the token of before: %d %.300s", status, text)
	}
	again.stop()

	text, err := os.ReadFile(file)
	if err == nil {
		text[len(text)/2] ^= 1
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, stderr := run(2, "backup", "restore", filepath.Join(folder, "none")); !strings.HasSuffix(stderr, "hint: check the path\n") {
		t.Error(stderr)
	}
	run(1, "backup", "restore", file, "--data", filepath.Join(folder, "damaged"))
	if _, err := os.Stat(filepath.Join(folder, "damaged")); !os.IsNotExist(err) {
		t.Errorf("a damaged backup was restored: %v", err)
	}
}
