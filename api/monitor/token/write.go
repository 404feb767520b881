package token

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"tsmon/store/durable"
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
	if err := durable.Replace(path, 0o600, encodeKeys(fresh, keys[0].entry)); err != nil {
		return "", fmt.Errorf("key file: %w", err)
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
	err := durable.Create(path, 0o600, encodeKeys(newEntry(algEdDSA)))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("key file: %w", err)
	}
	return nil
}
