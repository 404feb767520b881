package release

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/minio/crc64nvme"
	"golang.org/x/sync/errgroup"

	"tsmon/signing"
	"tsmon/store/object"
)

// sideBySide is how many bundles are read at once: hashing one takes a core.
const sideBySide = 2

// CacheControl is the header of everything in a release's folder, wherever it is
// served: it never changes.
const CacheControl = "public, max-age=31536000, immutable"

var (
	bundleAttributes    = object.Attributes{ContentType: "application/octet-stream", CacheControl: CacheControl}
	signatureAttributes = object.Attributes{ContentType: "text/plain; charset=utf-8", CacheControl: CacheControl}
	recordAttributes    = object.Attributes{ContentType: "application/json", CacheControl: CacheControl}
)

// stage reads bundles side by side and sends each to where sink says. What
// comes back is sorted by name, signed and verified.
func (p *Publisher) stage(ctx context.Context, version string, bundles []Bundle, key *signing.PrivateKey, sink sink) ([]Stored, error) {
	stored := make([]Stored, len(bundles))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(sideBySide)
	for i, b := range bundles {
		group.Go(func() (err error) {
			stored[i], err = p.stageOne(ctx, version, b, key, sink)
			if err != nil && !errors.As(err, new(*Refusal)) {
				err = fmt.Errorf("%s: %w", b.Path, err)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(stored, func(a, b Stored) int { return strings.Compare(a.Name, b.Name) })
	return stored, nil
}

// sink takes the bytes of a bundle to their place; it must not commit them
// before r has ended without an error.
type sink func(ctx context.Context, b Bundle, r *reading) error

// discard is the sink that only lets the bytes be hashed and verified.
func discard(ctx context.Context, _ Bundle, r *reading) error {
	buf := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := r.Read(buf); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// errTaken says that an object with other bytes has the name of a bundle.
var errTaken = errors.New("the name is taken by other bytes")

// upload returns the sink that creates the bundle in the store. A bundle that
// stands there already is compared instead: then r is read to its end for the
// digest, and the store's bytes are fetched for theirs. It is errTaken if they
// differ.
func (p *Publisher) upload(version string) sink {
	return func(ctx context.Context, b Bundle, r *reading) error {
		key := folder(version) + b.Name
		_, err := p.Store.Create(ctx, key, r, b.Size, bundleAttributes)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := discard(ctx, b, r); err != nil {
			return err
		}
		return p.compareStored(ctx, key, r.digest)
	}
}

// compareStored fetches a stored bundle, which an interrupted or concurrent
// publish left there, and compares its digest.
func (p *Publisher) compareStored(ctx context.Context, key string, want signing.Digest) error {
	body, _, err := p.Store.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	defer body.Close()
	digest, _, err := signing.HashReader(ctx, body)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	if digest != want {
		return fmt.Errorf("%s: %w", key, errTaken)
	}
	return nil
}

// stageOne takes one bundle to its place. Where a publish that never came to its
// record left other bytes under the bundle's name (the build was repeated), the
// bundle gets a name with a part of its digest; which of them is the release's,
// the record decides.
func (p *Publisher) stageOne(ctx context.Context, version string, b Bundle, key *signing.PrivateKey, sink sink) (Stored, error) {
	stored, err := p.stageAs(ctx, version, b, key, sink)
	if errors.Is(err, errTaken) {
		b.Name = distinctName(b.Name, stored.BLAKE2b)
		stored, err = p.stageAs(ctx, version, b, key, sink)
	}
	return stored, err
}

// distinctName puts the beginning of a digest before the ending of a file name.
func distinctName(name, digest string) string {
	if kind, ok := Recognize(name); ok {
		return kind.stem + "_" + digest[:8] + kind.tail
	}
	return digest[:8] + "_" + name
}

// stageAs takes a bundle to its place under its name. With errTaken it returns
// the digest.
func (p *Publisher) stageAs(ctx context.Context, version string, b Bundle, key *signing.PrivateKey, sink sink) (Stored, error) {
	file, err := os.Open(b.Path)
	if err != nil {
		return Stored{}, err
	}
	defer file.Close()
	r := &reading{file: file, left: b.Size, crc: crc64nvme.New(), counted: func(n int) { p.Transferred(b.Name, n, b.Size) }}
	if err := r.begin(p, b); err != nil {
		return Stored{}, err
	}
	err = sink(ctx, b, r)
	stored := Stored{Name: b.Name, Keys: slices.Sorted(slices.Values(b.Keys)), Type: b.Type, Size: b.Size,
		BLAKE2b: hex.EncodeToString(r.digest[:]), CRC64: checksumText(r.crc.Sum64())}
	if err != nil {
		return stored, err
	}
	stored.Signature, err = p.signatureOf(version, b, key, r.digest)
	return stored, err
}

// signatureOf is the signature that a bundle has, or one that is made for it.
func (p *Publisher) signatureOf(version string, b Bundle, key *signing.PrivateKey, digest signing.Digest) (string, error) {
	if b.Signature != nil {
		return b.Signature.String(), nil
	}
	sig, err := key.Sign(digest, signing.Comment{Time: p.Now(), File: b.Name, Version: version, Target: b.Target})
	return sig.String(), err
}

// reading reads a bundle from disk, hashes what it hands out, and holds back
// the last bytes until the whole is known to be good: the file did not change
// meanwhile, and its signature, where it has one, verifies.
type reading struct {
	file     *os.File
	before   os.FileInfo
	left     int64
	hash     hash.Hash // for a bundle that is to be signed
	verifier *signing.Verifier
	crc      hash.Hash64
	digest   signing.Digest // valid once all was read
	counted  func(n int)
	err      error
}

func (r *reading) begin(p *Publisher, b Bundle) (err error) {
	if r.before, err = r.file.Stat(); err != nil {
		return err
	}
	if r.before.Size() != b.Size {
		return r.changed()
	}
	if b.Signature == nil {
		r.hash = signing.NewHash()
		return nil
	}
	r.verifier, err = p.Keys.Verifier(*b.Signature)
	return err
}

func (r *reading) changed() error {
	return refuse(ErrFile, "let nothing write to the bundle while it is published, then run it again", "%s", r.file.Name())
}

func (r *reading) Read(buf []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.file.Read(buf[:min(int64(len(buf)), r.left)])
	r.left -= int64(n)
	r.feed(buf[:n])
	switch {
	case err == io.EOF:
		r.err = r.changed()
	case err != nil:
		r.err = err
	case r.left == 0:
		r.err = r.finish()
	}
	if r.err != nil {
		return 0, r.err
	}
	return n, nil
}

func (r *reading) feed(p []byte) {
	if r.verifier != nil {
		r.verifier.Write(p) // a failure comes back from Verify
	} else {
		r.hash.Write(p)
	}
	r.crc.Write(p)
	r.counted(len(p))
}

// finish judges the whole bundle.
func (r *reading) finish() error {
	after, err := r.file.Stat()
	if err != nil {
		return err
	}
	if after.Size() != r.before.Size() || !after.ModTime().Equal(r.before.ModTime()) {
		return r.changed()
	}
	if r.verifier == nil {
		r.hash.Sum(r.digest[:0])
		return nil
	}
	r.digest = r.verifier.Digest()
	return r.verifier.Verify()
}

// storeSignature creates the .sig object of a bundle. Where one stands that
// verifies too (the bundle was signed anew after an interruption), that one
// stays and is taken over.
func (p *Publisher) storeSignature(ctx context.Context, version string, b *Stored, allowUnbound bool) error {
	key := folder(version) + b.Name + ".sig"
	_, err := p.Store.Create(ctx, key, strings.NewReader(b.Signature), int64(len(b.Signature)), signatureAttributes)
	if !errors.Is(err, fs.ErrExist) {
		if err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
		return nil
	}
	standing, err := p.readObject(ctx, key, signing.MaxSignature)
	if err != nil || bytes.Equal(standing, []byte(b.Signature)) {
		return err
	}
	sig, err := p.checkSignature(string(standing), version, b.Keys, allowUnbound)
	if err == nil {
		err = p.Keys.VerifyDigest(sig, digestOf(b.BLAKE2b))
	}
	if err != nil {
		return &Refusal{Cause: fmt.Errorf("%w: %w", ErrOtherBytes, err), Text: key + " stands in the store", Mend: "publish a higher version"}
	}
	b.Signature = string(standing)
	return nil
}

// counted passes what is written on to w and reports it as progress.
func (p *Publisher) counted(w io.Writer, name string, total int64) io.Writer {
	return writerFunc(func(data []byte) (int, error) {
		n, err := w.Write(data)
		p.Transferred(name, n, total)
		return n, err
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// readSmall reads a file that is at most limit bytes long.
func readSmall(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = refuse(ErrBundles, "check what the file is", "%s is larger than %d bytes", path, limit)
	}
	return data, err
}

// recordOf puts together what a release consists of.
func (p *Publisher) recordOf(o PublishOptions, bundles []Stored) *Record {
	return &Record{Version: o.Version, Notes: o.Notes, PubDate: p.Now().UTC().Truncate(time.Second), Who: p.Who, Extra: o.Extra, Bundles: bundles}
}
