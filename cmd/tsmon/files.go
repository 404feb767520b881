package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// writeFile gives a file its name once its content is on disk. An existing file
// is replaced.
func writeFile(path string, mode fs.FileMode, content []byte) error {
	return place(path, mode, content, os.Rename)
}

// createFile is like writeFile, mode 0600, but leaves an existing file as it is.
func createFile(path string, content []byte) error {
	err := place(path, 0o600, content, os.Link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// place brings content to disk under a temporary name, and has name, os.Rename or
// os.Link, give it its own.
func place(path string, mode fs.FileMode, content []byte, name func(from, to string) error) error {
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

// syncFolder brings a new name to disk, where the system can.
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
