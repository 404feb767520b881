package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/minio/crc64nvme"
	"github.com/minio/minio-go/v7"

	"tsmon/store/object"
)

func (s *Store) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (_ object.Info, err error) {
	defer s.explain(ctx, "create", key, &err, fs.ErrExist)
	if err := errors.Join(ctx.Err(), object.ValidKey(key), uploadable(size)); err != nil {
		return object.Info{}, err
	}
	send := s.createLarge
	if size <= object.StraightSize {
		send = s.createSmall
	}
	sum, err := send(ctx, key, object.Exactly(r, size), size, attrs)
	if err != nil {
		return object.Info{}, err
	}
	return s.verify(ctx, key, "", size, sum)
}

// createSmall sends the object in one request and returns its checksum.
func (s *Store) createSmall(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (uint64, error) {
	buf, err := s.takeBuffer(ctx, size)
	if err != nil {
		return 0, err
	}
	defer s.giveBack(buf)
	if err := fill(buf[:size], r, true); err != nil {
		return 0, err
	}
	opts := putOptions(attrs)
	opts.SetMatchETagExcept("*")
	sum, _, err := s.put(ctx, key, buf[:size], opts)
	return sum, err
}

func (s *Store) Swap(ctx context.Context, key, etag string, data []byte, attrs object.Attributes) (_ object.Info, err error) {
	defer s.explain(ctx, "swap", key, &err, object.ErrChanged)
	if err := errors.Join(ctx.Err(), object.ValidKey(key), swappable(etag, data)); err != nil {
		return object.Info{}, err
	}
	opts := putOptions(attrs)
	if etag == "" {
		opts.SetMatchETagExcept("*")
	} else {
		opts.SetMatchETag(etag)
	}
	sum, written, err := s.put(ctx, key, data, opts)
	if isCode(err, "NoSuchKey") {
		return object.Info{}, errRefused // no object has that ETag
	}
	if err != nil {
		return object.Info{}, err
	}
	return s.verify(ctx, key, written, int64(len(data)), sum)
}

func swappable(etag string, data []byte) error {
	switch {
	case len(data) > object.MaxSwap:
		return fmt.Errorf("%d bytes are too many to swap; at most %d are allowed", len(data), object.MaxSwap)
	case etag == "*":
		return object.ErrChanged // in a header it would match any
	}
	return nil
}

// put sends data in one request and returns its checksum and its ETag.
func (s *Store) put(ctx context.Context, key string, data []byte, opts minio.PutObjectOptions) (sum uint64, etag string, err error) {
	sum = crc64nvme.Checksum(data)
	opts.UserMetadata = map[string]string{checksumHeader: encode(sum)}
	digest := sha256.Sum256(data)
	info, err := s.core.PutObject(ctx, s.bucket, s.path(key), bytes.NewReader(data), int64(len(data)), "", hex.EncodeToString(digest[:]), opts)
	return sum, info.ETag, s.bucketFirst(ctx, err)
}

const (
	checksumHeader = "X-Amz-Checksum-Crc64nvme"
	checksumType   = "X-Amz-Checksum-Type"
	wholeObject    = "FULL_OBJECT"
)

func encode(sum uint64) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, sum))
}

// putOptions disable the signature of each chunk, since the checksum header is signed and
// release bundles have signatures of their own.
func putOptions(attrs object.Attributes) minio.PutObjectOptions {
	return minio.PutObjectOptions{ContentType: attrs.ContentType, CacheControl: attrs.CacheControl, DisableContentSha256: true}
}

// verify returns object.ErrCorrupt unless the stored object has this size and checksum, and
// object.ErrChanged if written is not empty and the object has another ETag by now.
func (s *Store) verify(ctx context.Context, key, written string, size int64, sum uint64) (object.Info, error) {
	var stored uint64
	o, info, err := s.head(ctx, key)
	if err == nil && written != "" && info.ETag != written {
		return object.Info{}, object.ErrChanged
	}
	if err == nil {
		stored, err = s.checksum(ctx, key, o)
	}
	switch {
	case isCode(err, "NoSuchKey"):
		return object.Info{}, fmt.Errorf("%w: the store accepted the object and lost it", object.ErrCorrupt)
	case err != nil:
		return object.Info{}, err
	case o.Size != size || stored != sum:
		return object.Info{}, fmt.Errorf("%s: %w: %d bytes with checksum %016x instead of %d with %016x",
			s.place(), object.ErrCorrupt, o.Size, stored, size, sum)
	}
	return info, nil
}

// fill reads len(buf) bytes of r, and for the last part also its end.
func fill(buf []byte, r io.Reader, last bool) error {
	if _, err := io.ReadFull(r, buf); err != nil {
		return sourceError{err}
	}
	if !last {
		return nil
	}
	if _, err := io.ReadFull(r, make([]byte, 1)); err != io.EOF {
		return sourceError{err}
	}
	return nil
}
