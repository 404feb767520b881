// Package durable writes small files that survive a crash: a file gets its name once its
// content is on disk.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Replace writes a file, over any other at path or where a link at path leads. It keeps that
// file's owner, so that what root replaces stays readable for the server. fs.ErrExist if
// something other than a regular file is there, such as a folder or a device.
func Replace(path string, mode fs.FileMode, content []byte) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("write %s: %w and is not a regular file", path, fs.ErrExist)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
	}
	return write(path, mode, bytesOf(content), os.Rename)
}

// Create writes a new file. fs.ErrExist if there is one.
func Create(path string, mode fs.FileMode, content []byte) error {
	return write(path, mode, bytesOf(content), os.Link)
}

// CreateBy writes a new file with what a function writes, whose errors it returns.
// fs.ErrExist if there is one.
func CreateBy(path string, mode fs.FileMode, content func(w io.Writer) error) error {
	return write(path, mode, content, os.Link)
}

func bytesOf(content []byte) func(w io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	}
}

// write writes a temporary file and names it with name, which is os.Rename or os.Link.
func write(path string, mode fs.FileMode, content func(w io.Writer) error, name func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tsmon-*") // mode 0600
	if err == nil {
		defer os.Remove(f.Name())
		defer f.Close()
		err = errors.Join(content(f), f.Chmod(mode), keepOwner(f, path), f.Sync(), f.Close())
	}
	if err == nil {
		err = name(f.Name(), path)
	}
	if err == nil {
		err = SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, bare(err))
	}
	return nil
}

// bare removes the temporary name from an error.
func bare(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

// SyncDir makes the names in a folder durable. Windows can't, and does nothing.
func SyncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
