package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// writeFile gives a file its name once its content is on disk. An existing file
// is replaced.
func writeFile(path string, mode fs.FileMode, content []byte) error {
	return writeThrough(path, mode, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// writeThrough is writeFile for content that a function writes; where that fails
// nothing gets the name.
func writeThrough(path string, mode fs.FileMode, write func(w io.Writer) error) error {
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
	if err := write(tmp); err != nil {
		return err
	}
	if err := errors.Join(tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(tmp.Name(), path)
}
