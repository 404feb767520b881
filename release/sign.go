package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"tsmon/manifest"
	"tsmon/signing"
)

// Signed is a bundle that was signed on disk.
type Signed struct {
	Bundle  string `json:"bundle"`           // path
	Sig     string `json:"sig"`              // path of the signature
	KeyID   string `json:"key_id"`           //
	Version string `json:"version"`          // what the signature is bound to
	Target  string `json:"target,omitempty"` // likewise, if the name tells
	Size    int64  `json:"size"`             // bytes

	Signature signing.Signature `json:"-"`
}

// Signer signs bundles on disk.
type Signer struct {
	// Unlock opens the private key, which is work: it is done while the bundles
	// are read.
	Unlock  func() (signing.PrivateKey, error)
	Version string
	Now     func() time.Time
	// Transferred is called with each piece that was read, concurrently.
	Transferred func(bundle string, n int, total int64)
}

// Sign makes the signature of every bundle; Sig says where the Tauri CLI would
// put it. As many bundles are read at once as there are cores, in constant memory.
// A bundle that changes meanwhile is a *Refusal.
func (s *Signer) Sign(ctx context.Context, paths []string) ([]Signed, error) {
	if _, err := manifest.ParseVersion(s.Version); err != nil {
		return nil, &Refusal{Cause: err, Mend: "write MAJOR.MINOR.PATCH, such as 1.4.0"}
	}
	var key signing.PrivateKey
	var signed []Signed
	var digests []signing.Digest
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		key, err = s.Unlock()
		return err
	})
	group.Go(func() (err error) {
		signed, digests, err = s.readAll(ctx, paths)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i := range signed {
		if err := s.sign(key, &signed[i], digests[i]); err != nil {
			return nil, err
		}
	}
	return signed, nil
}

// readAll hashes bundles side by side.
func (s *Signer) readAll(ctx context.Context, paths []string) ([]Signed, []signing.Digest, error) {
	signed := make([]Signed, len(paths))
	digests := make([]signing.Digest, len(paths))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, path := range paths {
		group.Go(func() (err error) {
			signed[i], digests[i], err = s.read(ctx, path)
			if err != nil && !errors.As(err, new(*Refusal)) && !errors.As(err, new(*os.PathError)) {
				err = fmt.Errorf("%s: %w", path, err)
			}
			return err
		})
	}
	return signed, digests, group.Wait()
}

// read hashes a bundle and says what its signature is to be bound to.
func (s *Signer) read(ctx context.Context, path string) (Signed, signing.Digest, error) {
	kind, _ := Recognize(path)
	if kind.Version != "" && kind.Version != s.Version {
		return Signed{}, signing.Digest{}, refuse(ErrBundles, "give its own version, or rename it", "%s is named version %s, not %s", path, kind.Version, s.Version)
	}
	digest, size, err := s.hash(ctx, path)
	return Signed{Bundle: path, Sig: path + ".sig", Version: s.Version, Target: kind.Target, Size: size}, digest, err
}

// sign adds the signature of a digest.
func (s *Signer) sign(key signing.PrivateKey, b *Signed, digest signing.Digest) (err error) {
	b.Signature, err = key.Sign(digest, signing.Comment{Time: s.Now(), File: filepath.Base(b.Bundle), Version: b.Version, Target: b.Target})
	if err != nil {
		return fmt.Errorf("%s: %w", b.Bundle, err)
	}
	b.KeyID = b.Signature.KeyID()
	return nil
}

func (s *Signer) hash(ctx context.Context, path string) (digest signing.Digest, size int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return digest, 0, err
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return digest, 0, err
	}
	if !before.Mode().IsRegular() || before.Size() == 0 {
		return digest, 0, refuse(ErrBundles, "give the update archive itself", "%s is empty or not a regular file", path)
	}
	digest, size, err = signing.HashReader(ctx, &countingReader{file, func(n int) { s.Transferred(path, n, before.Size()) }})
	if err != nil {
		return digest, 0, err
	}
	after, err := file.Stat()
	if err == nil && (size != before.Size() || after.Size() != size || !after.ModTime().Equal(before.ModTime())) {
		err = refuse(ErrFile, "let nothing write to the bundle while it is signed, then run it again", "%s", path)
	}
	return digest, size, err
}

type countingReader struct {
	io.Reader
	counted func(n int)
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.counted(n)
	return n, err
}
