package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReloadKeepsGuesses: a client that guessed too often is still refused after SIGHUP, which replaces
// the server that counted.
func TestReloadKeepsGuesses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "tsmon.yaml")
	configure := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("server:\n  updates: {token: "+token+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("first")
	s := serve(t, filepath.Join(folder, "data"), []string{"TSMON_CONFIG=" + file}, "--demo")
	d := s.demoReady()
	guess := d
	guess.TokenApp = "a guess"
	logIn := func() int {
		status, _ := s.ask("POST", "/loginPartner", "", guess)
		return status
	}
	guesses := 0
	until(t, "too many guesses", func() bool {
		guesses++
		return logIn() == 429
	})
	if guesses != 11 {
		t.Errorf("refused at guess %d", guesses)
	}
	configure("second")
	if changed := s.reload(); !strings.Contains(changed, "server.updates.token") {
		t.Errorf("changed: %s", changed)
	}
	if status := logIn(); status != 429 {
		t.Errorf("a guess after the reload: %d", status)
	}
	s.stop()
}
