package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func wantFile(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || string(data) != content {
		t.Errorf("the file holds %q, %v", data, err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != mode {
		t.Errorf("the file has %v, %v", fi.Mode(), err)
	}
	if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) != 1 {
		t.Errorf("beside the file there are %v, %v", names, err)
	}
}

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for content, mode := range map[string]fs.FileMode{"old": 0o644, "": 0o600} {
		if err := Replace(path, mode, []byte(content)); err != nil {
			t.Fatal(err)
		}
		wantFile(t, path, content, mode)
	}
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := Create(path, 0o640, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := Create(path, 0o600, []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the error is %v", err)
	}
	wantFile(t, path, "first", 0o640)
}

func TestErrors(t *testing.T) {
	folder := t.TempDir()
	for path, want := range map[string]error{filepath.Join(folder, "no", "file"): fs.ErrNotExist, folder: fs.ErrExist} {
		for _, write := range []func(string, fs.FileMode, []byte) error{Replace, Create} {
			err := write(path, 0o600, nil)
			if !errors.Is(err, want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), ".tsmon-") {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if names, err := os.ReadDir(folder); err != nil || len(names) > 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}
