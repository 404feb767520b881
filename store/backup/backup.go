// Package backup copies the data folder of a server while the server runs, and restores it.
//
// A backup is a tar archive compressed with zstd. Its first member, backup.json, lists the
// others with their sizes and SHA-256; they follow in that order. The copy of an SQLite
// database is the state after one transaction, and is made before the files are listed that
// its rows may name. Restore accepts nothing that differs from backup.json, checks each
// database, and gives the folder its name once it is complete.
package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"tsmon/store/durable"
	"tsmon/store/sqlitefile"
)

var (
	// ErrDamaged says that an archive has changed since it was written, or is no backup.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrInUse says that the folder to restore is not empty.
	ErrInUse = errors.New("the folder is not empty")
)

const (
	format    = 1
	listName  = "backup.json"
	maxList   = 64 << 20  // bytes of backup.json
	maxWindow = 128 << 20 // bytes of memory to decompress
	database  = ".db"     // suffix of a database's name
)

// Contents are what a backup holds.
type Contents struct {
	Format int       `json:"format"`
	Made   time.Time `json:"made"`
	Files  []File    `json:"files"`
}

// File is a member of a backup. Its name is a path below the data folder.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// Bytes returns the size of all files.
func (c Contents) Bytes() (n int64) {
	for _, f := range c.Files {
		n += f.Size
	}
	return n
}

// Source is a file to copy. One whose name ends in .db is an SQLite database.
type Source struct{ Name, Path string }

// Create writes a backup of sources to w, followed by the files that later lists, unless it
// is nil. It calls later once the databases are copied, in their order. The files that later
// lists must not change; those that are deleted before Create has a copy are left out.
// scratch is an empty folder for the copies, which the caller removes.
func Create(ctx context.Context, w io.Writer, scratch string, made time.Time, sources []Source, later func() ([]Source, error)) (Contents, error) {
	sources = slices.Clone(sources)
	for i, s := range sources {
		if strings.HasSuffix(s.Name, database) {
			sources[i].Path = filepath.Join(scratch, s.Name)
			if err := sqlitefile.Copy(ctx, s.Path, sources[i].Path); err != nil {
				return Contents{}, fmt.Errorf("copy %s: %w", s.Path, err)
			}
		}
	}
	if later != nil {
		listed, err := later()
		if err != nil {
			return Contents{}, err
		}
		held, err := hold(ctx, scratch, listed)
		if err != nil {
			return Contents{}, err
		}
		sources = append(sources, held...)
	}
	c := Contents{Format: format, Made: made.UTC().Truncate(time.Second)}
	for _, s := range sources {
		f, err := describe(s.Name, s.Path)
		if err != nil {
			return Contents{}, err
		}
		c.Files = append(c.Files, f)
	}
	list, err := json.Marshal(c)
	if err != nil {
		return Contents{}, err
	}
	packed, err := zstd.NewWriter(w)
	if err != nil {
		return Contents{}, err
	}
	archive := tar.NewWriter(packed)
	err = add(archive, File{Name: listName, Size: int64(len(list))}, c.Made, bytes.NewReader(list))
	for i, f := range c.Files {
		if err == nil {
			err = addFile(ctx, archive, f, c.Made, sources[i].Path)
		}
	}
	return c, errors.Join(err, archive.Close(), packed.Close())
}

// hold makes hard links to files in a folder, or copies where it can't, so that they can
// still be read when they are deleted. Files that are gone already are left out.
func hold(ctx context.Context, folder string, files []Source) (held []Source, err error) {
	for i, f := range files {
		to := filepath.Join(folder, fmt.Sprintf("held-%d", i))
		err := ctx.Err()
		if err == nil && os.Link(f.Path, to) != nil {
			err = copyFile(f.Path, to)
		}
		switch {
		case err == nil:
			held = append(held, Source{f.Name, to})
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return held, nil
}

func copyFile(path, to string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}

func describe(name, path string) (File, error) {
	file, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer file.Close()
	digest := sha256.New()
	size, err := io.Copy(digest, file)
	return File{name, size, hex.EncodeToString(digest.Sum(nil))}, err
}

func addFile(ctx context.Context, archive *tar.Writer, f File, made time.Time, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return add(archive, f, made, io.LimitReader(file, f.Size))
}

func add(archive *tar.Writer, f File, made time.Time, content io.Reader) error {
	err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Size: f.Size, Mode: 0o600, ModTime: made, Format: tar.FormatPAX})
	if err == nil {
		_, err = io.Copy(archive, content)
	}
	return err
}

// Restore unpacks a backup in scratch, an empty folder, which it then renames to folder. That
// must be empty or not exist; ErrInUse if it is not empty. If folder is "" Restore only
// verifies the backup.
func Restore(ctx context.Context, r io.Reader, scratch, folder string) (Contents, error) {
	unpacked, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return Contents{}, err
	}
	defer unpacked.Close()
	archive := tar.NewReader(unpacked)
	c, err := readList(archive)
	if err != nil {
		return Contents{}, err
	}
	for _, f := range c.Files {
		if err := extract(ctx, archive, f, scratch); err != nil {
			return Contents{}, err
		}
	}
	if _, err := archive.Next(); err != io.EOF {
		return Contents{}, fmt.Errorf("%w: something follows its last file", ErrDamaged)
	}
	if folder == "" {
		return c, nil
	}
	if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Contents{}, fmt.Errorf("%s: %w", folder, ErrInUse)
	}
	if err := os.Rename(scratch, folder); err != nil {
		return Contents{}, err
	}
	return c, durable.SyncDir(filepath.Dir(folder))
}

func readList(archive *tar.Reader) (c Contents, err error) {
	header, err := archive.Next()
	if err != nil || header.Name != listName || header.Size > maxList {
		return c, fmt.Errorf("%w: it does not begin with %s", ErrDamaged, listName)
	}
	if err := json.NewDecoder(archive).Decode(&c); err != nil || c.Format != format {
		return c, fmt.Errorf("%w: %s is not of format %d", ErrDamaged, listName, format)
	}
	seen := map[string]bool{}
	for _, f := range c.Files {
		if !validName(f.Name) || f.Size < 0 || seen[f.Name] {
			return c, fmt.Errorf("%w: %s names %.80q", ErrDamaged, listName, f.Name)
		}
		seen[f.Name] = true
	}
	return c, nil
}

// validName reports whether a name is valid for a file in a backup: no system resolves it to
// a path outside the folder.
func validName(name string) bool {
	return fs.ValidPath(name) && name != "." && name != listName && filepath.IsLocal(filepath.FromSlash(name)) && !strings.ContainsAny(name, "\\:\x00")
}

// extract writes the next member, which must be f.
func extract(ctx context.Context, archive *tar.Reader, f File, folder string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	header, err := archive.Next()
	if err != nil || header.Typeflag != tar.TypeReg || header.Name != f.Name || header.Size != f.Size {
		return fmt.Errorf("%w: %s is missing", ErrDamaged, f.Name)
	}
	path := filepath.Join(folder, filepath.FromSlash(f.Name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	digest := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, digest), io.LimitReader(archive, f.Size))
	switch {
	case errors.As(err, new(*fs.PathError)): // writing failed
		return err
	case err != nil || size != f.Size || hex.EncodeToString(digest.Sum(nil)) != f.SHA256:
		return fmt.Errorf("%w: %s is not what was saved", ErrDamaged, f.Name)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	if strings.HasSuffix(f.Name, database) {
		if err := sqlitefile.Check(ctx, path); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDamaged, f.Name, err)
		}
	}
	return durable.SyncDir(filepath.Dir(path))
}
