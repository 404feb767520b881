package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// WriteFile replaces or creates a file durably: the name is never seen with
// partial content.
func WriteFile(path string, mode fs.FileMode, content []byte) error {
	return writeFile(path, mode, content, os.Rename)
}

// CreateFile is like WriteFile with mode 0600, but keeps an existing file.
func CreateFile(path string, content []byte) error {
	err := writeFile(path, 0o600, content, os.Link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// writeFile syncs content under a temporary name, then gives it its name by
// os.Rename or os.Link.
func writeFile(path string, mode fs.FileMode, content []byte, name func(from, to string) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tsmon-*") // mode 0600
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	_, err = tmp.Write(content)
	if err := errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := name(tmp.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a new name durable, where the system can.
func syncFolder(folder string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	opened, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
