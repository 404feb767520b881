package token

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gofrs/flock"
)

// lockWait bounds the wait for another rotation.
const lockWait = 10 * time.Second

// Rotate puts a new key of the same algorithm first in the key file and returns its
// kid. The key that was first still verifies; an older one is removed, which ends its
// tokens. The file keeps its owner. The error is fs.ErrNotExist without a file.
func Rotate(ctx context.Context, path string) (kid string, err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil { // or the link would be replaced
		return "", err
	}
	lock, err := lockFor(ctx, path)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	keys, err := readKeys(path)
	if err != nil {
		return "", err
	}
	fresh := newEntry(keys[0].Alg)
	if err := write(path, os.Rename, fresh, keys[0].entry); err != nil {
		return "", err
	}
	return fresh.Kid, nil
}

// lockFor locks the empty file beside the key file until Close or the end of the
// process. It is readable, so that the key file's owner can lock it after an
// administrator has, and it stays: removing it would admit two holders.
func lockFor(ctx context.Context, path string) (*flock.Flock, error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	lock := flock.New(path+".lock", flock.SetPermissions(0o644))
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = errors.New("another process holds its lock")
		}
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return lock, nil
}

// create creates a key file with one key, unless another process is faster.
func create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	err := write(path, os.Link, newEntry(algEdDSA))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// write writes and syncs a key file under a temporary name, then gives it its own with
// os.Link, which fails if the file exists, or os.Rename.
func write(path string, name func(from, to string) error, entries ...entry) error {
	text, err := encodeKeys(entries...)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".keys-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write key file %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	_, err = f.Write(text)
	if err = errors.Join(err, keepOwner(f, path), f.Sync(), f.Close()); err == nil {
		err = name(f.Name(), path)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write key file %s: %w", path, err)
	}
	return nil
}

func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // folders can't be synced there
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
