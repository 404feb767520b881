package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/minio/crc64nvme"
	"golang.org/x/sync/errgroup"

	"tsmon/signing"
)

// Contents is a bundle that was read: its Signature is set, unless Also is.
type Contents struct {
	Bundle
	Digest signing.Digest
	CRC64  uint64 // CRC-64/NVME

	modTime time.Time
}

// Reader reads bundles of one version.
type Reader struct {
	Version string
	Keys    signing.Keyring // verify the signatures that bundles have
	// Unlock opens the private key that signs the other bundles. It is called
	// once, while the bundles are hashed, and not at all if all are signed.
	Unlock func() (signing.PrivateKey, error)
	Now    func() time.Time
	// Transferred, if not nil, is called with each piece that was read,
	// concurrently; total is the size of the bundle.
	Transferred func(name string, n int, total int64)

	digestOnly bool // no CRC64, which a signature does without
}

// Read hashes bundles, as many at once as there are cores, in constant memory. It
// verifies the signatures that they have and signs the others. A file that
// changes meanwhile is ErrChanged.
func (r Reader) Read(ctx context.Context, bundles []Bundle) ([]Contents, error) {
	var key signing.PrivateKey
	contents := make([]Contents, len(bundles))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		for _, b := range bundles {
			if b.Signature == nil && !b.Also {
				key, err = r.Unlock()
				return err
			}
		}
		return nil
	})
	group.Go(func() error { return r.hashAll(ctx, bundles, contents) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i := range contents {
		if err := r.sign(key, &contents[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", contents[i].Path, err)
		}
	}
	return contents, nil
}

func (r Reader) hashAll(ctx context.Context, bundles []Bundle, contents []Contents) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, b := range bundles {
		group.Go(func() (err error) {
			contents[i], err = r.hash(ctx, b)
			if err != nil && !errors.As(err, new(*Refusal)) && !errors.As(err, new(*os.PathError)) {
				err = fmt.Errorf("%s: %w", b.Path, err)
			}
			return err
		})
	}
	return group.Wait()
}

// hash reads one bundle and verifies the signature that it has.
func (r Reader) hash(ctx context.Context, b Bundle) (Contents, error) {
	file, info, err := open(b)
	if err != nil {
		return Contents{}, err
	}
	defer file.Close()
	crc := crc64nvme.New()
	var copies []io.Writer
	if !r.digestOnly {
		copies = append(copies, crc)
	}
	var legacy *signing.Verifier // needs the bundle itself
	if b.Signature != nil && !b.Signature.Prehashed() {
		if legacy, err = r.Keys.Verifier(*b.Signature); err != nil {
			return Contents{}, err
		}
		copies = append(copies, legacy)
	}
	c := Contents{Bundle: b, modTime: info.ModTime()}
	read := Counted(unchanged(file, info, nil, copies...), b.Name, b.Size, r.Transferred)
	if c.Digest, _, err = signing.HashReader(ctx, read); err != nil {
		return Contents{}, err
	}
	c.CRC64 = crc.Sum64()
	switch {
	case legacy != nil:
		err = legacy.Verify()
	case b.Signature != nil:
		err = r.Keys.VerifyDigest(*b.Signature, c.Digest)
	}
	return c, err
}

// sign makes the signature of a bundle that has none and needs one.
func (r Reader) sign(key signing.PrivateKey, c *Contents) error {
	if c.Signature != nil || c.Also {
		return nil
	}
	sig, err := key.Sign(c.Digest, signing.Comment{Time: r.Now(), File: filepath.Base(c.Name), Version: r.Version, Target: c.Target})
	c.Signature = &sig
	return err
}

// Open reads the bundle once more. The reader returns its last bytes only if the file
// has kept its size, time and CRC-64 since Read, which verified or signed it; else
// ErrChanged.
func (c *Contents) Open() (io.ReadCloser, error) {
	file, info, err := open(c.Bundle)
	if err != nil {
		return nil, err
	}
	if !info.ModTime().Equal(c.modTime) {
		file.Close()
		return nil, changed(c.Path)
	}
	crc := crc64nvme.New()
	return struct {
		io.Reader
		io.Closer
	}{unchanged(file, info, func() bool { return crc.Sum64() == c.CRC64 }, crc), file}, nil
}

// Counted returns a reader of r. It calls tell, unless that is nil, with each piece that was read
// of the file with this name and of total bytes.
func Counted(r io.Reader, name string, total int64, tell func(name string, n int, total int64)) io.Reader {
	if tell == nil {
		return r
	}
	return io.TeeReader(r, counter(func(n int) { tell(name, n, total) }))
}

type counter func(n int)

func (c counter) Write(p []byte) (int, error) {
	c(len(p))
	return len(p), nil
}

func open(b Bundle) (*os.File, os.FileInfo, error) {
	file, err := os.Open(b.Path)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() != b.Size {
		err = changed(b.Path)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

func changed(path string) error {
	return Refuse(ErrChanged, "let no other program write to the bundle, then run the command again", "%s", path)
}

// unchanged reads a file, and writes what it reads to copies. It fails with ErrChanged, instead of
// returning the last bytes, if the file changed meanwhile, or if same is set and returns false.
func unchanged(file *os.File, before os.FileInfo, same func() bool, copies ...io.Writer) io.Reader {
	return Withhold(io.TeeReader(file, io.MultiWriter(copies...)), before.Size(), func() error {
		after, err := file.Stat()
		if err == nil && (after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) || same != nil && !same()) {
			err = changed(file.Name())
		}
		return err
	})
}

// Withhold returns a reader of the first size bytes of r. It returns the last of them only once
// check has returned nil; otherwise it fails with the error of check, or of r.
func Withhold(r io.Reader, size int64, check func() error) io.Reader {
	return &withheld{r: r, left: size, check: check}
}

type withheld struct {
	r     io.Reader
	left  int64
	check func() error
	err   error
}

func (w *withheld) Read(p []byte) (int, error) {
	if w.err != nil || len(p) == 0 {
		return 0, w.err
	}
	n, err := w.r.Read(p[:min(int64(len(p)), w.left)])
	w.left -= int64(n)
	switch ended := errors.Is(err, io.EOF); {
	case err != nil && !ended:
		w.err = err
	case w.left > 0 && ended:
		w.err = cmp.Or(w.check(), io.ErrUnexpectedEOF)
	case w.left == 0:
		if w.err = w.check(); w.err == nil {
			w.err = io.EOF
			return n, nil
		}
	default:
		return n, nil
	}
	return 0, w.err
}
