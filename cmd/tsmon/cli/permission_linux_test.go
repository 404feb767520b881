package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"tsmon/cmd/tsmon/config"
)

// TestNoRights: where the rights to a file are missing, the error says so and shows no key,
// and the hint speaks of files, not of the credentials of a bucket.
func TestNoRights(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "app.key")
	if err := os.WriteFile(path, []byte("RW"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(folder, 0o700) }) // so that it can be removed
	c := &config.Config{}
	c.Signing.Key = config.Secret(path)
	var key, made error
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if os.Geteuid() == 0 {
			syscall.Setfsuid(65534)
		}
		_, _, key = privateKeyText(c, "")
		made = os.Mkdir(filepath.Join(folder, "data"), 0o700)
	}()
	<-done
	for name, err := range map[string]error{"key": key, "folder": made} {
		if !errors.Is(err, fs.ErrPermission) || HintFor(err) != "check the permissions of the file or folder, and which user runs tsmon" {
			t.Errorf("%s: %v; hint: %s", name, err, HintFor(err))
		}
	}
	if key == nil || strings.Contains(key.Error(), path) || !strings.HasPrefix(key.Error(), "the key in TAURI_SIGNING_PRIVATE_KEY: ") {
		t.Errorf("%v", key)
	}
	// follows: check the permissions of the file or folder, and which user runs tsmon
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, text, err := privateKeyText(c, ""); err != nil || text != "RW" {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Mkdir(filepath.Join(folder, "data"), 0o700); err != nil {
		t.Error(err)
	}
}
