package dir

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"tsmon/store/object"
)

func (s *Store) Create(ctx context.Context, key string, r io.Reader, size int64, _ object.Attributes) (_ object.Info, err error) {
	defer s.explain("create", key, &err)
	if err := errors.Join(ctx.Err(), object.ValidKey(key)); err != nil {
		return object.Info{}, err
	}
	root, err := s.openToWrite()
	if err != nil {
		return object.Info{}, err
	}
	defer root.Close()
	if err := vacant(root, key); err != nil {
		return object.Info{}, err
	}
	t, err := writeTemp(ctx, root, key, r, size)
	if err != nil {
		return object.Info{}, err
	}
	defer t.discard()
	return t.info, t.link()
}

func (s *Store) Swap(ctx context.Context, key, etag string, data []byte, _ object.Attributes) (_ object.Info, err error) {
	defer s.explain("swap", key, &err)
	if err := errors.Join(ctx.Err(), object.ValidKey(key), swappable(data)); err != nil {
		return object.Info{}, err
	}
	root, err := s.openToWrite()
	if err != nil {
		return object.Info{}, err
	}
	defer root.Close()
	unlock, err := s.lock(ctx, root, key)
	if err != nil {
		return object.Info{}, err
	}
	defer unlock() //nolint:errcheck // closing the file ends the lock as well
	if err := checkETag(root, key, etag); err != nil {
		return object.Info{}, err
	}
	t, err := writeTemp(ctx, root, key, bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return object.Info{}, err
	}
	defer t.discard()
	if etag != "" {
		return t.info, t.rename()
	}
	if err = t.link(); errors.Is(err, fs.ErrExist) {
		err = object.ErrChanged
	}
	return t.info, err
}

func swappable(data []byte) error {
	if len(data) > object.MaxSwap {
		return fmt.Errorf("%d bytes are too many to swap; at most %d are allowed", len(data), object.MaxSwap)
	}
	return nil
}

// vacant returns nil if nothing has the key, and fs.ErrExist if an object has it.
func vacant(root *os.Root, key string) error {
	fi, err := root.Lstat(key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case fi.IsDir():
		return fmt.Errorf("%w: a folder has that name", object.ErrBadKey)
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%w: something other than a regular file has that name", object.ErrBadKey)
	}
	return fs.ErrExist
}

// checkETag returns object.ErrChanged unless the object has this ETag, or does not
// exist if the ETag is empty.
func checkETag(root *os.Root, key, etag string) error {
	f, info, err := openObject(root, key)
	switch {
	case err == nil:
		f.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case etag == "":
		return vacant(root, key)
	}
	if info.ETag != etag {
		return object.ErrChanged
	}
	return nil
}

// lock takes the lock of one key, which the kernel releases when the process ends.
// Removing lock files could let two writers in, so they stay.
func (s *Store) lock(ctx context.Context, root *os.Root, key string) (unlock func() error, err error) {
	if err := makePrivate(root); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(key))
	name := fmt.Sprintf("lock-%x", sum[:8])
	l := flock.New(filepath.Join(s.root, private, name), flock.SetPermissions(0o644))
	wait, cancel := context.WithTimeout(ctx, s.LockWait)
	defer cancel()
	_, err = l.TryLockContext(wait, 10*time.Millisecond)
	switch {
	case err == nil:
		return l.Close, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case wait.Err() != nil:
		return nil, fmt.Errorf("%w: another process has held its lock for %v", object.ErrUnavailable, s.LockWait)
	}
	return nil, err
}

// link gives the temporary file its name unless that is taken.
func (t *temp) link() error {
	key := t.info.Key
	if err := t.root.MkdirAll(path.Dir(key), 0o755); err != nil {
		return err
	}
	if err := t.root.Link(t.name, key); err != nil {
		if inTheWay := vacant(t.root, key); inTheWay != nil {
			return inTheWay
		}
		return err
	}
	return syncParents(t.root, key)
}

func (t *temp) rename() error {
	if err := t.root.Rename(t.name, t.info.Key); err != nil {
		return err
	}
	return syncParents(t.root, t.info.Key)
}

// Delete leaves folders, since another process may be about to write into them.
func (s *Store) Delete(ctx context.Context, keys ...string) (err error) {
	if len(keys) == 0 {
		return nil
	}
	key := ""
	defer func() { s.explain("delete", key, &err) }()
	for _, key = range keys {
		if err := object.ValidKey(key); err != nil {
			return err
		}
	}
	root, err := s.open()
	if errors.Is(err, fs.ErrNotExist) {
		return ctx.Err() // nothing was written yet
	}
	if err != nil {
		return err
	}
	defer root.Close()
	changed := map[string]bool{}
	for _, key = range keys {
		if err = remove(ctx, root, key); err == nil {
			changed[path.Dir(key)] = true
		} else if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		err = nil
	}
	for folder := range changed { // after a failure, too
		err = cmp.Or(err, syncFolder(root, folder))
	}
	return err
}

func remove(ctx context.Context, root *os.Root, key string) error {
	err := ctx.Err()
	if err == nil {
		_, err = lookUp(root, key)
	}
	if err == nil {
		err = root.Remove(key)
	}
	return err
}
