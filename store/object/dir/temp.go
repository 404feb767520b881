package dir

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/minio/crc64nvme"

	"tsmon/store/object"
)

const (
	private     = ".tsmon"            // the folder of temporary files and locks
	tempPrefix  = private + "/temp-"  // begins the name of an object's temporary file
	clockPrefix = private + "/clock-" // begins the name of an empty file, whose time is the store's
)

// temp is a temporary file that holds a whole object before it gets its name.
type temp struct {
	root *os.Root
	name string
	info object.Info
}

// writeTemp writes an object to a temporary file, syncs it, reads it back and compares. After
// a failure there is no file.
func writeTemp(ctx context.Context, root *os.Root, key string, r io.Reader, size int64) (*temp, error) {
	if err := makePrivate(root); err != nil {
		return nil, err
	}
	t := &temp{root: root, name: tempPrefix + rand.Text(), info: object.Info{Key: key}}
	sum, err := t.fill(ctx, object.Exactly(r, size), size)
	if err == nil {
		err = t.compare(ctx, sum, size)
	}
	if err != nil {
		t.discard()
		return nil, err
	}
	return t, nil
}

// makePrivate creates the folder of temporary files and locks, which must not be a
// link.
func makePrivate(root *os.Root) error {
	err := root.Mkdir(private, 0o755)
	if err == nil {
		return nil
	}
	if fi, missing := root.Lstat(private); missing == nil && fi.IsDir() {
		return nil
	}
	return fmt.Errorf("make folder %s: %w", private, err)
}

// fill writes and syncs the file and returns the checksum of what r delivered.
func (t *temp) fill(ctx context.Context, r io.Reader, size int64) (uint64, error) {
	f, err := t.root.OpenFile(t.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return 0, err
	}
	sum := crc64nvme.New()
	err = pour(ctx, io.MultiWriter(f, sum), r, size)
	if err == nil {
		err = f.Sync()
	}
	return sum.Sum64(), cmp.Or(err, f.Close())
}

// compare reads the file back and describes it.
func (t *temp) compare(ctx context.Context, sum uint64, size int64) error {
	f, err := t.root.Open(t.name)
	if err != nil {
		return err
	}
	defer f.Close()
	if t.info, err = describe(f, t.info.Key); err != nil {
		return err
	}
	back := crc64nvme.New()
	if err := pour(ctx, back, f, size); err != nil {
		return err
	}
	if t.info.Size != size || back.Sum64() != sum {
		return fmt.Errorf("%w: %d bytes with checksum %016x instead of %d with %016x",
			object.ErrCorrupt, t.info.Size, back.Sum64(), size, sum)
	}
	return nil
}

func (s *Store) Now(context.Context) (time.Time, error) {
	root, err := s.open()
	if errors.Is(err, fs.ErrNotExist) {
		return time.Now(), nil // nothing was written yet
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read the store's time: %w", translate(err))
	}
	defer root.Close()
	name := clockPrefix + rand.Text()
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return time.Now(), nil // we may not write, or nobody has yet
	}
	defer root.Remove(name) // else sweep does it later
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return time.Time{}, fmt.Errorf("read the store's time: %w", translate(err))
	}
	return info.ModTime(), nil
}

// discard removes the temporary name; sweep removes it later if that fails.
func (t *temp) discard() { t.root.Remove(t.name) }

// pour copies r to w until ctx ends. Errors of r are marked with sourceError.
func pour(ctx context.Context, w io.Writer, r io.Reader, size int64) error {
	buf := make([]byte, min(max(size, 512), 256<<10))
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(buf)
		if _, werr := w.Write(buf[:n]); werr != nil {
			return werr
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return sourceError{err}
		}
	}
}

// syncParents makes the names of key and its folders durable. Another writer may have created
// the folders and not synced them yet.
func syncParents(root *os.Root, key string) error {
	for dir := path.Dir(key); ; dir = path.Dir(dir) {
		if err := syncFolder(root, dir); err != nil {
			return err
		}
		if dir == "." {
			return nil
		}
	}
}

func syncFolder(root *os.Root, dir string) error {
	if runtime.GOOS == "windows" {
		return nil // folders can't be synced there
	}
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// sweep removes temporary files last written before a time. It ignores errors, since users
// with read access only can't remove them.
func sweep(root *os.Root, before time.Time) {
	entries, _ := fs.ReadDir(root.FS(), private)
	for _, e := range entries {
		name := private + "/" + e.Name()
		if !strings.HasPrefix(name, tempPrefix) && !strings.HasPrefix(name, clockPrefix) {
			continue
		}
		if fi, err := root.Lstat(name); err == nil && fi.Mode().IsRegular() && fi.ModTime().Before(before) {
			root.Remove(name)
		}
	}
}
