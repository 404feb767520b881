package bundle

import (
	"context"
	"errors"
	"fmt"
	"hash"
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
	s, err := open(b)
	if err != nil {
		return Contents{}, err
	}
	defer s.Close()
	c := Contents{Bundle: b, modTime: s.before.ModTime()}
	crc := crc64nvme.New()
	if !r.digestOnly {
		s.writers = []io.Writer{crc}
	}
	if r.Transferred != nil {
		s.read = func(n int) { r.Transferred(b.Name, n, b.Size) }
	}
	var legacy *signing.Verifier // needs the bundle itself
	if b.Signature != nil && !b.Signature.Prehashed() {
		if legacy, err = r.Keys.Verifier(*b.Signature); err != nil {
			return Contents{}, err
		}
		s.writers = append(s.writers, legacy)
	}
	if c.Digest, _, err = signing.HashReader(ctx, s); err != nil {
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
// ErrChanged. transferred, if not nil, is called with the length of each piece.
func (c *Contents) Open(transferred func(n int)) (io.ReadCloser, error) {
	s, err := open(c.Bundle)
	if err != nil {
		return nil, err
	}
	if !s.before.ModTime().Equal(c.modTime) {
		s.Close()
		return nil, changed(c.Path)
	}
	s.crc, s.want, s.read = crc64nvme.New(), c.CRC64, transferred
	s.writers = []io.Writer{s.crc}
	return s, nil
}

// source reads a bundle from disk. It fails with ErrChanged, instead of
// returning the last bytes, if the file changed meanwhile.
type source struct {
	*os.File
	before  os.FileInfo
	left    int64
	writers []io.Writer // are given what was read
	read    func(n int) // nil: nobody counts
	crc     hash.Hash64 // nil: not compared
	want    uint64
	err     error
}

func open(b Bundle) (*source, error) {
	file, err := os.Open(b.Path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() != b.Size {
		err = changed(b.Path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &source{File: file, before: info, left: b.Size}, nil
}

func changed(path string) error {
	return Refuse(ErrChanged, "let nothing write to the bundle meanwhile, then run it again", "%s", path)
}

func (s *source) Read(buf []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.File.Read(buf[:min(int64(len(buf)), s.left)])
	s.left -= int64(n)
	for _, w := range s.writers {
		_, _ = w.Write(buf[:n]) // hashes don't fail; a verifier fails again in Verify
	}
	if s.read != nil {
		s.read(n)
	}
	switch {
	case errors.Is(err, io.EOF):
		s.err = changed(s.Name())
	case err != nil:
		s.err = err
	case s.left == 0:
		if err := s.end(); err != nil {
			s.err = err
			return 0, err
		}
		s.err = io.EOF
		return n, nil
	}
	if s.err != nil {
		return 0, s.err
	}
	return n, nil
}

// end judges the file once all of it was read.
func (s *source) end() error {
	after, err := s.Stat()
	if err != nil {
		return err
	}
	if after.Size() != s.before.Size() || !after.ModTime().Equal(s.before.ModTime()) {
		return changed(s.Name())
	}
	if s.crc != nil && s.crc.Sum64() != s.want {
		return changed(s.Name())
	}
	return nil
}
