package dir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"tsmon/store/object"
)

// sourceError marks an error of Create's reader, which is returned unchanged.
type sourceError struct{ error }

// explain maps an error of the file system and adds the operation and the key.
func (s *Store) explain(op, key string, err *error) {
	if source, ok := errors.AsType[sourceError](*err); ok {
		*err = source.error
		return
	}
	switch {
	case *err == nil:
		return
	case errors.Is(*err, fs.ErrNotExist):
		*err = cmp.Or(s.present(), *err)
	case errors.Is(*err, fs.ErrPermission):
		if at, ok := errors.AsType[*fs.PathError](*err); ok && !filepath.IsAbs(at.Path) {
			*err = &fs.PathError{Op: "access", Path: filepath.Join(s.root, at.Path), Err: at.Err}
		}
	}
	*err = fmt.Errorf("%s %s: %w", op, cmp.Or(key, "everything"), translate(*err))
}

// translate maps the errors of the file system to those of the contract.
func translate(err error) error {
	bare := strip(err)
	switch {
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", object.ErrFull, bare)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %w", fs.ErrPermission, bare)
	case isNotFolder(err):
		return fmt.Errorf("%w: part of its path is an object", object.ErrBadKey)
	case isTooLong(err):
		return fmt.Errorf("%w: %w", object.ErrBadKey, bare)
	case errors.Is(bare, fs.ErrNotExist):
		return fs.ErrNotExist
	case errors.Is(bare, fs.ErrExist):
		return fs.ErrExist
	}
	return err
}

// strip removes the path from an error of package os, which names a temporary file or repeats
// the key.
func strip(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

func isNotFolder(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

func isTooLong(err error) bool { return errors.Is(err, syscall.ENAMETOOLONG) }
