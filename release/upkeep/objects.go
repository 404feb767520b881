package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"tsmon/release/library"
	"tsmon/store/object"
)

// mendReleases puts back the objects of the releases that the log names.
func (r *repair) mendReleases(ctx context.Context) error {
	for _, version := range library.VersionsOf(r.log) {
		if err := r.mendRelease(ctx, version); err != nil {
			return err
		}
	}
	return nil
}

func (r *repair) mendRelease(ctx context.Context, version string) error {
	record, err := r.record(ctx, version)
	if err != nil {
		return err
	}
	pruned, lost := r.log.Pruned(version), record == nil
	if record == nil {
		record = &library.Record{}
	}
	for i := range record.Bundles {
		b := &record.Bundles[i]
		ok, err := r.mendBundle(ctx, version, b, pruned)
		if err != nil {
			return err
		}
		lost = lost || !ok
	}
	if lost && !pruned && !r.needed(version) {
		r.gone = append(r.gone, version)
	}
	return nil
}

// record returns the record of a version that the log names, put back if its bytes are
// at hand; nil if they are not.
func (r *repair) record(ctx context.Context, version string) (*library.Record, error) {
	l, sum := r.Library, r.log.Record(version)
	record, err := l.Named(ctx, version, sum)
	if err == nil || !errors.Is(err, library.ErrStored) && !errors.Is(err, library.ErrNoRelease) {
		return record, err
	}
	data := r.bytesOf(sum)
	if data == nil {
		return nil, nil
	}
	records, err := l.Readable(ctx, version)
	if err != nil {
		return nil, err
	}
	key := library.RecordKey(version, len(records)+1)
	err = r.do(key, "put back", func() error { return r.replace(ctx, key, data, library.RecordAttributes) })
	if err != nil || r.o.DryRun {
		return &library.Record{}, err
	}
	return l.Named(ctx, version, sum)
}

// mendBundle puts a bundle and its signature back. ok is false if the bundle is lost.
func (r *repair) mendBundle(ctx context.Context, version string, b *library.Stored, pruned bool) (ok bool, err error) {
	l, key := r.Library, library.BundleKey(version, b.Name)
	same, err := l.Holds(ctx, key, b.Size, b.CRC64)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return false, err
	}
	if !same {
		if ok, err = r.putBack(ctx, key, b, missing); err != nil || !ok {
			if !missing && !ok {
				r.wrong = append(r.wrong, key)
			}
			return pruned && missing, err
		}
	}
	if b.Signature == "" {
		return true, nil
	}
	if signed, err := r.signed(ctx, key, b); err != nil || signed {
		return signed, err
	}
	return true, r.do(key+".sig", "written anew from the record", func() error {
		return r.replace(ctx, key+".sig", []byte(b.Signature), library.SignatureAttributes)
	})
}

// putBack uploads the bytes of a bundle, if a file has them.
func (r *repair) putBack(ctx context.Context, key string, b *library.Stored, missing bool) (ok bool, err error) {
	for i := range r.files {
		f := &r.files[i]
		if f.blake2b != b.BLAKE2b || f.size != b.Size {
			continue
		}
		f.used = true
		return true, r.do(key, "put back", func() error {
			if !missing {
				if err := r.Library.Store.Delete(ctx, key); err != nil {
					return err
				}
			}
			file, err := os.Open(f.path)
			if err != nil {
				return err
			}
			defer file.Close()
			if _, err = r.Library.Store.Create(ctx, key, file, b.Size, library.BundleAttributes); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s: %w", f.path, err)
			}
			return library.CompareDigest(ctx, r.Library.Store, key, b.Digest())
		})
	}
	return false, nil
}

// replace writes a small object, in place of other bytes if there are any.
func (r *repair) replace(ctx context.Context, key string, data []byte, attrs object.Attributes) error {
	if err := r.Library.Store.Delete(ctx, key); err != nil {
		return err
	}
	_, err := r.Library.Store.Create(ctx, key, bytes.NewReader(data), int64(len(data)), attrs)
	return err
}
