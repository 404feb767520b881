// Package dir keeps objects as files below one folder: the key is the path.
//
// A new object is written to a temporary file, synced, read back and compared, and
// then hard-linked to its name, which fails if the name is taken. Swap renames a new
// file over the old one under a file lock of the key. Both sync the folders, so that
// a written object survives a power cut. The page cache may serve the read-back.
//
// Temporary files and locks are in the folder .tsmon below the root. Open removes
// temporary files that are more than a day old, left behind by a crash.
//
// An object is a regular file. Folders, symbolic links and files whose name is not a
// valid key are neither listed nor read, and writing over them is object.ErrBadKey.
// Links to folders are followed if they stay inside the root.
//
// The ETag of an object of up to object.MaxSwap bytes is half of its SHA-256; that
// of a larger one is its size and modification time, so that Stat need not read it.
package dir

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/minio/crc64nvme"

	"tsmon/store/object"
)

// Store is an object.Store in a folder, which several processes on one machine may use.
type Store struct {
	// LockWait bounds how long a Swap waits for other Swaps of the same key.
	LockWait time.Duration

	root string
	made atomic.Bool // the root has existed; if it disappears, that is ErrNoStore
}

var _ object.Store = (*Store)(nil)

// Open opens the store below root. If the folder is missing, the store is empty and the first
// write creates the folder with its parents. object.ErrNoStore if there can't be such a
// folder.
func Open(root string) (*Store, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open folder %s: %w", root, err)
	}
	s := &Store{LockWait: 10 * time.Second, root: abs}
	r, err := s.open()
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open store: %w", translate(err))
	}
	defer r.Close()
	sweep(r, time.Now().Add(-24*time.Hour))
	return s, nil
}

// open opens the root for one operation, so that a folder that has disappeared or been
// remounted is noticed. The error is fs.ErrNotExist if the root was never created.
func (s *Store) open() (*os.Root, error) {
	if err := s.present(); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.root)
	if err == nil {
		s.made.Store(true)
	}
	return root, err
}

// openToWrite opens the root, and creates it for the first write.
func (s *Store) openToWrite() (*os.Root, error) {
	if !s.made.Load() {
		if err := os.MkdirAll(s.root, 0o755); err != nil {
			return nil, err
		}
	}
	return s.open()
}

// present returns object.ErrNoStore if the root has disappeared or can't exist.
func (s *Store) present() error {
	made := s.made.Load() // before it looks: another call may create the root afterwards
	fi, err := os.Stat(s.root)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !made:
		return nil
	case errors.Is(err, fs.ErrNotExist) || isNotFolder(err):
		return fmt.Errorf("%w: there is no folder %s", object.ErrNoStore, s.root)
	case err != nil:
		return err
	case !fi.IsDir():
		return fmt.Errorf("%w: %s is not a folder", object.ErrNoStore, s.root)
	}
	return nil
}

func (s *Store) Get(ctx context.Context, key string) (_ io.ReadCloser, _ object.Info, err error) {
	defer s.explain("get", key, &err)
	f, info, err := s.read(ctx, key)
	if err != nil {
		return nil, object.Info{}, err
	}
	return &body{object.Exactly(f, info.Size), f}, info, nil
}

func (s *Store) GetRange(ctx context.Context, key, etag string, offset, length int64) (_ io.ReadCloser, err error) {
	defer s.explain("get part of", key, &err)
	f, info, err := s.read(ctx, key)
	if err != nil {
		return nil, err
	}
	switch {
	case info.ETag != etag:
		err = object.ErrChanged
	case offset < 0 || length <= 0 || offset > info.Size-length:
		err = object.ErrRange
	default:
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &body{object.Exactly(io.LimitReader(f, length), length), f}, nil
}

// body is the content of an object, or a part of it.
type body struct {
	io.Reader
	file *os.File
}

func (b *body) Close() error { return b.file.Close() }

// SyscallConn lets the kernel send the file from its current offset. This bypasses Read, so
// the caller must limit and count the bytes.
func (b *body) SyscallConn() (syscall.RawConn, error) { return b.file.SyscallConn() }

func (s *Store) Stat(ctx context.Context, key string) (_ object.Info, err error) {
	defer s.explain("stat", key, &err)
	f, info, err := s.read(ctx, key)
	if err != nil {
		return object.Info{}, err
	}
	return info, f.Close()
}

// Checksum reads the file.
func (s *Store) Checksum(ctx context.Context, key string) (_ uint64, err error) {
	defer s.explain("checksum", key, &err)
	f, info, err := s.read(ctx, key)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	h := crc64nvme.New()
	err = pour(ctx, h, object.Exactly(f, info.Size), info.Size)
	return h.Sum64(), err
}

// read opens the file of a key and describes it.
func (s *Store) read(ctx context.Context, key string) (*os.File, object.Info, error) {
	if err := errors.Join(ctx.Err(), object.ValidKey(key)); err != nil {
		return nil, object.Info{}, err
	}
	root, err := s.open()
	if err != nil {
		return nil, object.Info{}, err
	}
	defer root.Close()
	return openObject(root, key)
}

// openObject opens the file of a key, at its beginning.
func openObject(root *os.Root, key string) (*os.File, object.Info, error) {
	if _, err := lookUp(root, key); err != nil {
		return nil, object.Info{}, err
	}
	f, err := root.Open(key)
	if err != nil {
		return nil, object.Info{}, err
	}
	info, err := describe(f, key)
	if err != nil {
		f.Close()
		return nil, object.Info{}, err
	}
	return f, info, nil
}

// lookUp finds the file of a key. fs.ErrNotExist for anything but a regular file:
// opening a named pipe would block.
func lookUp(root *os.Root, key string) (fs.FileInfo, error) {
	fi, err := root.Lstat(key)
	switch {
	case isNotFolder(err) || isTooLong(err):
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, fs.ErrNotExist
	}
	return fi, nil
}

// describe returns the Info of an open file and rewinds it.
func describe(f *os.File, key string) (object.Info, error) {
	fi, err := f.Stat()
	if err != nil {
		return object.Info{}, err
	}
	info := object.Info{Key: key, Size: fi.Size(), ModTime: fi.ModTime()}
	if info.Size > object.MaxSwap {
		info.ETag = fmt.Sprintf("%x-%x", info.Size, info.ModTime.UnixNano())
		return info, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, object.Exactly(f, info.Size)); err != nil {
		return object.Info{}, err
	}
	info.ETag = fmt.Sprintf("%x", h.Sum(nil)[:16])
	_, err = f.Seek(0, io.SeekStart)
	return info, err
}
