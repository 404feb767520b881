//go:build unix

package bundle

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// TestGatherPipes wants that a named pipe in place of a signature does not make Gather wait
// for a writer.
func TestGatherPipes(t *testing.T) {
	root := files(t, "App_1.0.0_amd64.AppImage")
	if err := syscall.Mkfifo(filepath.Join(root, "App_1.0.0_amd64.AppImage.sig"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := Gather("1.0.0", []string{root}, nil, nil, nil)
	if !errors.Is(err, ErrBundles) {
		t.Errorf("error %v, want ErrBundles", err)
	}
}
