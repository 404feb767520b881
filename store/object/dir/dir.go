// Package dir keeps objects as files below one folder: the key is the path.
//
// A new object is written to a temporary file, synced, read back and compared,
// and only then linked to its name, which fails where the name is taken. A
// swapped object is renamed over its predecessor under a file lock of its key.
// Both sync the folders on the way, so that what was reported as written
// survives a power cut as far as the file system keeps its own promises; what
// is read back may come from the page cache and proves the path to it, not the
// disk. The file system has to know hard links.
//
// Temporary files and locks lie in the folder .tsmon below the root, on the
// same file system as the objects. A temporary file that a crash left behind
// is removed a day later, when the store is next opened.
//
// An object is a regular file. Folders, symbolic links and files whose name is
// no key are no objects: they are neither listed nor read, and in the way of a
// key they are reported as object.ErrBadKey. A link to a folder inside the root
// is followed where a key names it; none leads out of the root.
//
// The ETag of an object of up to object.MaxSwap bytes is half of its SHA-256.
// Larger objects, which no Swap writes, are told apart by size and
// modification time: to look at a bundle must not mean to read it.
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

// Store is a folder of objects. Its methods may be called concurrently, also
// by several processes on one machine.
type Store struct {
	// LockWait bounds how long a Swap waits for other Swaps of the same key.
	LockWait time.Duration

	root string
	made atomic.Bool // the root was there: from then on it has to stay
}

var _ object.Store = (*Store)(nil)

// Open opens the store below root. Where there is no such folder yet the store
// is empty, and the first write makes it, with its parents; where there can't be
// one the error is object.ErrNoStore. Open also removes what crashed writers
// left behind.
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

// OpenExisting is like Open, but object.ErrNoStore where there is no such folder:
// for whoever only reads, to whom an empty store would hide a wrong path.
func OpenExisting(root string) (*Store, error) {
	s, err := Open(root)
	if err == nil && !s.made.Load() {
		return nil, fmt.Errorf("open store: %w: there is no folder %s", object.ErrNoStore, s.root)
	}
	return s, err
}

// open opens the root for one operation, so that a root that vanished or was
// mounted anew is noticed. It is fs.ErrNotExist where none was made yet.
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

// openToWrite opens the root for a write, which makes it if none was there yet.
func (s *Store) openToWrite() (*os.Root, error) {
	if !s.made.Load() {
		if err := os.MkdirAll(s.root, 0o755); err != nil {
			return nil, err
		}
	}
	return s.open()
}

// present is object.ErrNoStore if the root folder is there no more, or can't be
// there.
func (s *Store) present() error {
	fi, err := os.Stat(s.root)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !s.made.Load():
		return nil
	case errors.Is(err, fs.ErrNotExist) || isNotFolder(err):
		return fmt.Errorf("%w: there is no folder %s", object.ErrNoStore, s.root)
	case err != nil:
		return err
	case !fi.IsDir():
		return fmt.Errorf("%w: %s is no folder", object.ErrNoStore, s.root)
	}
	return nil
}

// Get implements object.Store.
func (s *Store) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	f, info, err := s.read(ctx, key)
	if err != nil {
		return nil, object.Info{}, s.explain("get", key, err)
	}
	return &body{object.Exactly(f, info.Size), f}, info, nil
}

// GetRange implements object.Store.
func (s *Store) GetRange(ctx context.Context, key, etag string, offset, length int64) (io.ReadCloser, error) {
	f, info, err := s.read(ctx, key)
	if err != nil {
		return nil, s.explain("get a part of", key, err)
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
		return nil, s.explain("get a part of", key, err)
	}
	return &body{object.Exactly(io.LimitReader(f, length), length), f}, nil
}

// body is the content of an object, or a part of it.
type body struct {
	io.Reader
	file *os.File
}

func (b *body) Close() error { return b.file.Close() }

// SyscallConn lets the kernel send the file from where it stands. That passes
// Read over: whoever does it limits and counts the bytes.
func (b *body) SyscallConn() (syscall.RawConn, error) { return b.file.SyscallConn() }

// Stat implements object.Store.
func (s *Store) Stat(ctx context.Context, key string) (object.Info, error) {
	f, info, err := s.read(ctx, key)
	if err != nil {
		return object.Info{}, s.explain("stat", key, err)
	}
	return info, f.Close()
}

// Checksum implements object.Store. It reads the file.
func (s *Store) Checksum(ctx context.Context, key string) (uint64, error) {
	f, info, err := s.read(ctx, key)
	if err != nil {
		return 0, s.explain("checksum", key, err)
	}
	defer f.Close()
	h := crc64nvme.New()
	err = pour(ctx, h, object.Exactly(f, info.Size), info.Size)
	return h.Sum64(), s.explain("checksum", key, err)
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

// lookUp finds the file of a key; anything but a regular file is not found. It
// comes before opening, which would wait at a named pipe.
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

// describe makes the Info of an open file and leaves it at its beginning.
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
